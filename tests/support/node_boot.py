"""Instances about to boot, and user data of AL2023: NodeConfigs, MIME parts, max-pods tables."""

from typing import Any

import yaml

from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.emulator.boot.node_boot import BootedNode, boot_from_user_data
from wainwright.emulator.boot.user_data import (
    BootFailure,
    BootFailureReason,
    ClusterEndpoint,
    InstanceFacts,
)

CLUSTER = ClusterEndpoint(endpoint="https://api.example.com", certificate="Q0E=")
CLUSTERS = {"prod": CLUSTER}


def boot_facts(kind: str = "m5.xlarge", **more: Any) -> InstanceFacts:
    values: dict[str, Any] = {
        "type_info": instance_type_info.built_in_instance_types()[kind],
        "instance_id": "i-0123456789abcdef0",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "zone_id": "usw2-az1",
        "private_dns": "ip-192-168-1-1.us-west-2.compute.internal",
    }
    return InstanceFacts(**values | more)


def boot_node(user_data: str, kind: str = "m5.xlarge", **more: Any) -> BootedNode:
    outcome = boot_from_user_data(user_data, boot_facts(kind, **more))
    assert isinstance(outcome, BootedNode), outcome
    return outcome


def boot_failure(user_data: str, kind: str = "m5.xlarge", **more: Any) -> BootFailureReason:
    outcome = boot_from_user_data(user_data, boot_facts(kind, **more))
    assert isinstance(outcome, BootFailure), outcome
    assert outcome.detail
    return outcome.reason


TARGET = {
    "name": "prod",
    "apiServerEndpoint": "https://api.example.com",
    "certificateAuthority": "Q0E=",
    "cidr": "10.100.0.0/16",
}


def node_config(
    kubelet: dict[str, Any] | None = None, flags: list[str] | None = None, **spec: Any
) -> str:
    whole = {"cluster": TARGET, "kubelet": {"config": kubelet or {}, "flags": flags or []}} | spec
    return node_config_document(whole)


def node_config_document(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    )


def mime_message(*parts: tuple[str, str]) -> str:
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="//"', ""]
    for kind, text in parts:
        lines += ["--//", f"Content-Type: {kind}", "", text]
    return "\n".join([*lines, "--//--", ""])


def node_config_message(*texts: str) -> str:
    return mime_message(*(("application/node.eks.aws", text) for text in texts))


def max_pods_table(*rows: str) -> str:
    lines = ["#!/bin/bash", "done <<'T'", "# wain:max-pods begin", *rows, "# wain:max-pods end"]
    return "\n".join([*lines, "T", "echo done"])
