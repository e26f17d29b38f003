"""AL2: MIME of shell scripts, of which the last calls the image's bootstrap.sh."""

from collections.abc import Iterator
from shlex import quote
from typing import Final

from wainwright.aws.userdata import mime
from wainwright.aws.userdata.bootstrap import Bootstrap, IpFamily
from wainwright.aws.userdata.flags import flags
from wainwright.aws.userdata.lookup import in_shell

CALL: Final = "/etc/eks/bootstrap.sh"
KEEP: Final = "${kube_reserved:+ --kube-reserved=$kube_reserved}"
"""After the flag of the class, whose other resources stay: of two such flags the kubelet takes
both, and the later where they speak of the same resource."""


def al2(bootstrap: Bootstrap) -> str:
    return mime.document([*_of_user(bootstrap.text), mime.script(_script(bootstrap))])


def _script(bootstrap: Bootstrap) -> str:
    found = bootstrap.table
    lookup = "" if found is None or found.uniform else in_shell(found)
    return f"#!/bin/bash\n{lookup}{' '.join(_call(bootstrap))}\n"


def _call(bootstrap: Bootstrap) -> Iterator[str]:
    yield f"{CALL} {quote(bootstrap.cluster)}"
    yield f"--apiserver-endpoint {quote(bootstrap.endpoint)}"
    yield f"--b64-cluster-ca {quote(bootstrap.ca)}"
    if bootstrap.dns_ips:
        yield f"--dns-cluster-ip {quote(','.join(bootstrap.dns_ips))}"
    if bootstrap.ip_family is IpFamily.IPV6:
        yield "--ip-family ipv6"
        if bootstrap.cidr:
            yield f"--service-ipv6-cidr {quote(bootstrap.cidr)}"
    if bootstrap.stripes_disks:
        yield "--local-disks raid0"
    if bootstrap.table is not None:
        # Else the script would write the number that its own list of interfaces gives.
        yield "--use-max-pods false"
    yield f"--kubelet-extra-args {_kubelet(bootstrap)}"


def _kubelet(bootstrap: Bootstrap) -> str:
    """One argument in single quotes, and after it, in double ones, what was looked up."""
    said, found = flags(bootstrap), bootstrap.table
    if found is None:
        return quote(said)
    if found.uniform:
        return quote(f"{said} --max-pods={found.otherwise}")
    return f'{quote(said)}" --max-pods=$max_pods{KEEP if found.reserves else ""}"'


def _of_user(text: str) -> Iterator[mime.Part]:
    if mime.is_mime(text):
        yield from mime.parts(text)
    elif text.strip():
        yield mime.script(text)
