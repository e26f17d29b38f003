"""`make cluster-demo`: a control plane on this machine, `wain run` with the emulated EC2 beside it,
and a Deployment that gets nodes; ends with what kubectl shows of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.control_plane import ControlPlane
from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool
from tests.support.running_operator import RunningOperator, TestedCluster

from wainwright.api.kinds import CUSTOM_RESOURCES, custom_resource_definition

MANIFESTS = "examples/cluster/cluster.yaml"
REPLICAS = 20
WITHIN_SECONDS = 180.0
RUN = ("--provider", "emulator", "--cluster-name", "demo")


def main() -> None:
    try:
        kubectl = kubectl_command()
        plane = ControlPlane.start(scheduler=True, controller_manager=True)
    except MissingTool as missing:
        sys.exit(str(missing))
    with plane, tempfile.TemporaryDirectory() as folder:
        for item in CUSTOM_RESOURCES:
            plane.apply_crd(custom_resource_definition(item))
        say("a control plane: etcd, kube-apiserver, kube-scheduler, kube-controller-manager")
        with RunningOperator(plane, Path(folder), *RUN) as operator:
            say(f"wain run {' '.join(RUN)}")
            show(plane, kubectl, "apply", "-f", MANIFESTS)
            wait(operator, TestedCluster(plane))
            for message in operator.messages():
                say(message)
            show(plane, kubectl, "get", "nodes,nodeclaims")


def wait(operator: RunningOperator, cluster: TestedCluster) -> None:
    is_there: Callable[[], bool] = lambda: len(cluster.ready_pods("web")) == REPLICAS  # noqa: E731
    deadline = time.monotonic() + WITHIN_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            sys.exit("\n".join(["the pods did not become Ready", *operator.messages()]))
        time.sleep(0.2)
    say(f"{REPLICAS} of {REPLICAS} pods are Ready, bound by the kube-scheduler")


def show(plane: ControlPlane, kubectl: Path, *arguments: str) -> None:
    print(f"\n$ kubectl {' '.join(arguments)}", flush=True)
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    subprocess.run([str(kubectl), *arguments], check=True, env=environment)
    print(flush=True)


def say(text: str) -> None:
    print(f"· {text}", flush=True)


if __name__ == "__main__":
    main()
