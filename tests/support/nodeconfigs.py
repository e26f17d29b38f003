"""User data of AL2023 for tests: NodeConfigs, parts, and tables of densities."""

from typing import Any

import yaml

TARGET = {
    "name": "prod",
    "apiServerEndpoint": "https://api.example.com",
    "certificateAuthority": "Q0E=",
    "cidr": "10.100.0.0/16",
}


def config(
    kubelet: dict[str, Any] | None = None, flags: list[str] | None = None, **spec: Any
) -> str:
    whole = {"cluster": TARGET, "kubelet": {"config": kubelet or {}, "flags": flags or []}} | spec
    return document(whole)


def document(spec: dict[str, Any]) -> str:
    return yaml.safe_dump(
        {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    )


def mime(*parts: tuple[str, str]) -> str:
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="//"', ""]
    for kind, text in parts:
        lines += ["--//", f"Content-Type: {kind}", "", text]
    return "\n".join([*lines, "--//--", ""])


def configs(*texts: str) -> str:
    return mime(*(("application/node.eks.aws", text) for text in texts))


def table(*rows: str) -> str:
    lines = ["#!/bin/bash", "done <<'T'", "# wain:max-pods begin", *rows, "# wain:max-pods end"]
    return "\n".join([*lines, "T", "echo done"])
