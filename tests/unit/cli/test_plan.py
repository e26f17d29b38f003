"""`wain plan`, `explain pod`, `reservations` and `import wainwright`, end to end."""

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS

import wainwright
from wainwright.cli.main import main, wain

ROOT = TESTS.parent
EXAMPLES = sorted(
    folder.name for folder in (ROOT / "examples").iterdir() if (folder / "nodepool.yaml").exists()
)
STORY = str(ROOT / "examples" / "reserved-then-spot")
NOW = ("--now", "2026-01-31T12:00:00Z")
WHALE = """\
apiVersion: v1
kind: Pod
metadata: {name: whale, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {memory: 900Gi}}}]}
"""


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(wain, arguments, input=text, standalone_mode=False)


def code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["wain", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "mistakes"])
def test_the_json_of_every_example_is_what_the_schema_says(name: str) -> None:
    schema = json.loads((ROOT / "docs" / "plan.schema.json").read_text())
    result = run("plan", str(ROOT / "examples" / name), "-o", "json", *NOW)
    jsonschema.validate(json.loads(result.stdout), schema)


def test_the_table_ends_with_the_cost_line_and_what_was_placed() -> None:
    result = run("plan", STORY, *NOW)
    assert result.return_value == 0
    assert "7 nodes · ~$" in result.stdout
    assert result.stdout.rstrip().endswith("7 of 7 pods scheduled")


def test_a_pod_without_a_place_gives_exit_code_one() -> None:
    result = run("plan", STORY, "-", *NOW, text=WHALE)
    assert result.return_value == 1
    assert "1 pod is unschedulable: shop/whale" in result.stdout


def test_one_legend_says_what_the_numbers_of_every_funnel_are() -> None:
    shark = WHALE.replace("whale", "shark").replace("memory: 900Gi", "cpu: 900")
    pods = f"{WHALE}---\n{shark}"
    legend = (
        "[instance types in the catalogue → left after taints and requirements → resources, host "
        "ports and volumes → available offerings → minValues → limits]"
    )
    lines = run("plan", STORY, "-", "--all", *NOW, text=pods).stdout.splitlines()
    assert [line for line in lines if line.startswith("[")] == [legend]
    assert sum(" → " in line for line in lines) > 2
    assert legend not in run("plan", STORY, "-", *NOW, text=pods).stdout
    markdown = run("plan", STORY, "-", "-o", "markdown", *NOW, text=pods).stdout
    assert markdown.count(f"- {legend}\n- NodePool ") == 2


def test_nulls_in_the_metadata_are_nothing(tmp_path: Path) -> None:
    """As for an API server: templates write them for values that are not set."""
    pool = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web, namespace: null, labels: null, annotations: null}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: web}}}}
