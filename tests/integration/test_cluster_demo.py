"""`make cluster-demo`, the newcomer's way to a cluster: its recipe, run as the Makefile has it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.kubectl import kubectl_command
from tests.support.processes import MissingTool, skip_or_fail

ROOT = Path(__file__).parents[2]
WITHIN_SECONDS = 600.0


def recipe() -> str:
    found = re.search(
        r"^cluster-demo:.*\n\t@(.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    assert found is not None
    return found[1].replace("$(BIN)", str(Path(sys.executable).parent))


def test_one_command_ends_with_nodes_and_node_claims_that_kubectl_prints() -> None:
    try:
        kubectl_command()
    except MissingTool as missing:
        skip_or_fail(str(missing))
    ended = subprocess.run(
        ["sh", "-c", recipe()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = ended.stdout.partition("$ kubectl get nodes,nodeclaims\n")[2].splitlines()
    nodes = [line.split() for line in shown if line.startswith("node/")]
    claims = [line.split() for line in shown if line.startswith("nodeclaim.karpenter.sh/")]
    ready = {each[0].removeprefix("node/") for each in nodes if each[1].startswith("Ready")}
    assert {node for *_, node, is_ready, _age in claims if is_ready == "True"} & ready
