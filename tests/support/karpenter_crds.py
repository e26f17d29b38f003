"""Karpenter's published CRDs, from the Go module of its AWS provider; no part is kept here."""

import json
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.processes import MissingTool

MODULE: Final = "github.com/aws/karpenter-provider-aws@v1.14.1"
CHECKSUM: Final = "h1:WGtIQTQcxpElYMdWfWuPwaF2+9muR+hYhPZsTtoY8Gs="
FOLDER: Final = "pkg/apis/crds"
GROUPS: Final = ("karpenter.sh", "karpenter.k8s.aws")


@cache
def karpenter_crds() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions; raises `MissingTool` where the module cannot be had."""
    found = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted((_module_folder() / FOLDER).glob("*.yaml"))
    ]
    return [crd for crd in found if crd["spec"]["group"] in GROUPS]


def _module_folder() -> Path:
    go = shutil.which("go")
    if go is None:
        raise MissingTool("install Go to fetch Karpenter's CRDs (there is none on this machine)")
    # Outside of any module, so that no go.mod decides which version is meant.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [go, "mod", "download", "-json", MODULE],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    answer = json.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in answer:
        raise MissingTool(f"{MODULE} cannot be fetched: {answer.get('Error') or done.stderr}")
    if answer["Sum"] != CHECKSUM:
        raise RuntimeError(f"{MODULE} has the checksum {answer['Sum']}, not {CHECKSUM}")
    return Path(answer["Dir"])