"""
    file = tmp_path / "pool.yaml"
    file.write_text(pool, encoding="utf-8")
    result = CliRunner().invoke(wain, ["plan", str(file)], standalone_mode=False)
    assert result.exception is None


def test_a_limit_of_the_cluster_holds_and_is_the_reason() -> None:
    result = run("plan", STORY, "--cluster-limit", "nodes=5", *NOW)
    assert result.return_value == 1
    assert "5 nodes · ~$" in result.stdout
    assert "the cluster's limit of 5 nodes is reached: 5 in use" in result.stdout


@pytest.mark.parametrize(
    ("limits", "message", "hint"),
    [
        (["cpu"], "--cluster-limit cpu has no amount", "--cluster-limit cpu=1000"),
        (["gpu=3"], "a cluster has no limit gpu", "cpu, memory, nodes, pricePerHour"),
        (["cpu=x"], "the cluster's limit cpu is 'x'", "a quantity of 0 or more, such as 1000"),
        (["memory=-1Gi"], "the cluster's limit memory is '-1Gi'", "such as 4Ti"),
        (
            [f"nodes={'9' * 5000}"],
            "the cluster's limit nodes is '999",
            "a whole number of 0 or more",
        ),
        (["nodes=1.5"], "the cluster's limit nodes is '1.5'", "a whole number of 0 or more"),
        (["pricePerHour=1e400"], "the cluster's limit pricePerHour is '1e400'", "USD per hour"),
        (["pricePerHour=nan"], "the cluster's limit pricePerHour is 'nan'", "USD per hour"),
        (["nodes=3", "nodes=4"], "--cluster-limit nodes is there twice", "each limit once"),
    ],
)
def test_a_limit_of_the_cluster_that_is_none_is_an_error(
    limits: list[str],
    message: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [word for limit in limits for word in ("--cluster-limit", limit)]
    assert code(monkeypatch, "plan", STORY, *options) == 2
    said = capsys.readouterr().err
    assert message in said
    assert hint in said


def test_the_same_input_gives_the_same_bytes() -> None:
    first, second = (run("plan", STORY, "-o", "json", *NOW).stdout for _ in range(2))
    assert first == second


def test_the_claims_are_manifests_that_an_api_server_would_take() -> None:
    claims = run("plan", STORY, "-o", "nodeclaims", *NOW).stdout
    assert run("validate", "-", text=claims).return_value == 0


def test_markdown_is_fit_for_a_comment() -> None:
    result = run("plan", STORY, "-o", "markdown", *NOW)
    assert result.stdout.startswith("**7 of 7 pods scheduled** — 7 nodes · ~$0.172/h")
    reserved = "| default | 3 | `c5.large` | us-west-2a | reserved cr-0123456789abcdef0 |"
    assert f"{reserved} ≈$0/h | ≈$0/h | 3 | 78% | 66% |" in result.stdout
    assert "| `cr-0123456789abcdef0` | 10 | 7 | 3 | 3 | 0 |" in result.stdout


def test_notes_in_markdown_are_a_list_and_do_not_run_together() -> None:
    gated = WHALE.replace("spec: {", "spec: {schedulingGates: [{name: example.com/wait}], ")
    ignored = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
    said = run("plan", STORY, "-", "-o", "markdown", *NOW, text=gated + ignored).stdout
    notes = said.partition("<details><summary>Notes</summary>\n\n")[2].splitlines()
    assert notes[0].startswith("- ")
    assert notes[1].startswith("- ")


def test_options_of_a_reserved_node_are_the_types_of_its_reservation() -> None:
    lines = run("plan", STORY, *NOW).stdout.splitlines()
    [reserved] = [line for line in lines if "reserved cr-" in line]
    assert reserved.split()[-2:] == ["1", "type"]


def test_in_a_pipe_a_line_is_a_line_however_long() -> None:
    long = "a-very-long-name-" * 10
    text = "---\n".join(WHALE.replace("whale", f"{long}{number}") for number in range(3))
    lines = run("plan", STORY, "-", *NOW, text=text).stdout.splitlines()
    [line] = [line for line in lines if line.startswith("3 pods are unschedulable: ")]
    assert line.count(long) == 3


def test_a_narrow_window_does_not_cut_the_name_of_a_reservation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert "reserved cr-0123456789abcdef0 " in run("plan", STORY, *NOW).stdout


def test_one_pod_has_a_place() -> None:
    text = WHALE.replace("900Gi", "1Gi")
    files = [str(Path(STORY, name)) for name in ("cloud.yaml", "nodeclass.yaml", "nodepool.yaml")]
    assert run("plan", *files, "-", *NOW, text=text).stdout.endswith("1 of 1 pod scheduled\n")


def test_an_unknown_feature_gate_is_reported_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(monkeypatch, "plan", STORY, "--feature-gate", "Foo=true") == 2
    assert "one of CapacityReservations, " in capsys.readouterr().err


def test_yaml_says_the_same_as_json() -> None:
    result = run("plan", STORY, "-o", "yaml", *NOW)
    assert "kind: Plan\n" in result.stdout


def test_a_claim_names_the_first_preferences_of_a_pod_and_the_plan_all() -> None:
    spreads = [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        for number in range(150)
    ]
    containers = [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "100m"}}}]
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": containers, "topologySpreadConstraints": spreads},
    }
    objects = json.dumps({**pool, "spec": {"template": {"spec": {}}}}) + "\n" + json.dumps(pod)
    made = json.loads(run("plan", "-", "-o", "json", *NOW, text=objects).stdout)
    assert len(made["relaxed"][0]["givenUp"]) == 150
    assert len(made["nodeClaims"][0]["relaxed"]) == 101
    assert "50 more preferences" in made["nodeClaims"][0]["relaxed"]


def test_timings_are_one_json_line_on_standard_error() -> None:
    result = run("plan", STORY, "--timings", *NOW)
    spent = json.loads(result.stderr.strip().splitlines()[-1])
    assert set(spent) == {"read", "compile", "plan", "explain", "total"}


def test_with_the_gate_off_no_reservation_is_used() -> None:
    result = run("plan", STORY, "-o", "json", "--feature-gate", "CapacityReservations=false", *NOW)
    made = json.loads(result.stdout)
    assert {claim["capacityType"] for claim in made["nodeClaims"]} == {"spot", "on-demand"}


def test_diff_of_the_same_folder_is_no_change() -> None:
    result = run("plan", "--diff", STORY, STORY, *NOW)
    assert (result.return_value, result.stdout) == (0, "nothing changes\n")


def test_diff_stops_when_a_pod_loses_its_place(tmp_path: Path) -> None:
    for name in ("cloud.yaml", "nodeclass.yaml", "workload.yaml"):
        (tmp_path / name).write_text(Path(STORY, name).read_text())
    result = run("plan", "--diff", STORY, str(tmp_path), *NOW)
    assert result.return_value == 1
    assert "7 pods become unschedulable" in result.stdout


def test_diff_has_nothing_to_say_where_only_an_amount_of_the_cause_differs(tmp_path: Path) -> None:
    pool = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  limits: {cpu: "CPU"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.24xlarge]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}
"""
    sides = []
    for cpu in ("8", "4"):
        sides.append(str(tmp_path / f"{cpu}.yaml"))
        Path(sides[-1]).write_text(pool.replace("CPU", cpu))
    alone = [run("plan", side, *NOW).stdout for side in sides]
    assert ["its limit of 8 cpu" in alone[0], "its limit of 4 cpu" in alone[1]] == [True, True]
    result = run("plan", "--diff", *sides, *NOW)
    assert (result.return_value, result.stdout) == (0, "nothing changes\n")


