"""`wain run` as a process of its own, on a real control plane."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from tests.support.control_plane import ControlPlane
from tests.support.processes import note_log

WITHIN_SECONDS = 240.0
POLL_SECONDS = 0.1
PATHS = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "KWOKNodeClass": "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "NodeLease": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "Event": "/api/v1/events",
}
CLEARED = (
    *("Deployment", "PodDisruptionBudget", "NodeClaim", "Node", "NodePool", "EC2NodeClass"),
    "Pod",
)
DESCRIBED = ("NodePool", "NodeClaim", "Node", "Pod")
"""Lines of its log that a failed test shows."""
OUR_LEASE = "wainwright-leader-election"


class TestedCluster:
    """A control plane, as the tests of `wain run` look at it."""

    __test__ = False

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def apply(self, kind: str, document: Mapping[str, Any]) -> None:
        name = document["metadata"]["name"]
        reply = self.plane.request(
            "PATCH",
            f"{PATHS[kind]}/{name}",
            body=json.dumps(document).encode(),
            content_type="application/apply-patch+yaml",
            query={"fieldManager": "tests", "force": "true"},
        )
        assert reply.status in (HTTPStatus.OK, HTTPStatus.CREATED), reply.message

    def delete(self, kind: str, name: str) -> None:
        self.plane.request("DELETE", f"{PATHS[kind]}/{name}")

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        reply = self.plane.request(
            "PATCH",
            f"{PATHS[kind]}/{name}",
            body=json.dumps(patch).encode(),
            content_type="application/merge-patch+json",
        )
        assert reply.status == HTTPStatus.OK, reply.message

    def clear(self) -> None:
        """Nothing is left for the next test; nobody waits for controllers that do not run."""
        self.delete("Lease", OUR_LEASE)
        for kind in CLEARED:
            for name in self.names(kind):
                self.delete(kind, name)
        for kind in CLEARED:
            self.wait_for(f"the end of every {kind}", partial(self._is_gone, kind))

    def _is_gone(self, kind: str) -> bool:
        found = self.all(kind)
        for each in found:
            metadata = each["metadata"]
            if kind == "Pod":
                path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                self.plane.request("DELETE", path, query={"gracePeriodSeconds": "0"})
            elif metadata.get("finalizers"):
                self.plane.request(
                    "PATCH",
                    f"{PATHS[kind]}/{metadata['name']}",
                    body=b'{"metadata": {"finalizers": null}}',
                    content_type="application/merge-patch+json",
                )
        return not found

    def all(self, kind: str) -> list[dict[str, Any]]:
        reply = self.plane.request("GET", PATHS[kind])
        assert reply.status == HTTPStatus.OK, reply.message
        items: list[dict[str, Any]] = reply.json()["items"]
        return items

    def names(self, kind: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.all(kind)}

    def ready_pods(self, app: str) -> list[dict[str, Any]]:
        return [
            pod
            for pod in self.all("Pod")
            if pod["metadata"].get("labels", {}).get("app") == app and is_ready(pod)
        ]

    def wait_for(
        self, what: str, is_so: Callable[[], bool], seconds: float = WITHIN_SECONDS
    ) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() >= deadline:
                raise AssertionError(f"waited {seconds:.0f} s for {what}\n{self.describe()}")
            time.sleep(POLL_SECONDS)

    def describe(self) -> str:
        """Claims, nodes and pods a line each, for whoever reads why a test has waited in vain."""
        return "\n".join(_line_of(kind, each) for kind in DESCRIBED for each in self.all(kind))


def _line_of(kind: str, obj: Mapping[str, Any]) -> str:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
    shown = {
        "deleted": metadata.get("deletionTimestamp"),
        "finalizers": metadata.get("finalizers"),
        "providerID": status.get("providerID") or spec.get("providerID"),
        "node": spec.get("nodeName") or status.get("nodeName"),
        "taints": [each["key"] for each in spec.get("taints", ())],
        "conditions": [_condition_text(each) for each in status.get("conditions") or ()],
    }
    fields = (f"{name}: {value}" for name, value in shown.items() if value)
    return f"{kind} {metadata['name']} {'; '.join(fields)}"


def _condition_text(condition: Mapping[str, Any]) -> str:
    reason, since = condition.get("reason", ""), condition.get("lastTransitionTime", "")
    return f"{condition['type']}={condition['status']} {reason} {since}"


def is_ready(obj: Mapping[str, Any]) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class RunningOperator:
    """One process; its log is kept in a file."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *flags: str,
        kubeconfig: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = folder / f"operator-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                run_command(plane, *flags, kubeconfig=kubeconfig),
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(environment or {})},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Nothing is left of it, also where a test has failed; then its log says why."""
        if self._process.poll() is None:
            self.kill()
        if error is not None:
            note_log(error, self.log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        return self.get("health", "/readyz")[0] == HTTPStatus.OK

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def terminate(self) -> tuple[int, bytes, float]:
        """Its exit code, standard output, and how many seconds it took."""
        start = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        output, _ = self._process.communicate(timeout=WITHIN_SECONDS)
        return self._process.returncode, output, time.monotonic() - start

    def messages(self) -> list[str]:
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["message"] for line in lines if line.startswith("{")]

    def get(self, endpoint: str, path: str) -> tuple[int, str]:
        """`endpoint` is metrics or health; (0, "") while nothing answers there yet."""
        found = [re.search(rf"{endpoint} on port (\d+)", each) for each in self.messages()]
        port = next((match[1] for match in found if match), None)
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""


def run_command(plane: ControlPlane, *flags: str, kubeconfig: Path | None = None) -> Sequence[str]:
    wain = str(Path(sys.executable).parent / "wain")
    ports = ("--metrics-port", "0", "--health-probe-port", "0")
    return [wain, "run", "--kubeconfig", str(kubeconfig or plane.kubeconfig), *ports, *flags]


def run_to_the_end(
    plane: ControlPlane, *flags: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        run_command(plane, *flags),
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        env={**os.environ, **environment},
        check=False,
    )
