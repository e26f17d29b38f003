"""User data of Amazon Linux: MIME in several parts, of which cloud-init or nodeadm reads its own.

AL2: shell scripts, of which the last calls the image's bootstrap.sh.

AL2023: a NodeConfig for nodeadm, and a script for what only the instance knows. The order at boot,
which the script relies on: `nodeadm-config` reads the NodeConfig parts and writes the kubelet's
configuration; then cloud-init runs the scripts; then `nodeadm-run` starts the kubelet. The script
can therefore still say how many pods its node takes. It does so in a file of its own beside the one
of nodeadm, where later files win (kubelet 1.29 and later; the directory is there because our
NodeConfig always sets something), and which outlives a reboot. Older kubelets have the number
changed in their only file. A drop-in for nodeadm itself would be ignored by images that know no
such directory, and a script that runs before `nodeadm-config` would be overwritten. In the same way
it says what memory the kubelet reserves, where the image would be wrong; such files are merged key
by key, so that nothing else of `kubeReserved` is touched.

What the user has written comes first. nodeadm merges NodeConfigs in order, so that ours wins where
both speak, and the user's settings stay where we say nothing.
"""

from collections.abc import Iterable, Iterator
from email import message_from_string
from email.message import Message
from shlex import quote
from typing import Any, Final

import msgspec
import yaml

from wainwright.aws.userdata.bootstrap_options import (
    BootstrapOptions,
    IpFamily,
    kubelet_flags,
    shell_lookup,
)
from wainwright.errors import InvalidInputError

NODE_CONFIG_TYPE: Final = "application/node.eks.aws"
SHELL_SCRIPT_TYPE: Final = "text/x-shellscript"
CLOUD_INIT_TYPES: Final = {
    "#cloud-config": "text/cloud-config",
    "#cloud-boothook": "text/cloud-boothook",
}
"""Texts that cloud-init knows by how they begin."""


class MimePart(msgspec.Struct, frozen=True):
    """Headers and body, both as they are written: nothing is decoded on the way through."""

    headers: tuple[tuple[str, str], ...]
    body: str


def mime_part(content_type: str, body: str) -> MimePart:
    charset = "us-ascii" if body.isascii() else "utf-8"
    kind = f'{content_type}; charset="{charset}"' if content_type.startswith("text/") else ""
    return MimePart((("Content-Type", kind or content_type),), body)


def script_part(body: str) -> MimePart:
    """A part for cloud-init by how it begins; a text without a first line of its own is bash."""
    body = body.lstrip("\r\n")
    first = body.partition("\n")[0].strip()
    if first in CLOUD_INIT_TYPES:
        return mime_part(CLOUD_INIT_TYPES[first], body)
    return mime_part(SHELL_SCRIPT_TYPE, body if first.startswith("#!") else f"#!/bin/bash\n{body}")


def is_mime(text: str) -> bool:
    first = text.lstrip().partition(":")[0].lower()
    return first in ("mime-version", "content-type")


def parse_mime_parts(text: str) -> tuple[MimePart, ...]:
    """The parts of a document that a user has written, nested ones one after the other."""
    message = message_from_string(text.lstrip())
    if message.get_content_maintype() == "multipart" and not message.is_multipart():
        raise InvalidInputError(
            "the user data says that it is MIME in several parts, but has none",
            "check that its boundary is the one that its parts are divided by",
        )
    return tuple(_parse_part(each) for each in message.walk() if not each.is_multipart())


def _parse_part(message: Message) -> MimePart:
    headers = tuple(
        (name, value) for name, value in message.items() if name.lower() != "mime-version"
    )
    return MimePart(headers or (("Content-Type", "text/plain"),), str(message.get_payload()))


def mime_document(written: Iterable[MimePart]) -> str:
    """All parts in one document; the boundary is one that no body can be mistaken for."""
    every = tuple(written)
    boundary = _choose_boundary(every)
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for each in every:
        headers = [f"{name}: {value}" for name, value in each.headers]
        lines += [f"--{boundary}", *headers, "", each.body]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _choose_boundary(every: tuple[MimePart, ...]) -> str:
    lines = [line for each in every for line in each.body.splitlines()]
    return next(
        name
        for name in _boundary_candidates()
        if not any(line.startswith(f"--{name}") for line in lines)
    )


def _boundary_candidates() -> Iterator[str]:
    yield "//"
    number = 1
    while True:
        yield f"={number}="
        number += 1


BOOTSTRAP_SCRIPT: Final = "/etc/eks/bootstrap.sh"
KUBE_RESERVED_FLAG: Final = "${kube_reserved:+ --kube-reserved=$kube_reserved}"
"""After the flag of the class, whose other resources stay: of two such flags the kubelet takes
both, and the later where they speak of the same resource."""


def al2_user_data(bootstrap: BootstrapOptions) -> str:
    return mime_document([*_al2_custom_parts(bootstrap.text), script_part(_al2_script(bootstrap))])


def _al2_script(bootstrap: BootstrapOptions) -> str:
    found = bootstrap.table
    lookup = "" if found is None or found.uniform else shell_lookup(found)
    return f"#!/bin/bash\n{lookup}{' '.join(_al2_bootstrap_call(bootstrap))}\n"