def test_diff_has_timings_as_well() -> None:
    result = run("plan", "--diff", STORY, STORY, "--timings", *NOW)
    spent = json.loads(result.stderr.strip().splitlines()[-1])
    assert set(spent) == {"read", "compile", "plan", "explain", "total"}
    assert spent["plan"] > 0


def test_diff_notes_what_is_not_planned_and_on_which_side(tmp_path: Path) -> None:
    gated = WHALE.replace("spec: {", "spec: {schedulingGates: [{name: example.com/wait}], ")
    for side, text in (("old", gated), ("new", gated + "---\n" + gated.replace("whale", "orca"))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "pod.yaml").write_text(text)
        for name in ("cloud.yaml", "nodeclass.yaml", "nodepool.yaml"):
            (tmp_path / side / name).write_text(Path(STORY, name).read_text())
    stderr = run("plan", "--diff", str(tmp_path / "old"), str(tmp_path / "new"), *NOW).stderr
    gates = "not planned while scheduling gates hold them back"
    assert f"note: OLD: {gates}: shop/whale\n" in stderr
    assert f"note: NEW: {gates}: shop/orca, shop/whale\n" in stderr
    same = run("plan", "--diff", str(tmp_path / "old"), str(tmp_path / "old"), *NOW).stderr
    assert same == f"note: {gates}: shop/whale\n"


