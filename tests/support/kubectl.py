"""kubectl, built from its Go module: what people see of a cluster is printed by it."""

from pathlib import Path

from tests.support.control_plane import version_flags
from tests.support.processes import GoModule, build_commands

KUBECTL = "kubectl"
MODULE = GoModule(
    folder=Path(__file__).parents[1] / "integration" / "kubectl",
    packages={KUBECTL: "k8s.io/kubernetes/cmd/kubectl"},
    ldflags=f"-s -w {version_flags()}",
)


def kubectl_command() -> Path:
    """MissingTool where there is no Go to build it with."""
    return build_commands(MODULE, [KUBECTL]) / KUBECTL
