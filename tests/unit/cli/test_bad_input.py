"""Input that no reader expects: one sentence and an exit code, never a traceback."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import COMMANDS as ALL_COMMANDS
from wainwright.cli.main import UNDONE as UNDONE_WORDS
from wainwright.cli.main import main, wain
from wainwright.errors import UsageError, WainError
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.problems import InvalidInput

ROOT = TESTS.parent
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a},
    requirements: []}}}
"""
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"a": "ANNOTATION"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "CPU"}}}]},
}
DEEP_ENOUGH = (101, 330, 600, 990, 5000)


def pod(*, cpu: str = '"1"', annotation: str = '"x"') -> str:
    return json.dumps(POD).replace('"CPU"', cpu).replace('"ANNOTATION"', annotation)


def run(tmp_path: Path, command: str, text: str, suffix: str = "yaml") -> Result:
    """Fails where a command ends in anything but a result or an error of ours."""
    file = tmp_path / f"input.{suffix}"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(wain, [*command.split(), str(file)], standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, WainError):
        raise result.exception
    return result


COMMANDS = ("validate", "validate -o json", "plan", "plan -o yaml", "convert", "convert -o json")
INPUTS = {
    "a template that is text": f"{POOL.partition('spec:')[0]}spec: {{template: oops}}\n",
    "a template whose spec is text": (
        f"{POOL.partition('spec:')[0]}spec: {{template: {{spec: oops}}}}\n"
    ),
    "a template of a workload that is text": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: oops}\n"
    ),
    "half a character": pod(annotation='"\\ud800"'),
    "half a character as a key": pod(annotation='"x", "\\udfff": "y"'),
    "thousands of digits": pod(cpu="9" * 5000),
    "thousands of digits as text": pod(cpu=f'"{"9" * 5000}"'),
    "thousands of digits in YAML": f"{POOL}---\n{{apiVersion: v1, kind: Pod, n: {'9' * 5000}}}\n",
    "a number beyond every float": pod(cpu="1e400"),
    "an integer beyond 64 bits": pod(cpu=str(2**80)),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", INPUTS)
def test_odd_values_are_read_or_refused(tmp_path: Path, name: str, command: str) -> None:
    suffix = "json" if INPUTS[name].startswith("{") else "yaml"
    run(tmp_path, command, INPUTS[name], suffix)


@pytest.mark.parametrize("depth", DEEP_ENOUGH)
@pytest.mark.parametrize("brackets", ["{}", "[]"])
@pytest.mark.parametrize("command", ["validate", "plan", "convert"])
def test_deep_json_is_refused_like_deep_yaml(
    tmp_path: Path, command: str, brackets: str, depth: int
) -> None:
    start = '{"a":' if brackets == "{}" else "["
    text = pod(annotation=start * depth + "1" + brackets[1] * depth)
    result = run(tmp_path, f"{command} -q", text, "json")
    if isinstance(result.exception, WainError):
        assert "more than 100 levels of nesting" in str(result.exception)
    else:
        assert "more than 100 levels of nesting" in result.output
        assert result.return_value == 2


def test_half_a_character_is_read_as_an_api_server_reads_it(tmp_path: Path) -> None:
    result = run(tmp_path, "convert -o json", pod(annotation='"a\\ud800b \\ud83d\\ude00"'), "json")
    [document] = json.loads(result.stdout)["documents"]
    assert document["metadata"]["annotations"]["a"] == "a\ufffdb \U0001f600"


def test_a_number_that_json_cannot_hold_is_refused_with_its_line(tmp_path: Path) -> None:
    result = run(tmp_path, "convert", "\n" + pod(cpu="1e400"), "json")
    assert (result.return_value, result.stdout) == (2, "")
    assert "input.json:2" in result.stderr
    assert "1e400 is not a number that Kubernetes can store" in result.stderr


def test_a_file_name_that_is_too_long_is_an_error_of_its_own() -> None:
    for command in ("plan", "validate", "convert", "consolidate", "simulate"):
        result = CliRunner().invoke(wain, [command, "x" * 5000], standalone_mode=False)
        assert result.exception is None or isinstance(result.exception, WainError)
        assert "File name too long" in f"{result.exception}{result.output}"


