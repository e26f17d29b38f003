"""Numbers that say what they are: estimates are marked, the time is printed only where it matters,
errors come last and name their places.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain
from wainwright.manifests.problems import InvalidInput
from wainwright.messages.formatting import MODELLED_PRICES

POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "general"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["m5.large"],
                    },
                    {
                        "key": "karpenter.sh/capacity-type",
                        "operator": "In",
                        "values": ["on-demand"],
                    },
                ]
            }
        }
    },
}


def cloud(region: str, **spec: Any) -> dict[str, Any]:
    name = {"name": region}
    head = {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud", "metadata": name}
    return {**head, "spec": {"region": region, **spec}}


def pods(count: int) -> list[dict[str, Any]]:
    requests = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "web", "resources": requests}]}
    names = (f"web-{number}" for number in range(count))
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        for name in names
    ]


def run(tmp_path: Path, *objects: dict[str, Any], flags: tuple[str, ...] = ()) -> Result:
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    result = CliRunner().invoke(wain, ["plan", str(file), *flags], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_an_estimated_price_is_marked_and_explained_below_the_table(tmp_path: Path) -> None:
    lines = run(tmp_path, cloud("eu-west-1"), POOL, *pods(3)).stdout.splitlines()
    assert lines[0].split()[5:7] == ["EACH", "TOTAL"]
    each, total = lines[1].split()[5:7]
    assert (each[:2], total[:2]) == ("~$", "~$")
    assert float(total[2:-2]) == pytest.approx(3 * float(each[2:-2]), abs=0.002)
    assert lines[2].startswith("3 nodes · ~$")
    assert lines[3] == MODELLED_PRICES


@pytest.mark.parametrize(
    "given",
    [
        cloud("us-east-1"),
        cloud(
            "eu-west-1",
            prices=[{"instanceType": "m5.large", "capacityType": "on-demand", "price": 0.2}],
        ),
    ],
    ids=["list", "stated"],
)
def test_a_list_price_and_a_stated_price_are_not_marked(
    given: dict[str, Any], tmp_path: Path
) -> None:
    assert "~" not in run(tmp_path, given, POOL, *pods(1)).stdout


def test_utilisation_is_what_pods_request_of_what_they_can_use(tmp_path: Path) -> None:
    heading, row = run(tmp_path, cloud("us-east-1"), POOL, *pods(1)).stdout.splitlines()[:2]
    assert heading.split()[8:10] == ["CPU", "MEMORY"]
    assert row.split()[8] == "78%"  # 1500m of 1930m
    document = json.loads(
        run(tmp_path, cloud("us-east-1"), POOL, *pods(1), flags=("-o", "json")).stdout
    )
    [claim] = document["nodeClaims"]
    assert claim["utilization"]["cpu"] == pytest.approx(1500 / 1930, abs=0.001)


@pytest.mark.parametrize("output", ["json", "yaml", "table", "markdown"])
def test_the_same_input_gives_the_same_bytes(output: str, tmp_path: Path) -> None:
    made = [
        run(tmp_path, cloud("us-east-1"), POOL, *pods(1), flags=("-o", output)).stdout
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert "now:" not in made[0]
    assert '"now"' not in made[0]


def test_the_time_is_printed_where_it_was_given_or_counts(tmp_path: Path) -> None:
    given = cloud("us-east-1")
    flags = ("-o", "json", "--now", "2026-01-31T12:00:00Z")
    shown = json.loads(run(tmp_path, given, POOL, *pods(1), flags=flags).stdout)
    assert shown["now"] == "2026-01-31T12:00:00+00:00"
    ending = {
        "id": "cr-1",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "total": 1,
        "endTime": "2030-01-01T00:00:00Z",
    }
    timed = cloud("us-east-1", capacityReservations=[ending])
    assert "now" in json.loads(run(tmp_path, timed, POOL, *pods(1), flags=("-o", "json")).stdout)


def test_errors_come_last_and_name_both_clouds(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            "apiVersion: wainwright.dev/v1alpha1\nkind: Cloud\n"
            f"metadata: {{name: {name}}}\nspec: {{region: us-east-1}}\n"
        )
    short = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {}\n"
    (tmp_path / "pool.yaml").write_text(short)
    with pytest.raises(InvalidInput) as refused:
        CliRunner().invoke(
            wain, ["plan", str(tmp_path)], standalone_mode=False, catch_exceptions=False
        )
    assert refused.value.message == "2 errors; nothing planned"
    places = [(problem.where, problem.message) for problem in refused.value.report.errors]
    one, two = (f"{tmp_path}/{name}.yaml:1" for name in ("one", "two"))
    assert places == [
        (one, f"the input has 2 Clouds, but only one can be used; another is at {two}"),
        (two, f"the input has 2 Clouds, but only one can be used; another is at {one}"),
    ]


def test_errors_are_printed_after_warnings_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    from wainwright.cli.printing import show_report
    from wainwright.manifests.problems import Problem, ProblemReport

    problems = [Problem(file="", message=word) for word in ("bad", "odd", "fyi")]
    show_report(ProblemReport(errors=problems[:1], warnings=problems[1:2], notes=problems[2:]))
    assert capsys.readouterr().err.splitlines() == ["note: fyi", "warning: odd", "error: bad"]
