"""AL2023: MIME with a NodeConfig for nodeadm, and a script for what only the machine knows.

The order at boot, which the script relies on: `nodeadm-config` reads the NodeConfig parts and
writes the kubelet's configuration; then cloud-init runs the scripts; then `nodeadm-run` starts the
kubelet. The script can therefore still say how many pods its machine takes. It does so in a file of
its own beside the one of nodeadm, where later files win (kubelet 1.29 and later; the directory is
there because our NodeConfig always sets something), and which outlives a reboot. Older kubelets
have the number changed in their only file. A drop-in for nodeadm itself would be ignored by images
that know no such directory, and a script that runs before `nodeadm-config` would be overwritten.
In the same way it says what memory the kubelet keeps, where the image would reckon wrong; such
files are merged key by key, so that nothing else of `kubeReserved` is touched.

What the user has written comes first. nodeadm merges NodeConfigs in order, so that ours wins where
both speak, and the user's settings stay where we say nothing.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from wainwright.aws.userdata import mime
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.lookup import in_shell
from wainwright.errors import BadInput

API_VERSION: Final = "node.eks.aws/v1alpha1"
GROUP: Final = "node.eks.aws/"
KIND: Final = "NodeConfig"

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


def al2023(bootstrap: Bootstrap) -> str:
    written = [*_of_user(bootstrap.text)]
    found = bootstrap.table
    if found is not None and not found.uniform:
        keep = SET_KUBE_RESERVED if found.reserves else ""
        written.append(mime.script(f"#!/bin/bash\n{in_shell(found)}{SET_MAX_PODS}{keep}"))
    config = yaml.safe_dump(node_config(bootstrap), width=10_000)
    return mime.document([*written, mime.part(mime.NODE_CONFIG, config)])


def node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    if not bootstrap.cidr:
        raise BadInput(
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
        "kubelet": {"config": _kubelet(bootstrap), "flags": [_labels(bootstrap)]},
    }
    if bootstrap.stripes_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}


def _kubelet(bootstrap: Bootstrap) -> dict[str, Any]:
    taints = [
        {"key": each.key, "effect": each.effect} | ({"value": each.value} if each.value else {})
        for each in bootstrap.node_taints
    ]
    found = bootstrap.table
    pods = {} if found is None else {"maxPods": found.otherwise}
    return bootstrap.kubelet_settings | pods | {"registerWithTaints": taints}


def _labels(bootstrap: Bootstrap) -> str:
    labels = (f"{key}={value}" for key, value in bootstrap.node_labels.items())
    return f"--node-labels={','.join(labels)}"


def _of_user(text: str) -> Iterator[mime.Part]:
    if mime.is_mime(text):
        yield from mime.parts(text)
    elif configs := _node_configs(text):
        for each in configs:
            yield mime.part(mime.NODE_CONFIG, each)
    elif text.strip():
        yield mime.script(text)


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
    return value.get("kind") == KIND and str(value.get("apiVersion")).startswith(GROUP)