def _al2_bootstrap_call(bootstrap: BootstrapOptions) -> Iterator[str]:
    yield f"{BOOTSTRAP_SCRIPT} {quote(bootstrap.cluster)}"
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
    yield f"--kubelet-extra-args {_al2_kubelet_args(bootstrap)}"


def _al2_kubelet_args(bootstrap: BootstrapOptions) -> str:
    """One argument in single quotes, and after it, in double ones, what was looked up."""
    said, found = kubelet_flags(bootstrap), bootstrap.table
    if found is None:
        return quote(said)
    if found.uniform:
        return quote(f"{said} --max-pods={found.otherwise}")
    return f'{quote(said)}" --max-pods=$max_pods{KUBE_RESERVED_FLAG if found.reserves else ""}"'


def _al2_custom_parts(text: str) -> Iterator[MimePart]:
    if is_mime(text):
        yield from parse_mime_parts(text)
    elif text.strip():
        yield script_part(text)


NODE_CONFIG_API_VERSION: Final = "node.eks.aws/v1alpha1"
NODE_CONFIG_GROUP: Final = "node.eks.aws/"
NODE_CONFIG_KIND: Final = "NodeConfig"

SET_MAX_PODS: Final = """\
config=/etc/kubernetes/kubelet/config.json
if [ -d $config.d ]; then
  echo '{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration",'\\
"\\"maxPods\\":$max_pods}" > $config.d/90-wain-max-pods.conf
else
  sed -i "s/\\"maxPods\\": *[0-9]*/\\"maxPods\\": $max_pods/" $config
fi
"""
SET_KUBE_RESERVED: Final = """\
if [ -n "$kube_reserved" ]; then
  memory=${kube_reserved#memory=}
  if [ -d $config.d ]; then
    echo '{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration",'\\
"\\"kubeReserved\\":{\\"memory\\":\\"$memory\\"}}" > $config.d/91-wain-kube-reserved.conf
  else
    sed -i '/"kubeReserved"/,/}/s/"memory": *"[^"]*"/"memory": "'$memory'"/' $config
  fi
fi
"""


def al2023_user_data(bootstrap: BootstrapOptions) -> str:
    written = [*_al2023_custom_parts(bootstrap.text)]
    found = bootstrap.table
    if found is not None and not found.uniform:
        keep = SET_KUBE_RESERVED if found.reserves else ""
        written.append(script_part(f"#!/bin/bash\n{shell_lookup(found)}{SET_MAX_PODS}{keep}"))
    config = yaml.safe_dump(node_config(bootstrap), width=10_000)
    return mime_document([*written, mime_part(NODE_CONFIG_TYPE, config)])


def node_config(bootstrap: BootstrapOptions) -> dict[str, Any]:
    if not bootstrap.cidr:
        raise InvalidInputError(
            "AL2023 must be told the cluster's service CIDR, and it is not known",
            "allow eks:DescribeCluster, or use another amiFamily",
        )
    spec: dict[str, Any] = {
        "cluster": {
            "name": bootstrap.cluster,
            "apiServerEndpoint": bootstrap.endpoint,
            "certificateAuthority": bootstrap.ca,
            "cidr": bootstrap.cidr,
        },
        "kubelet": {"config": _kubelet_config(bootstrap), "flags": [_node_labels_flag(bootstrap)]},
    }
    if bootstrap.stripes_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": NODE_CONFIG_API_VERSION, "kind": NODE_CONFIG_KIND, "spec": spec}


def _kubelet_config(bootstrap: BootstrapOptions) -> dict[str, Any]:
    taints = [
        {"key": each.key, "effect": each.effect} | ({"value": each.value} if each.value else {})
        for each in bootstrap.node_taints
    ]
    found = bootstrap.table
    pods = {} if found is None else {"maxPods": found.otherwise}
    return bootstrap.kubelet_settings | pods | {"registerWithTaints": taints}


def _node_labels_flag(bootstrap: BootstrapOptions) -> str:
    labels = (f"{key}={value}" for key, value in bootstrap.node_labels.items())
    return f"--node-labels={','.join(labels)}"


def _al2023_custom_parts(text: str) -> Iterator[MimePart]:
    if is_mime(text):
        yield from parse_mime_parts(text)
    elif configs := _node_configs(text):
        for each in configs:
            yield mime_part(NODE_CONFIG_TYPE, each)
    elif text.strip():
        yield script_part(text)


def _node_configs(text: str) -> list[str]:
    """The documents of a text that is nothing but NodeConfigs; none if it is anything else."""
    try:
        found = [each for each in yaml.safe_load_all(text) if each is not None]
    except (yaml.YAMLError, ValueError):  # the latter for a date that is none
        return []
    if not all(isinstance(each, dict) and _is_node_config(each) for each in found):
        return []
    if len(found) == 1:
        return [text]
    return [yaml.safe_dump(each, width=10_000) for each in found]


def _is_node_config(value: dict[str, Any]) -> bool:
    return value.get("kind") == NODE_CONFIG_KIND and str(value.get("apiVersion")).startswith(
        NODE_CONFIG_GROUP
    )
