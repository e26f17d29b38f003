"""`--scheduler-config`: whatever plans knows the scheduler's defaults, the library too."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import wainwright
from wainwright.cli.main import main, wain
from wainwright.manifests.problems import InvalidInput

NOW = ("--now", "2026-01-31T12:00:00Z")
INPUT = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec: {template: {spec: {}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: c, resources: {requests: {cpu: 100m}}}]}
"""
CONFIG = """\
podTopologySpread:
  defaultConstraints:
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
"""
RACKS = CONFIG.replace("kubernetes.io/hostname", "example.com/rack")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the input in a folder of its own, beside the configuration."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "all.yaml").write_text(INPUT)
    (tmp_path / "scheduler.yaml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(wain, arguments, input=text, standalone_mode=False)


def claims(*arguments: str, text: str | None = None) -> int:
    result = run("plan", *arguments, "-o", "json", *NOW, text=text)
    return len(json.loads(result.stdout)["nodeClaims"])


def code(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["wain", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_plan_spreads_by_the_defaults(folder: Path) -> None:
    given, config = str(folder / "input"), str(folder / "scheduler.yaml")
    assert claims(given) == 1
    assert claims(given, "--scheduler-config", config) == 3


def test_the_configuration_may_come_through_a_pipe(folder: Path) -> None:
    assert claims(str(folder / "input"), "--scheduler-config", "-", text=CONFIG) == 3


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code(monkeypatch, "plan", "-", "--scheduler-config", "-") == 2


def test_diff_plans_both_inputs_by_the_defaults(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "all.yaml").write_text(INPUT.replace("replicas: 3", "replicas: 5"))
    both = (str(folder / "input"), str(folder / "more"))
    flag = ("--scheduler-config", str(folder / "scheduler.yaml"))
    result = run("plan", "--diff", *both, *flag, "-o", "json", *NOW)
    [row] = json.loads(result.stdout)["nodes"]
    assert (result.return_value, row["old"], row["new"]) == (3, 3, 5)


def test_explain_mentions_default_spreads(folder: Path) -> None:
    (folder / "scheduler.yaml").write_text(RACKS)
    flag = ("--scheduler-config", str(folder / "scheduler.yaml"))
    result = run("explain", "pod", "web-0", str(folder / "input"), *flag, *NOW)
    assert result.return_value == 1
    assert "example.com/rack" in result.stdout


def test_reservations_are_planned_with_the_defaults(folder: Path) -> None:
    flag = ("--scheduler-config", str(folder / "scheduler.yaml"))
    assert run("reservations", str(folder / "input"), *flag, *NOW).return_value == 0


def test_a_relaxed_default_spread_is_reported_as_a_default(folder: Path) -> None:
    (folder / "scheduler.yaml").write_text(RACKS.replace("DoNotSchedule", "ScheduleAnyway"))
    flag = ("--scheduler-config", str(folder / "scheduler.yaml"))
    result = run("explain", "pod", "web-0", str(folder / "input"), *flag, *NOW)
    preference = "topology spread over example.com/rack with maxSkew 1 (a default of the scheduler)"
    assert f"preference relaxed: {preference}" in result.stdout


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        (("plan",), "planned"),
        (("explain", "pod", "web-0"), "explained"),
        (("reservations",), "shown"),
    ],
)
def test_a_bad_configuration_is_reported_with_file_and_line(
    command: tuple[str, ...],
    undone: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = folder / "scheduler.yaml"
    file.write_text(CONFIG.replace("maxSkew: 1", "maxSkew: 0"))
    given = (str(folder / "input"), "--scheduler-config", str(file))
    assert code(monkeypatch, *command, *given) == 2
    stderr = capsys.readouterr().err
    assert f"{file}:3: podTopologySpread.defaultConstraints[0].maxSkew" in stderr
    assert "found 0, expected 1 or more" in stderr
    assert f"1 error; nothing {undone}" in stderr


def test_errors_of_input_and_configuration_are_reported_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "scheduler.yaml").write_text("podTopologySpred: {}\n")
    (folder / "input" / "all.yaml").write_text(INPUT.replace("replicas: 3", "replicas: -3"))
    config = str(folder / "scheduler.yaml")
    assert code(monkeypatch, "plan", str(folder / "input"), "--scheduler-config", config) == 2
    stderr = capsys.readouterr().err
    assert "did you mean podTopologySpread?" in stderr
    assert "2 errors; nothing planned" in stderr


def test_a_configuration_without_defaults_is_noted(folder: Path) -> None:
    (folder / "scheduler.yaml").write_text("podTopologySpread: {}\n")
    flag = ("--scheduler-config", str(folder / "scheduler.yaml"))
    result = run("plan", str(folder / "input"), *flag, *NOW)
    assert "there are no default constraints in this configuration" in result.stderr


def test_a_configuration_among_the_manifests_is_noted(folder: Path) -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    (folder / "input" / "scheduler.yaml").write_text(text)
    result = run("plan", str(folder / "input"), *NOW)
    assert "counts only where --scheduler-config names it" in result.stderr


def test_the_library_spreads_by_the_defaults(folder: Path) -> None:
    manifests = wainwright.read(folder / "input", scheduler_config=folder / "scheduler.yaml")
    now = datetime(2026, 1, 31, tzinfo=UTC)
    assert len(wainwright.plan(manifests, now=now).claims) == 3
    assert len(wainwright.plan(wainwright.read(folder / "input"), now=now).claims) == 1


def test_the_library_refuses_a_bad_configuration(folder: Path) -> None:
    (folder / "scheduler.yaml").write_text("[]\n")
    with pytest.raises(InvalidInput):
        wainwright.read(folder / "input", scheduler_config=folder / "scheduler.yaml")
