"""helm, built from its Go module: the chart is rendered and installed by what people use."""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.support.control_plane import VERSION
from tests.support.processes import GoModule, MissingTool, build_commands, skip_or_fail

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
HELM = "helm"
MODULE = GoModule(
    folder=ROOT / "tests" / "integration" / "helm",
    packages={HELM: "helm.sh/helm/v3/cmd/helm"},
)
RELEASE = "wainwright"
NAMESPACE = "autoscaling"
KUBE_VERSION = ("--kube-version", VERSION)
"""Without a cluster helm takes the version that it was built for; a bare build says none."""

SPREAD_PATH = "settings.schedulerConfig.podTopologySpread.defaultConstraints[0]"
SCHEDULER_CONFIG = (
    f"{SPREAD_PATH}.maxSkew=100",
    f"{SPREAD_PATH}.topologyKey=topology.kubernetes.io/zone",
    f"{SPREAD_PATH}.whenUnsatisfiable=ScheduleAnyway",
)
"""A default constraint that every plan keeps, as values."""

Manifest = dict[str, Any]


@cache
def helm_command() -> Path:
    """Skips the test where there is no Go to build it with."""
    try:
        return build_commands(MODULE, [HELM]) / HELM
    except MissingTool as missing:
        skip_or_fail(f"to test the chart with helm, {missing}")


def run_helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory(prefix="helm-") as home:
        folders = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(helm_command()), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, **folders},
            check=False,
        )


def set_flags(values: Iterable[str]) -> list[str]:
    return [part for each in values for part in ("--set", each)]


@cache
def render(*values: str) -> tuple[Manifest, ...]:
    """The objects of the chart, in the order of helm; `settings.clusterName` is stated."""
    flags = set_flags(("settings.clusterName=shop", *values))
    ended = run_helm(
        "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *KUBE_VERSION, *flags
    )
    assert ended.returncode == 0, ended.stderr
    return tuple(each for each in yaml.safe_load_all(ended.stdout) if each)


def rendered(kind: str, *values: str) -> list[Manifest]:
    return [each for each in render(*values) if each["kind"] == kind]
