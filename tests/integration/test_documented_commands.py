"""Every command of README, docs and runbooks that needs a cluster, run as it is printed against a
real kube-apiserver, with kubectl and helm beside `wain` on the PATH.

`tests/support/documented_commands.py` lists the lines that cannot run here, with the reason.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.integration.run_manifests import NODE_CLASS, NODE_POOL
from tests.support.control_plane import ControlPlane
from tests.support.documented_commands import (
    ROOT,
    DocumentedCommand,
    Runner,
    documented_commands,
)
from tests.support.helm import KUBE_VERSION, helm_command
from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool, skip_or_fail

LINES = list(
    dict.fromkeys(each.line for each in documented_commands() if each.runner is Runner.CLUSTER)
)
PLACEHOLDERS = {
    "NAMESPACE/NAME": "default/waiting",
    "kubectl -n NAMESPACE": "kubectl -n kube-system",
    "explain node NAME": "explain node node-1",
    "nodepool NAME": "nodepool default",
    "ec2nodeclass NAME": "ec2nodeclass default",
    "nodeclaim NAME": "nodeclaims",
    "=NAME": "=shop",
    "changed-nodepool.yaml": f"{ROOT}/examples/weights-limited-pool/nodepool.yaml",
    "helm template DIR": f"helm template {ROOT}/deploy/chart --set settings.clusterName=shop "
    f"{' '.join(KUBE_VERSION)}",
    "kustomize DIR": "kustomize overlay",
    " deploy/chart": f" {ROOT}/deploy/chart",
}
"""What stands for a name of the reader's own."""
INSTALL = (
    "helm install wainwright deploy/chart --namespace kube-system --set settings.clusterName=shop"
)
PAUSE = "kubectl annotate --overwrite nodepool default wainwright.dev/pause=all"
RESUME = "kubectl annotate nodepool default wainwright.dev/pause-"
BEFORE = {
    "helm upgrade": INSTALL,
    "kubectl get nodepools -o yaml | grep": PAUSE,
    "kubectl -n NAMESPACE get lease": "kubectl create -f lease.yaml",
}
"""By the beginning of a line: what has to be there before."""
AFTER = {
    "helm install": "helm uninstall wainwright --namespace kube-system",
    "helm upgrade": "helm uninstall wainwright --namespace kube-system",
    "kubectl get nodepools -o yaml | grep": RESUME,
    "kubectl annotate nodepool NAME wainwright.dev/pause=": RESUME,
    "kubectl -n NAMESPACE create": "kubectl -n kube-system delete configmap wainwright-settings",
    "kubectl -n kube-system create": "kubectl -n kube-system delete configmap wainwright-settings",
    "wain snapshot >": "wain plan cluster.json",
    "kubectl get nodes,pods": "wain plan cluster.yaml",
}
"""The same: what the line is good for, or what the next test must not find."""
NO_ERROR = (0, 1, 3)
"""Exit codes of `wain`: as it should be, pods are unschedulable, something changed."""
LEASE = """\
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: wainwright-leader-election, namespace: kube-system}
"""
OVERLAY = "namespace: shop\nresources: [pod.yaml, pool.yaml]\n"
NODE = """\
apiVersion: v1
kind: Node
metadata:
  name: node-1
  labels:
    karpenter.sh/nodepool: default
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.large
    topology.kubernetes.io/zone: us-west-2a
spec: {providerID: aws:///us-west-2a/i-0123456789abcdef0}
status:
  capacity: {cpu: "2", memory: 8Gi, pods: "29"}
  allocatable: {cpu: "2", memory: 8Gi, pods: "29"}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: waiting, namespace: default}
spec: {containers: [{name: app, image: app, resources: {requests: {cpu: "1"}}}]}
"""

FILES = {
    "class.json": json.dumps(NODE_CLASS),
    "pool.json": json.dumps(NODE_POOL),
    "lease.yaml": LEASE,
    "node.yaml": NODE,
    "pod.yaml": POD,
    "overlay/kustomization.yaml": OVERLAY,
    "overlay/pod.yaml": POD,
    "overlay/pool.yaml": (ROOT / "examples/weights-limited-pool/nodepool.yaml").read_text("utf-8"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the PATH, with the three programs under their names."""
    folder = tmp_path_factory.mktemp("programs")
    try:
        commands = {"kubectl": kubectl_command(), "helm": helm_command()}
    except MissingTool as missing:
        skip_or_fail(str(missing))
    commands["wain"] = Path(sys.executable).parent / "wain"
    for name, command in commands.items():
        (folder / name).symlink_to(command)
    return folder


class Shell:
    """Runs lines in a folder of its own, with the cluster as the current context."""

    def __init__(self, folder: Path, programs: Path, kubeconfig: Path) -> None:
        self.folder = folder
        helm = {f"HELM_{each}_HOME": str(folder) for each in ("CACHE", "CONFIG", "DATA")}
        path = os.pathsep.join([str(programs), os.environ["PATH"]])
        self._environment = {**os.environ, **helm, "PATH": path, "KUBECONFIG": str(kubeconfig)}

    def run(self, line: str) -> "subprocess.CompletedProcess[str]":
        for name, value in PLACEHOLDERS.items():
            line = line.replace(name, value)
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def expect(self, line: str) -> None:
        done = self.run(line)
        is_ours = line.rpartition("| ")[2].startswith("wain ")
        codes = NO_ERROR if is_ours else (0,)
        assert done.returncode in codes, (line, done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def shell(
    tmp_path_factory: pytest.TempPathFactory, programs: Path, own_control_plane: ControlPlane
) -> Shell:
    """Beside a NodePool, its class, a node and a pod that waits."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "overlay").mkdir()
    for file, text in FILES.items():
        (folder / file).write_text(text)
    made = Shell(folder, programs, own_control_plane.kubeconfig)
    made.expect("wain crds | kubectl apply --server-side --force-conflicts -f -")
    made.expect("kubectl wait --for=condition=Established --timeout=60s crd --all")
    own_control_plane.request(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts",
        body=b'{"metadata":{"name":"default"}}',
    )
    for name in ("class.json", "pool.json", "node.yaml", "pod.yaml"):
        made.expect(f"kubectl create -f {name}")
    return made


@pytest.mark.parametrize("line", LINES)
def test_a_documented_command_runs(line: str, shell: Shell) -> None:
    for first in commands_for(line, BEFORE):
        shell.expect(first)
    shell.expect(f"{line} --once" if line.startswith("wain top") else line)
    for last in commands_for(line, AFTER):
        shell.expect(last)


def commands_for(line: str, listed: Mapping[str, str]) -> list[str]:
    return [command for start, command in listed.items() if line.startswith(start)]


def test_a_line_with_a_mistake_is_noticed(shell: Shell) -> None:
    for line in ("kubectl get nodepools --no-such-flag", "wain plan --from-cluster --bogus"):
        with pytest.raises(AssertionError):
            shell.expect(line)


def test_some_lines_are_run() -> None:
    assert DocumentedCommand("README.md", "wain plan --from-cluster").runner is Runner.CLUSTER
    assert {line.partition(" ")[0] for line in LINES} == {"wain", "kubectl", "helm"}
