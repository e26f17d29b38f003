"""User data of Amazon Linux: multipart MIME, of which cloud-init and nodeadm each read their parts.

AL2: shell scripts, of which the last calls the image's bootstrap.sh.

AL2023: a NodeConfig for nodeadm, and a script for settings that depend on the instance type. The
order at boot, which the script relies on: `nodeadm-config` reads the NodeConfig parts and writes
the kubelet's configuration; then cloud-init runs the scripts; then `nodeadm-run` starts the
kubelet. So the script can still set max-pods. It does so in a drop-in file of its own next to
nodeadm's, where later files win (kubelet 1.29 and later; the directory exists because our
NodeConfig always sets something), and which survives a reboot. With older kubelets the script
changes the number in their only file. A drop-in for nodeadm itself would be ignored by images
without such a directory, and a script that runs before `nodeadm-config` would be overwritten. In
the same way the script sets the memory that the kubelet reserves, where the image would be wrong;
drop-ins are merged key by key, so that the rest of `kubeReserved` is unchanged.

The user's parts come first. nodeadm merges NodeConfigs in order, so that ours wins where both set a
value, and the user's settings stay where ours has none.
"""

import re
from collections.abc import Iterable, Iterator
from email.message import Message
from shlex import quote
from typing import Any, Final

import msgspec

from wainwright.aws.userdata.bootstrap_options import (
    BootstrapOptions,
    IpFamily,
    kubelet_flags,
    shell_lookup,
)
from wainwright.errors import InvalidInputError
from wainwright.manifests.user_data_formats import (
    UnreadableUserData,
    dump_yaml_document,
    parse_mime,
    parse_yaml_documents,
)

NODE_CONFIG_TYPE: Final = "application/node.eks.aws"
SHELL_SCRIPT_TYPE: Final = "text/x-shellscript"
CLOUD_INIT_TYPES: Final = {
    "#cloud-config": "text/cloud-config",
    "#cloud-boothook": "text/cloud-boothook",
}
"""Formats that cloud-init recognises by their first line."""


class MimePart(msgspec.Struct, frozen=True):
    """Headers and body as written: nothing is decoded and encoded again."""

    headers: tuple[tuple[str, str], ...]
    body: str


def mime_part(content_type: str, body: str) -> MimePart:
    charset = "us-ascii" if body.isascii() else "utf-8"
    if content_type.startswith("text/"):
        content_type = f'{content_type}; charset="{charset}"'
    return MimePart((("Content-Type", content_type),), body)


def script_part(body: str) -> MimePart:
    """A part for cloud-init, by its first line; a text without a shebang is bash."""
    body = body.lstrip("\r\n")
    first = body.partition("\n")[0].strip()
    if first in CLOUD_INIT_TYPES:
        return mime_part(CLOUD_INIT_TYPES[first], body)
    return mime_part(SHELL_SCRIPT_TYPE, body if first.startswith("#!") else f"#!/bin/bash\n{body}")


def is_mime(text: str) -> bool:
    first = text.lstrip().partition(":")[0].lower()
    return first in ("mime-version", "content-type")


def parse_mime_parts(text: str) -> tuple[MimePart, ...]:
    """The parts of a user's document, nested ones flattened."""
    try:
        message, *inner = parse_mime(text)
    except UnreadableUserData as error:
        raise InvalidInputError(
            f"the user data says that it is MIME, and cannot be read: {error}",
            "write one multipart/mixed document, whose parts are divided by its boundary",
        ) from error
    if message.get_content_maintype() == "multipart" and not message.is_multipart():
        raise InvalidInputError(
            "the user data says that it is MIME in several parts, but has none",
            "check that its boundary is the one that its parts are divided by",
        )
    return tuple(_parse_part(each) for each in (message, *inner) if not each.is_multipart())


def _parse_part(message: Message) -> MimePart:
    headers = tuple(
        (name, value) for name, value in message.items() if name.lower() != "mime-version"
    )
    return MimePart(headers or (("Content-Type", "text/plain"),), str(message.get_payload()))


def mime_document(parts: Iterable[MimePart]) -> str:
    """All parts in one document; the boundary occurs in no body."""
    all_parts = tuple(parts)
    boundary = _choose_boundary(all_parts)
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for each in all_parts:
        headers = [f"{name}: {value}" for name, value in each.headers]
        lines += [f"--{boundary}", *headers, "", each.body]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _choose_boundary(parts: tuple[MimePart, ...]) -> str:
    lines = [line for each in parts for line in each.body.splitlines()]
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
"""Comes after the flag of the class, whose other resources stay: the kubelet merges two such flags,
and for the same resource the later one wins."""


def al2_user_data(bootstrap: BootstrapOptions) -> str:
    return mime_document(
        [*_al2_custom_parts(bootstrap.custom_user_data), script_part(_al2_script(bootstrap))]
    )


def _al2_script(bootstrap: BootstrapOptions) -> str:
    table = bootstrap.max_pods_table
    lookup = "" if table is None or table.is_uniform else shell_lookup(table)
    return f"#!/bin/bash\n{lookup}{' '.join(_al2_bootstrap_call(bootstrap))}\n"


