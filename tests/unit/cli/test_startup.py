"""What a command loads: planning is for machines without an account, and should answer at once."""

import subprocess
import sys

from tests.support.table import TESTS

LOADED = """
import sys
from click.testing import CliRunner
from wainwright.cli.main import wain

result = CliRunner().invoke(wain, ["plan", "examples/reserved-then-spot", "-o", "json"])
assert '"kind": "Plan"' in result.stdout, result.output
print(*sorted({name.partition(".")[0] for name in sys.modules}))
print(*sorted(name for name in sys.modules if name.startswith("wainwright.")))
"""
FOREIGN = {"boto3", "botocore", "aiohttp", "asyncio", "ssl", "prometheus_client", "rich"}
OURS = ("wainwright.aws", "wainwright.emulator", "wainwright.kube", "wainwright.controllers")


def test_a_plan_loads_nothing_that_talks_to_a_cloud_or_a_cluster() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=TESTS.parent, capture_output=True, check=True, text=True
    )
    packages, modules = (set(line.split()) for line in done.stdout.splitlines())
    assert packages & FOREIGN == set()
    assert [name for name in modules if name.startswith(OURS)] == []