LONG = "x" * 5000
CUSTOM = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
SPEC_WITH_LONG_NAME = {
    "manifests": "manifests: [LONG]",
    "traces": "traces: [{csv: LONG}]",
    "apply": "events: [{at: 1m, apply: LONG}]",
}


@pytest.mark.parametrize("field", SPEC_WITH_LONG_NAME)
def test_a_name_in_a_scenario_that_is_too_long_has_its_line(tmp_path: Path, field: str) -> None:
    spec = SPEC_WITH_LONG_NAME[field].replace("LONG", LONG)
    text = f"{SCENARIO.partition('  events')[0]}  {spec}\n"
    error = run(tmp_path, "simulate --check", text).exception
    assert isinstance(error, InvalidInput)
    [problem] = error.report.errors
    assert (problem.line, field in problem.path) == (6, True)
    assert "there is no file" in problem.message


def test_a_name_that_is_too_long_is_no_scenario_and_no_folder(tmp_path: Path) -> None:
    served = run(tmp_path, f"serve --port 0 {LONG}", POOL).exception
    assert isinstance(served, WainError)
    compared = run(tmp_path, f"simulate --check --compare {LONG}=1", SCENARIO % 1).exception
    assert isinstance(compared, WainError)


@pytest.mark.parametrize("name", [LONG, '"a\\0b"', '"\\ud800"'])
@pytest.mark.parametrize("command", ["plan", "validate", "convert"])
def test_a_kustomization_may_name_what_no_file_can_be_called(
    tmp_path: Path, command: str, name: str
) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(f"{CUSTOM}resources: [{name}]\n")
    result = CliRunner().invoke(wain, [command, str(folder)], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, WainError), result.exception


