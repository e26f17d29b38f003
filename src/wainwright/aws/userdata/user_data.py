"""User data for each family of images, checked against what EC2 takes.

That of Windows is written here: PowerShell that calls the image's Start-EKSBootstrap.ps1, after
the user's own lines.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from wainwright.aws.userdata.amazon_linux import al2_user_data, al2023_user_data
from wainwright.aws.userdata.bootstrap_options import (
    BootstrapOptions,
    kubelet_flags,
    powershell_lookup,
)
from wainwright.aws.userdata.bottlerocket import bottlerocket_user_data
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.errors import InvalidInputError

POWERSHELL_BLOCK: Final = re.compile(r"<powershell>(.*?)</powershell>", re.DOTALL | re.IGNORECASE)
BOOTSTRAP_CALL: Final = "& $EKSBootstrapScriptFile"
BOOTSTRAP_FILE: Final = (
    '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"'
)


def windows_user_data(bootstrap: BootstrapOptions) -> str:
    lines, around = _split_custom_script(bootstrap.text)
    found = bootstrap.table
    lookup = "" if found is None or found.uniform else powershell_lookup(found)
    ours = f"{lookup}{BOOTSTRAP_FILE}\n{' '.join(_bootstrap_call(bootstrap))}\n"
    return f"<powershell>\n{lines}{ours}</powershell>\n{around}"


def _split_custom_script(text: str) -> tuple[str, str]:
    """The user's lines of PowerShell, with or without tags; and what stands beside such tags."""
    inside = POWERSHELL_BLOCK.findall(text) or [text]
    around = POWERSHELL_BLOCK.sub("", text).strip() if POWERSHELL_BLOCK.search(text) else ""
    lines = [each.strip("\r\n") for each in inside if each.strip()]
    return "".join(f"{each}\n" for each in lines), around and f"{around}\n"


def _bootstrap_call(bootstrap: BootstrapOptions) -> Iterator[str]:
    yield BOOTSTRAP_CALL
    yield f"-EKSClusterName {_powershell_quote(bootstrap.cluster)}"
    yield f"-APIServerEndpoint {_powershell_quote(bootstrap.endpoint)}"
    yield f"-Base64ClusterCA {_powershell_quote(bootstrap.ca)}"
    if bootstrap.dns_ips:  # the script takes one only
        yield f"-DNSClusterIP {_powershell_quote(bootstrap.dns_ips[0])}"
    yield f"-KubeletExtraArgs {_kubelet_args(bootstrap)}"


def _kubelet_args(bootstrap: BootstrapOptions) -> str:
    said, found = kubelet_flags(bootstrap), bootstrap.table
    if found is None:
        return _powershell_quote(said)
    if found.uniform:
        return _powershell_quote(f"{said} --max-pods={found.otherwise}")
    return f'({_powershell_quote(said)} + " --max-pods=$MaxPods")'


def _powershell_quote(text: str) -> str:
    """Inside single quotes PowerShell expands nothing; the quote itself is doubled."""
    return "'" + text.replace("'", "''") + "'"


USER_DATA_LIMIT: Final = 16_384
"""Bytes, before they are encoded in base64."""
USER_DATA_WARNING_SIZE: Final = USER_DATA_LIMIT * 9 // 10


class UserDataTooLarge(InvalidInputError):
    """User data that EC2 would refuse."""


class UserData(msgspec.Struct, frozen=True):
    text: str

    @property
    def size(self) -> int:
        """In bytes, as EC2 counts them."""
        return len(self.text.encode())

    @property
    def encoded(self) -> str:
        """As a launch template holds it."""
        return b64encode(self.text.encode()).decode()

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.size < USER_DATA_WARNING_SIZE:
            return ()
        return (f"user data takes {self.size:,} of the {USER_DATA_LIMIT:,} bytes that EC2 allows",)


def _custom_user_data(bootstrap: BootstrapOptions) -> str:
    """The user's text as it is: whoever brings the image knows how it boots."""
    return bootstrap.text


USER_DATA_BUILDERS: Final[Mapping[AmiFamily, Callable[[BootstrapOptions], str]]] = {
    AmiFamily.AL2: al2_user_data,
    AmiFamily.AL2023: al2023_user_data,
    AmiFamily.BOTTLEROCKET: bottlerocket_user_data,
    AmiFamily.WINDOWS2019: windows_user_data,
    AmiFamily.WINDOWS2022: windows_user_data,
    AmiFamily.WINDOWS2025: windows_user_data,
    AmiFamily.CUSTOM: _custom_user_data,
}
MAX_PODS_LOOKUP_FAMILIES: Final = frozenset(USER_DATA_BUILDERS) - {
    AmiFamily.BOTTLEROCKET,
    AmiFamily.CUSTOM,
}
"""Families whose instances find the pods they take in a table; the others are told one number."""


def build_user_data(family: AmiFamily, bootstrap: BootstrapOptions) -> UserData:
    """What an instance of the family boots with; UserDataTooLarge where EC2 would not take it."""
    made = UserData(USER_DATA_BUILDERS[family](bootstrap))
    if made.size > USER_DATA_LIMIT:
        raise UserDataTooLarge(
            f"user data would take {made.size:,} bytes, and EC2 allows {USER_DATA_LIMIT:,}; "
            f"{len(bootstrap.text.encode()):,} of them are the class's own userData",
            "shorten userData in the EC2NodeClass, for example by fetching scripts from S3",
        )
    return made
