"""Windows: PowerShell that calls the image's Start-EKSBootstrap.ps1, after the user's own lines."""

import re
from collections.abc import Iterator
from typing import Final

from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.flags import flags
from wainwright.aws.userdata.lookup import in_powershell

SCRIPT: Final = re.compile(r"<powershell>(.*?)</powershell>", re.DOTALL | re.IGNORECASE)
CALL: Final = "& $EKSBootstrapScriptFile"
FILE: Final = (
    '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"'
)


def windows(bootstrap: Bootstrap) -> str:
    lines, around = _of_user(bootstrap.text)
    found = bootstrap.table
    lookup = "" if found is None or found.uniform else in_powershell(found)
    ours = f"{lookup}{FILE}\n{' '.join(_call(bootstrap))}\n"
    return f"<powershell>\n{lines}{ours}</powershell>\n{around}"


def _of_user(text: str) -> tuple[str, str]:
    """The user's lines of PowerShell, with or without tags; and what stands beside such tags."""
    inside = SCRIPT.findall(text) or [text]
    around = SCRIPT.sub("", text).strip() if SCRIPT.search(text) else ""
    lines = [each.strip("\r\n") for each in inside if each.strip()]
    return "".join(f"{each}\n" for each in lines), around and f"{around}\n"


def _call(bootstrap: Bootstrap) -> Iterator[str]:
    yield CALL
    yield f"-EKSClusterName {_quoted(bootstrap.cluster)}"
    yield f"-APIServerEndpoint {_quoted(bootstrap.endpoint)}"
    yield f"-Base64ClusterCA {_quoted(bootstrap.ca)}"
    if bootstrap.dns_ips:  # the script takes one only
        yield f"-DNSClusterIP {_quoted(bootstrap.dns_ips[0])}"
    yield f"-KubeletExtraArgs {_kubelet(bootstrap)}"


def _kubelet(bootstrap: Bootstrap) -> str:
    said, found = flags(bootstrap), bootstrap.table
    if found is None:
        return _quoted(said)
    if found.uniform:
        return _quoted(f"{said} --max-pods={found.otherwise}")
    return f'({_quoted(said)} + " --max-pods=$MaxPods")'


def _quoted(text: str) -> str:
    """Inside single quotes PowerShell expands nothing; the quote itself is doubled."""
    return "'" + text.replace("'", "''") + "'"
