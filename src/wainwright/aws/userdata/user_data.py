"""User data for each AMI family, checked against EC2's size limit.

That of Windows is written here: PowerShell that calls the image's Start-EKSBootstrap.ps1 after
the user's lines.
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
    lines, around = _split_custom_script(bootstrap.custom_user_data)
    table = bootstrap.max_pods_table
    lookup = "" if table is None or table.is_uniform else powershell_lookup(table)
    ours = f"{lookup}{BOOTSTRAP_FILE}\n{' '.join(_bootstrap_call(bootstrap))}\n"
    return f"<powershell>\n{lines}{ours}</powershell>\n{around}"


def _split_custom_script(text: str) -> tuple[str, str]:
    """The user's lines of PowerShell, with or without tags; and the text around the tags."""
    inside = POWERSHELL_BLOCK.findall(text) or [text]
    around = POWERSHELL_BLOCK.sub("", text).strip() if POWERSHELL_BLOCK.search(text) else ""
    lines = [each.strip("\r\n") for each in inside if each.strip()]
    return "".join(f"{each}\n" for each in lines), around and f"{around}\n"


def _bootstrap_call(bootstrap: BootstrapOptions) -> Iterator[str]:
    yield BOOTSTRAP_CALL
    yield f"-EKSClusterName {_powershell_quote(bootstrap.cluster)}"
    yield f"-APIServerEndpoint {_powershell_quote(bootstrap.endpoint)}"
    yield f"-Base64ClusterCA {_powershell_quote(bootstrap.ca)}"
    if bootstrap.dns_ips:  # the script accepts only one
        yield f"-DNSClusterIP {_powershell_quote(bootstrap.dns_ips[0])}"
    yield f"-KubeletExtraArgs {_kubelet_args(bootstrap)}"


def _kubelet_args(bootstrap: BootstrapOptions) -> str:
    flags, table = kubelet_flags(bootstrap), bootstrap.max_pods_table
    if table is None:
        return _powershell_quote(flags)
    if table.is_uniform:
        return _powershell_quote(f"{flags} --max-pods={table.default_pods}")
    return f'({_powershell_quote(flags)} + " --max-pods=$MaxPods")'


def _powershell_quote(text: str) -> str:
    """Inside single quotes PowerShell expands nothing; the quote itself is doubled."""
    return "'" + text.replace("'", "''") + "'"


MAX_USER_DATA_BYTES: Final = 16_384
"""EC2's limit, before base64 encoding."""
USER_DATA_WARNING_SIZE: Final = MAX_USER_DATA_BYTES * 9 // 10


class UserDataTooLarge(InvalidInputError):
    """User data above EC2's limit."""


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
        limit = MAX_USER_DATA_BYTES
        return (f"user data takes {self.size:,} of the {limit:,} bytes that EC2 allows",)


def _custom_user_data(bootstrap: BootstrapOptions) -> str:
    """The user's text unchanged: how a custom image boots is not known here."""
    return bootstrap.custom_user_data


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
"""Families whose instances look up max-pods in a table; the others get a single number."""


def build_user_data(family: AmiFamily, bootstrap: BootstrapOptions) -> UserData:
    """The user data of an instance of the family; UserDataTooLarge above EC2's limit."""
    user_data = UserData(USER_DATA_BUILDERS[family](bootstrap))
    if user_data.size > MAX_USER_DATA_BYTES:
        raise UserDataTooLarge(
            f"user data would take {user_data.size:,} bytes, and EC2 allows "
            f"{MAX_USER_DATA_BYTES:,}; {len(bootstrap.custom_user_data.encode()):,} of them are "
            "the class's own userData",
            "shorten userData in the EC2NodeClass, for example by fetching scripts from S3",
        )
    return user_data