@pytest.mark.parametrize("flag", ["--cloud", "--catalog", "--scheduler-config"])
def test_diff_cannot_read_standard_input_for_both(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    assert code(monkeypatch, "plan", "--diff", STORY, STORY, flag, "-") == 2
    assert "put it into a file" in capsys.readouterr().err


def test_diff_wants_two_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(monkeypatch, "plan", "--diff", STORY) == 2


def test_bad_input_is_reported_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(WHALE.replace("900Gi", "900GB"))
    assert code(monkeypatch, "plan", STORY, str(file)) == 2
    stderr = capsys.readouterr().err
    assert f"{file}:4: spec.containers[0].resources.requests.memory" in stderr
    assert "1 error; nothing planned" in stderr


def test_an_unknown_region_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(monkeypatch, "plan", STORY, "--region", "mars-1") == 2


def test_explain_shows_where_a_pod_goes_and_why() -> None:
    result = run("explain", "pod", "web-0", STORY, *NOW)
    assert result.return_value == 0
    assert "reserved from cr-0123456789abcdef0" in result.stdout


def test_explain_shows_why_a_pod_is_unschedulable() -> None:
    result = run("explain", "pod", "whale", STORY, "-", *NOW, text=WHALE)
    assert result.return_value == 1
    assert result.stdout.splitlines()[:2] == [
        "shop/whale is unschedulable",
        "  NodePool default: the pod needs 900Gi memory; the largest instance type that the "
        "NodePool allows, "
        "c5.large, has 3Gi allocatable",
    ]


def test_reservations_are_listed_with_idle_instances() -> None:
    result = run("reservations", STORY, "-o", "json", *NOW)
    [found] = json.loads(result.stdout)["items"]
    assert (found["total"], found["available"], found["used"], found["idle"]) == (10, 3, 3, 0)


def test_idle_reservations_name_pods_that_could_use_them(tmp_path: Path) -> None:
    text = Path(STORY, "workload.yaml").read_text().replace("replicas: 6", "replicas: 1")
    (tmp_path / "workload.yaml").write_text(text)
    for name in ("cloud.yaml", "nodeclass.yaml", "nodepool.yaml"):
        (tmp_path / name).write_text(Path(STORY, name).read_text())
    result = run("reservations", str(tmp_path), "-o", "json", *NOW)
    [found] = json.loads(result.stdout)["items"]
    assert found["idle"] == 2
    assert found["idlePricePerHour"] == pytest.approx(0.17)
    [kept] = found["notUsedBy"]
    assert kept["pods"] == ["shop/ledger-0"]
    assert "topology.kubernetes.io/zone" in kept["reason"]


def test_the_library_reads_plans_and_explains_in_five_lines() -> None:
    manifests = wainwright.read(STORY)
    plan = wainwright.plan(manifests, now=datetime(2026, 1, 31, tzinfo=UTC))
    assert len(plan.claims) == 7
    assert plan.price > 0
    assert "is scheduled on" in wainwright.explain(manifests, "shop/web-0")


def many_pools(pools: int, pods: int) -> str:
    """Each pod fails for a reason of its own."""
    given = [
        f"""\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: pool-{number:04}}}
spec: {{template: {{spec: {{requirements: []}}}}}}
"""
        for number in range(pools)
    ]
    given += [
        f"""\
apiVersion: v1
kind: Pod
metadata: {{name: pod-{number:04}}}
spec: {{nodeSelector: {{example.com/label-{number}: x}}, containers: [{{name: main}}]}}
"""
        for number in range(pods)
    ]
    return "---\n".join(given)


def test_reasons_of_very_many_pools_have_a_budget_and_say_so(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(many_pools(30, 10))
    few = json.loads(run("plan", str(file), "-o", "json").stdout)
    assert {len(row["pools"]) for row in few["unschedulable"]} == {30}
    file.write_text(many_pools(30, 1000))
    result = run("plan", str(file), "-o", "json")
    plan = json.loads(result.stdout)
    assert {len(row["pools"]) for row in plan["unschedulable"]} == {20}
    said = "of 30 NodePools only the first 20 say why they do not take a pod"
    assert any(warning.startswith(said) for warning in plan["warnings"])
