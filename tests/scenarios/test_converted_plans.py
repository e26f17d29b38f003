"""A plan of old kinds is the plan of what `wain convert` makes of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from wainwright.cli.main import wain

STORIES = [
    path
    for path in sorted((Path(__file__).parent / "planning").glob("*.yaml"))
    if "/v1alpha5" in (text := path.read_text(encoding="utf-8")) or "karpenter.sh/v1beta1" in text
]
PROVISIONER = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: general}
spec: {}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, image: main, resources: {requests: {cpu: "1"}}}]}
"""


def run(*arguments: str, text: str) -> Result:
    return CliRunner().invoke(wain, [*arguments, "-"], input=text, standalone_mode=False)


def plan(text: str) -> dict[str, Any]:
    result = run("plan", "-o", "json", "--now", "2026-01-31T12:00:00Z", text=text)
    assert result.exception is None, result.exception
    made = json.loads(result.stdout)
    return {key: made[key] for key in ("nodeClaims", "unschedulable", "summary")}


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_plan_of_old_kinds_is_the_plan_of_what_they_convert_to(path: Path) -> None:
    story = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "refused" in story["expect"]:
        pytest.skip("nothing is converted where the input is refused")
    if any("unknown field" in each for each in story["expect"].get("warnings", ())):
        pytest.skip("a plan drops unknown fields, a conversion refuses them")
    text = yaml.safe_dump_all(story["given"])
    assert plan(text) == plan(run("convert", text=text).stdout)


def test_there_are_old_kinds_to_convert() -> None:
    assert len(STORIES) >= 10


def test_a_pool_launches_what_its_provisioner_implied() -> None:
    claims = plan(f"{PROVISIONER}---{POD}")["nodeClaims"]
    assert [(claim["capacityType"], claim["instanceType"][0] in "cmr") for claim in claims] == [
        ("on-demand", True)
    ]


def test_without_the_defaults_a_pool_launches_anything() -> None:
    made = run("convert", "--ignore-defaults", text=f"{PROVISIONER}---{POD}")
    pools = [each for each in yaml.safe_load_all(made.stdout) if each["kind"] == "NodePool"]
    assert [pool["spec"]["template"]["spec"]["requirements"] for pool in pools] == [[]]
    assert "the NodePool does not: kubernetes.io/os In [linux]" in made.stderr
    claims = plan(made.stdout)["nodeClaims"]
    assert [claim["capacityType"] for claim in claims] == ["spot"]