@pytest.mark.parametrize("command", ["snapshot", "run"])
def test_a_kubeconfig_whose_name_is_too_long_does_not_exist(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", LONG)
    error = CliRunner().invoke(wain, [command], standalone_mode=False).exception
    assert isinstance(error, WainError)


def test_nan_is_no_percentage() -> None:
    result = CliRunner().invoke(wain, ["catalog", "--vm-memory-overhead-percent", "nan"])
    assert result.exit_code == 2
    assert "'nan' is not a number" in result.stderr


# The outer handler, and streams

UNEXPECTED = """\
import sys
from wainwright.cli.main import main

def fail(event, details):
    if event == "import" and details[0] == "wainwright.core.plan":
        raise RuntimeError("first\\n::error::second")

sys.addaudithook(fail)
sys.argv = ["wain", "plan", "examples/reserved-then-spot"]
main()
"""


def run_python(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unexpected_error_is_one_sentence_and_a_code_of_its_own() -> None:
    done = run_python(UNEXPECTED)
    assert done.returncode == 70
    error, hint = done.stderr.strip().splitlines()
    assert error == (
        "error: a bug in wain, triggered by this input: "
        r"RuntimeError: first\n::error::second"
    )
    assert "--save-input" in hint
    assert "WAIN_TRACEBACK=1" in hint


def test_the_traceback_is_shown_with_a_variable_of_the_environment() -> None:
    done = run_python(UNEXPECTED, WAIN_TRACEBACK="1")
    assert done.returncode == 70
    assert "Traceback (most recent call last)" in done.stderr


PLAN = """\
import sys
from wainwright.cli.main import main
sys.argv = ["wain", "plan", "examples/reserved-then-spot", *sys.argv[1:]]
main()
"""


def test_an_encoding_without_the_signs_gets_them_escaped() -> None:
    done = run_python(PLAN, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert r"7 nodes \u00b7 " in done.stdout


# How many pods


def deployment(replicas: int) -> str:
    template = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}"
    return (
        f"{POOL}---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\n"
        f"spec: {{replicas: {replicas}, selector: {{matchLabels: {{a: b}}}}, "
        f"template: {template}}}\n"
    )


@pytest.mark.parametrize("command", ["plan", "consolidate", "reservations", "explain pod web-0"])
def test_more_pods_than_anybody_means_are_refused(tmp_path: Path, command: str) -> None:
    error = run(tmp_path, command, deployment(2**31 - 1)).exception
    assert isinstance(error, WainError)
    assert error.message == (
        "the input has 2,147,483,647 pods, 2,147,483,647 of them of Deployment default/web; "
        "at most 200,000 are read"
    )
    assert "--pod-limit" in error.hint


def test_the_limit_of_pods_can_be_set(tmp_path: Path) -> None:
    assert isinstance(run(tmp_path, "plan --pod-limit 10", deployment(11)).exception, WainError)
    assert run(tmp_path, "plan --pod-limit 10", deployment(10)).return_value == 0


def test_static_pools_have_the_same_limit(tmp_path: Path) -> None:
    static = POOL.replace("{template:", "{replicas: 2147483647, template:")
    result = run(tmp_path, "plan --feature-gate StaticCapacity=true", static)
    assert "static NodePools have 2,147,483,647 replicas" in str(result.exception)


def test_the_limit_is_for_all_static_pools_together(tmp_path: Path) -> None:
    static = POOL.replace("{template:", "{replicas: 6, template:")
    several = "---\n".join(static.replace("default", f"pool-{n}") for n in range(2))
    result = run(tmp_path, "plan --feature-gate StaticCapacity=true --pod-limit 11", several)
    assert str(result.exception).startswith(
        "static NodePools have 12 replicas, 6 of them of pool-0; at most 11 are planned"
    )
    fits = run(tmp_path, "plan --feature-gate StaticCapacity=true --pod-limit 12", several)
    assert fits.exception is None


SCENARIO = """\
apiVersion: wainwright.dev/v1alpha1
kind: Scenario
metadata: {name: a}
spec:
  duration: 1h
  events: [{at: 1m, scale: {kind: Deployment, name: web, replicas: %s}}]
---
"""


def test_scenarios_have_the_same_limit(tmp_path: Path) -> None:
    for replicas, scaled in ((2**31 - 1, 1), (1, 2**31 - 1)):
        text = SCENARIO % scaled + deployment(replicas)
        result = run(tmp_path, "simulate --check", text)
        assert "2,147,483,647" in str(result.exception)
    assert run(tmp_path, "simulate --check", SCENARIO % 2 + deployment(1)).return_value == 0


WEB = "kind: Deployment, name: web"
API = "kind: Deployment, name: api"
EVENTS = {
    "grow together": (f"{{at: 1m, scale: {{{WEB}, replicas: 6}}}}", 7, "7 pods at 1m"),
    "one after the other": (
        f"{{at: 1m, scale: {{{WEB}, replicas: 6}}}}, {{at: 2m, scale: {{{WEB}, replicas: 0}}}},"
        f"{{at: 3m, scale: {{{API}, replicas: 6}}}}",
        7,
        "7 pods at 1m",
    ),
    "both": (
        f"{{at: 1m, scale: {{{WEB}, replicas: 6}}}}, {{at: 3m, scale: {{{API}, replicas: 6}}}}",
        12,
        "12 pods at 3m",
    ),
    "a curve meets another workload halfway": (
        f"{{at: 0m, scale: {{{WEB}, curve: [[0m, 0], [10m, 10], [20m, 0]]}}}},"
        f"{{at: 15m, scale: {{{API}, replicas: 8}}}}",
        13,
        "13 pods at 15m",
    ),
    "one grows as the other falls": (
        f"{{at: 0m, scale: {{{WEB}, curve: [[0m, 10], [10m, 0]]}}}},"
        f"{{at: 0m, scale: {{{API}, curve: [[0m, 0], [10m, 10]]}}}}",
        11,  # the second of two events at one moment
        "11 pods at 0s",
    ),
    "two curves of one workload": (
        f"{{at: 0m, scale: {{{WEB}, curve: [[0m, 0], [10m, 10]]}}}},"
        f"{{at: 1m, scale: {{{WEB}, replicas: 0}}}}",
        11,
        "11 pods at 1m",
    ),
    "deleted": (
        f"{{at: 1m, delete: {{{API}}}}}, {{at: 2m, scale: {{{WEB}, replicas: 6}}}}",
        6,
        "6 pods at 2m",
    ),
    "static nodes": (
        "{at: 1m, apply: {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: static},"
        " spec: {replicas: 9, template: {spec: {requirements: [], nodeClassRef:"
        " {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}}}}",
        9,
        "9 static nodes at 1m",
    ),
}


@pytest.mark.parametrize("name", EVENTS)
def test_the_highest_total_of_a_scenario_has_the_limit(tmp_path: Path, name: str) -> None:
    events, highest, words = EVENTS[name]
    one = deployment(1)
    scenario = SCENARIO.partition("  events:")[0] + f"  events: [{events}]\n---\n"
    text = scenario + one + "---\n" + one.partition("---\n")[2].replace("web", "api")
    fits = run(tmp_path, f"simulate --check --pod-limit {highest}", text)
    assert fits.return_value == 0, fits.exception
    error = run(tmp_path, f"simulate --check --pod-limit {highest - 1}", text).exception
    assert isinstance(error, WainError)
    assert error.message.startswith(f"the scenario has {words} (event of line 6), ")
    served = run(tmp_path, f"serve --port 0 --pod-limit {highest - 1}", text).exception
    assert str(served) == str(error)


# What is printed

HOSTILE = "a\\n::error file=x::hi\\e[31m\\u202e\\u009b"
FOREIGN = f"""\
apiVersion: "example.com/v1{HOSTILE}"
kind: "Kind{HOSTILE}"
metadata: {{name: "{HOSTILE}"}}
"""
UNKNOWN_KEY = POOL.replace("metadata: {", f'"{HOSTILE}": 1\nmetadata: {{"{HOSTILE}": 1, ')


def is_harmless(text: str) -> bool:
    lines = text.split("\n")
    return all(line.isprintable() and not line.lstrip().startswith("::") for line in lines)


@pytest.mark.parametrize("command", [*COMMANDS, "plan -o json", "plan -o markdown", "consolidate"])
@pytest.mark.parametrize(
    "text",
    [UNKNOWN_KEY, f"{POOL}---\n{FOREIGN}", f'{POOL}"::error::top": "::warning::x"\n'],
    ids=["key", "kind", "command"],
)
def test_names_of_the_input_steer_no_terminal_and_no_log(
    tmp_path: Path, command: str, text: str
) -> None:
    folder = tmp_path / "a\n::error::b\x1b[2J\u202e"
    folder.mkdir()
    result = run(folder, command, text)
    assert is_harmless(result.output), result.output
    if isinstance(result.exception, WainError):
        assert all(map(is_harmless, str(result.exception).split("\n")))


def test_json_and_yaml_escape_such_names_and_read_back_the_same(tmp_path: Path) -> None:
    name = "a\n::error file=x::hi\x1b[31m\u202e\x9b"
    as_json = run(tmp_path, "convert -o json", FOREIGN).stdout
    [document] = json.loads(as_json)["documents"]
    assert document["metadata"]["name"] == name
    again = run(tmp_path, "convert -o json", run(tmp_path, "convert", FOREIGN).stdout).stdout
    assert json.loads(again)["documents"] == [document]


UNDONE = {
    "plan FILE": "planned",
    "consolidate FILE": "consolidated",
    "explain pod web FILE": "explained",
    "explain node web FILE": "explained",
    "explain type m5.large FILE": "explained",
    "explain price m5.large FILE": "explained",
    "reservations FILE": "shown",
    "catalog FILE": "shown",
    "top --once FILE": "shown",
    "serve --port 0 FILE": "served",
    "simulate SCENARIO": "simulated",
    "emulator --cloud FILE": "started",
    "convert FILE": "converted",
}


@pytest.mark.parametrize(("line", "undone"), UNDONE.items())
def test_an_input_with_errors_is_said_to_be_left_undone_in_the_commands_own_word(
    line: str, undone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file, scenario = tmp_path / "pool.yaml", tmp_path / "scenario.yaml"
    no_kind = "apiVersion: v1\nmetadata: {name: p}\n"
    invalid = POOL.replace("requirements: []", "requirements: oops")
    file.write_text(no_kind if line.startswith("convert") else invalid)
    scenario.write_text(
        "apiVersion: wainwright.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\n"
        "spec: {duration: 1m, manifests: [pool.yaml]}\n"
    )
    words = {"FILE": str(file), "SCENARIO": str(scenario)}
    monkeypatch.setattr(sys, "argv", ["wain", *(words.get(w, w) for w in line.split())])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == f"error: 1 error; nothing {undone}"


def test_every_command_that_reads_manifests_has_a_word_for_what_it_leaves_undone() -> None:
    without_manifests = {"completion", "crds"}
    assert set(UNDONE_WORDS) == set(ALL_COMMANDS) - without_manifests


BROKEN_BUDGET = f"""\
{POOL}---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: db, namespace: shop}}
spec:
  maxUnavailable: 0
  selector:
    matchExpressions:
    - {{key: app, operator: Inn, values: [db]}}
"""


@pytest.mark.parametrize("command", ["consolidate", "explain node n1"])
def test_a_broken_selector_of_a_pod_disruption_budget_has_file_line_and_field(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(BROKEN_BUDGET, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["wain", *command.split(), str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    line = next(n for n, text in enumerate(BROKEN_BUDGET.splitlines(), start=1) if "Inn" in text)
    assert f"input.yaml:{line}" in said.err
    assert "spec.selector.matchExpressions[0].operator" in said.err


# Null where a text belongs

NULL_LABELS = "labels: {x: }, annotations: {z: null}"
WITH_NULLS = f"""\
{POOL.replace("{name: default}", f"{{name: default, {NULL_LABELS}}}")}---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: a, {NULL_LABELS}}}
spec: {{role: r, amiSelectorTerms: [{{alias: al2023@latest}}],
  subnetSelectorTerms: [{{id: subnet-1}}], securityGroupSelectorTerms: [{{id: sg-1}}]}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: c, {NULL_LABELS}}}
spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}, requirements: []}}
"""


@pytest.mark.parametrize("command", ["plan", "reservations", "consolidate", "validate", "convert"])
def test_a_label_that_is_null_is_no_reason_to_fail(tmp_path: Path, command: str) -> None:
    assert run(tmp_path, command, WITH_NULLS).return_value == 0


def test_a_label_that_is_null_is_an_empty_one_as_for_an_api_server(tmp_path: Path) -> None:
    file = tmp_path / "nulls.yaml"
    file.write_text(WITH_NULLS)
    objects = msgspec.to_builtins(read_manifests([str(file)]).objects)
    found = [(each["metadata"]["labels"], each["metadata"]["annotations"]) for each in objects]
    assert found == [({"x": ""}, {"z": ""})] * 3


# Where output goes, and what listens or answers


@pytest.mark.parametrize("folder", ["file.yaml/x", "/proc/nope/x", "/dev/full"])
def test_crds_that_cannot_be_written_are_named(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.yaml").touch()
    error = CliRunner().invoke(wain, ["crds", "--output", folder], standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"{folder}/karpenter.sh_nodepools.yaml cannot be written: ")


def test_a_folder_of_crds_that_is_no_text_cannot_be_compared(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    arguments = ["crds", "--check", str(tmp_path)]
    error = CliRunner().invoke(wain, arguments, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert "not UTF-8 text" in error.message


PATCHES = {
    ("--fault", "match=1,match.a=2"): "--fault: match is both a value and an object with fields",
    ("--fault", "match.a=2,match=1"): "--fault: match is both a value and an object with fields",
    ("--throttle", "--endpoint", "http://a b"): "no emulator answers at http://a b: ",
    ("--throttle", "--endpoint", "http://[::1"): "no emulator answers at http://[::1: ",
}


@pytest.mark.parametrize(("arguments", "words"), PATCHES.items())
def test_a_patch_that_cannot_be_sent_is_refused(arguments: tuple[str, ...], words: str) -> None:
    line = ["emulator", "set", *arguments]
    error = CliRunner().invoke(wain, line, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert error.message.startswith(words)


def test_what_answers_in_another_protocol_is_no_emulator() -> None:
    def answer(sock: socket.socket) -> None:
        connection = sock.accept()[0]
        with connection:
            connection.recv(65536)
            connection.sendall(b"220 mail.example ESMTP\r\n")

    with socket.create_server(("127.0.0.1", 0)) as sock, ThreadPoolExecutor(1) as threads:
        threads.submit(answer, sock)
        endpoint = f"http://127.0.0.1:{sock.getsockname()[1]}"
        line = ["emulator", "set", "--throttle", "--endpoint", endpoint]
        error = CliRunner().invoke(wain, line, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert error.message.startswith(f"no emulator answers at {endpoint}: ")


@pytest.mark.parametrize("host", ["a\n", "a..b", "x" * 300, "\udc80", "a\0b"])
def test_a_host_that_no_computer_has_cannot_be_listened_on(host: str) -> None:
    line = ["serve", "--demo", "--port", "0", "--host", host]
    error = CliRunner().invoke(wain, line, standalone_mode=False).exception
    assert isinstance(error, UsageError)
    assert "cannot be used: " in error.message