def _al2_bootstrap_call(bootstrap: BootstrapOptions) -> Iterator[str]:
    yield f"{BOOTSTRAP_SCRIPT} {quote(bootstrap.cluster)}"
    yield f"--apiserver-endpoint {quote(bootstrap.endpoint)}"
    yield f"--b64-cluster-ca {quote(bootstrap.ca)}"
    if bootstrap.dns_ips:
        yield f"--dns-cluster-ip {quote(','.join(bootstrap.dns_ips))}"
    if bootstrap.ip_family is IpFamily.IPV6:
        yield "--ip-family ipv6"
        if bootstrap.service_cidr:
            yield f"--service-ipv6-cidr {quote(bootstrap.service_cidr)}"
    if bootstrap.uses_raid0:
        yield "--local-disks raid0"
    if bootstrap.max_pods_table is not None:
        # Otherwise bootstrap.sh sets max-pods from its own list of network interfaces.
        yield "--use-max-pods false"
    yield f"--kubelet-extra-args {_al2_kubelet_args(bootstrap)}"


def _al2_kubelet_args(bootstrap: BootstrapOptions) -> str:
    """One argument in single quotes, followed by the looked-up values in double quotes."""
    flags, table = kubelet_flags(bootstrap), bootstrap.max_pods_table
    if table is None:
        return quote(flags)
    if table.is_uniform:
        return quote(f"{flags} --max-pods={table.default_pods}")
    reserved = KUBE_RESERVED_FLAG if table.has_kube_reserved else ""
    return f'{quote(flags)}" --max-pods=$max_pods{reserved}"'


def _al2_custom_parts(text: str) -> Iterator[MimePart]:
    if is_mime(text):
        yield from parse_mime_parts(text)
    elif text.strip():
        yield script_part(text)


NODE_CONFIG_API_VERSION: Final = "node.eks.aws/v1alpha1"
NODE_CONFIG_GROUP: Final = "node.eks.aws/"
NODE_CONFIG_KIND: Final = "NodeConfig"
MANIFEST_START: Final = re.compile(
    r"(?:[ \t\r]*(?:#(?!!).*|---.*)?\n)*(?:apiVersion|kind|metadata|spec):\s"
)
"""After comments and blank lines; `#!` begins a script."""

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
    parts = [*_al2023_custom_parts(bootstrap.custom_user_data)]
    table = bootstrap.max_pods_table
    if table is not None and not table.is_uniform:
        set_reserved = SET_KUBE_RESERVED if table.has_kube_reserved else ""
        script = f"#!/bin/bash\n{shell_lookup(table)}{SET_MAX_PODS}{set_reserved}"
        parts.append(script_part(script))
    config = dump_yaml_document(node_config(bootstrap))
    return mime_document([*parts, mime_part(NODE_CONFIG_TYPE, config)])


def node_config(bootstrap: BootstrapOptions) -> dict[str, Any]:
    if not bootstrap.service_cidr:
        raise InvalidInputError(
            "AL2023 must be told the cluster's service CIDR, and it is not known",
            "allow eks:DescribeCluster, or use another amiFamily",
        )
    spec: dict[str, Any] = {
        "cluster": {
            "name": bootstrap.cluster,
            "apiServerEndpoint": bootstrap.endpoint,
            "certificateAuthority": bootstrap.ca,
            "cidr": bootstrap.service_cidr,
        },
        "kubelet": {"config": _kubelet_config(bootstrap), "flags": [_node_labels_flag(bootstrap)]},
    }
    if bootstrap.uses_raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": NODE_CONFIG_API_VERSION, "kind": NODE_CONFIG_KIND, "spec": spec}


def _kubelet_config(bootstrap: BootstrapOptions) -> dict[str, Any]:
    taints = [
        {"key": each.key, "effect": each.effect} | ({"value": each.value} if each.value else {})
        for each in bootstrap.node_taints
    ]
    table = bootstrap.max_pods_table
    pods = {} if table is None else {"maxPods": table.default_pods}
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
    """The documents of a text that consists of NodeConfigs only; empty if it is anything else."""
    try:
        documents = [*parse_yaml_documents(text)]
    except UnreadableUserData as error:
        if error.exceeds_limit or _begins_as_manifest(text):
            raise InvalidInputError(
                f"the user data is no script and no NodeConfig that can be read: {error}",
                "write NodeConfigs of node.eks.aws/v1alpha1, or a script that begins with #!",
            ) from error
        return []
    if not all(isinstance(each, dict) and _is_node_config(each) for each in documents):
        return []
    if len(documents) == 1:
        return [text]
    return [dump_yaml_document(each) for each in documents]


def _begins_as_manifest(text: str) -> bool:
    """As no script does: run as one, such a text would lose its settings without a word."""
    return NODE_CONFIG_GROUP in text and MANIFEST_START.match(text) is not None


def _is_node_config(value: dict[str, Any]) -> bool:
    return value.get("kind") == NODE_CONFIG_KIND and str(value.get("apiVersion")).startswith(
        NODE_CONFIG_GROUP
    )
