"""Karpenter's own controllers as processes beside a control plane: with its KWOK provider, and for
AWS.

Both are built once from their published Go modules, as the control plane is; nothing of them is
kept here.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import yaml
from tests.support.control_plane import ControlPlane
from tests.support.processes import GoModule, MissingTool, build_commands, free_ports, note_log

KWOK: Final = "karpenter-kwok"
AWS: Final = "karpenter-aws"
FOLDER: Final = Path(__file__).parents[1] / "integration"
MODULES: Final = {
    KWOK: GoModule(folder=FOLDER / "karpenter", packages={KWOK: "sigs.k8s.io/karpenter/kwok"}),
    AWS: GoModule(
        folder=FOLDER / "karpenter_aws",
        packages={AWS: "github.com/aws/karpenter-provider-aws/cmd/controller"},
    ),
}
KWOK_CRDS: Final = ("pkg/apis/crds", "kwok/apis/crds")
"""Where the module has CustomResourceDefinitions of its own kinds and of the KWOK provider's."""
LEASE_NAMESPACE: Final = "kube-system"


def kwok_crds() -> list[dict[str, Any]]:
    """All that Karpenter with the KWOK provider needs."""
    module = _module_folder(MODULES[KWOK], "sigs.k8s.io/karpenter")
    paths = (path for folder in KWOK_CRDS for path in sorted((module / folder).glob("*.yaml")))
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]


def _module_folder(module: GoModule, name: str) -> Path:
    go = shutil.which("go")
    if go is None:
        raise MissingTool(f"install Go to fetch {name} (there is none on this machine)")
    done = subprocess.run(
        [go, "mod", "download", "-json", name],
        cwd=module.folder,
        env={**os.environ, "GOTOOLCHAIN": "auto"},
        capture_output=True,
        text=True,
        check=False,
    )
    answer = json.loads(done.stdout or "{}")
    if "Dir" not in answer:
        raise MissingTool(f"{name} cannot be fetched: {answer.get('Error') or done.stderr}")
    return Path(answer["Dir"])


def build_karpenter(command: str) -> Path:
    """The program, which is built once; MissingTool where Go is missing."""
    try:
        return build_commands(MODULES[command], [command]) / command
    except MissingTool as missing:
        raise MissingTool(f"to run Karpenter's own controllers, {missing}") from None


class RunningKarpenter:
    """One process; its log is kept in a file. It has the same methods as `RunningOperator`."""

    def __init__(
        self, command: str, plane: ControlPlane, folder: Path, environment: Mapping[str, str]
    ) -> None:
        program = build_karpenter(command)
        self.log = folder / f"{command}.log"
        ports = dict(zip(("metrics", "health"), free_ports(2), strict=True))
        self._ports: Mapping[str, int] = ports
        settings = {
            "KUBECONFIG": str(plane.kubeconfig),
            "METRICS_PORT": str(ports["metrics"]),
            "HEALTH_PROBE_PORT": str(ports["health"]),
            "LEADER_ELECTION_NAMESPACE": LEASE_NAMESPACE,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(program)],
                stdout=log,
                stderr=log,
                env={**os.environ, **settings, **environment},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if error is not None:
            note_log(error, self.log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=60)

    def get(self, endpoint: str, path: str) -> tuple[int, str]:
        """`endpoint` is metrics or health; (0, "") while nothing answers there yet."""
        url = f"http://127.0.0.1:{self._ports[endpoint]}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""
