"""What `wain run` loads before its first plan: pods wait meanwhile."""

import subprocess
import sys
from collections.abc import Iterable

LOADED = "import sys, {}; print(*sys.modules)"
PROCESS = "wainwright.cli.run"
EMULATED = "wainwright.operator.emulated_cloud"
NEVER = (
    *("boto3", "botocore", "rich", "cel", "jinja2"),
    *("wainwright.live_page", "wainwright.library", "wainwright.offline"),
    *("wainwright.manifests.cluster_manifests", "wainwright.manifests.convert"),
    *("wainwright.operator.flight_recorder", "wainwright.operator.dry_run"),
    *("wainwright.sim.scenario", "wainwright.sim.simulation", "wainwright.sim.api_server"),
    "wainwright.emulator.http.server",
)
ONLY_EMULATED = ("wainwright.emulator", "wainwright.sim.kubelet")


def test_a_process_loads_only_what_the_first_plan_needs() -> None:
    assert _loaded(PROCESS, (*NEVER, *ONLY_EMULATED)) == []


def test_the_emulated_cloud_loads_no_client_of_aws_and_no_server() -> None:
    assert _loaded(f"{PROCESS}, {EMULATED}", NEVER) == []


def _loaded(modules: str, unwanted: Iterable[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(modules)], capture_output=True, check=True, text=True
    )
    return [
        name
        for name in done.stdout.split()
        if any(name == each or name.startswith(f"{each}.") for each in unwanted)
    ]
