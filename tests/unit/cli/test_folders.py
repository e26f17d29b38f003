"""The commands on a folder as repositories have it: manifests among other files."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from wainwright.cli.main import wain

CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: a}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: a}}]
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
NOW = ("--now", "2026-01-01T00:00:00Z", "--region", "us-west-2")
SUMMARY = "note: 3 files were skipped (no manifest: 2, without a document: 1)"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(wain, arguments, input=text, standalone_mode=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in (
        ("class.yaml", CLASS),
        ("pool.yaml", POOL),
        ("pod.yaml", POD),
        ("package.json", '{"name": "web"}'),
        ("values.yaml", "replicas: 1\n"),
        ("later.yaml", "# nothing yet\n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_other_files_are_one_line_and_the_manifests_are_good(repository: Path) -> None:
    result = run("validate", str(repository))
    assert (result.return_value, result.stdout) == (0, "3 objects in 3 files: all good\n")
    assert result.stderr == f"{SUMMARY}; --verbose lists them\n"


def test_verbose_lists_them_and_quiet_drops_the_line(repository: Path) -> None:
    listed = run("validate", "--verbose", str(repository)).stderr
    assert f"\nnote: {repository / 'values.yaml'}: no manifest" in listed
    assert run("validate", "-q", str(repository)).stderr == ""


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("plan", "-o", "json"),
        ("reservations",),
        ("catalog",),
        ("explain", "type", "m5.large"),
        ("explain", "price", "m5.large"),
    ],
)
def test_every_command_says_so_after_its_answer(command: tuple[str, ...], repository: Path) -> None:
    result = run(*command, str(repository), *NOW)
    assert result.return_value == 0
    assert result.output.rindex(SUMMARY) > len(result.stdout) / 2
    assert SUMMARY not in run(*command, "-q", str(repository), *NOW).stderr


ASSUMED = "note: nothing in the input names a region: us-east-1 is assumed"
INFERRED = "note: region eu-west-1, as Pod web selects eu-west-1a"
REGION_COMMANDS: list[tuple[str, ...]] = [
    ("plan",),
    ("reservations",),
    ("catalog",),
    ("explain", "type", "m5.large"),
    ("explain", "price", "m5.large"),
    ("explain", "pod", "web"),
]


@pytest.mark.parametrize("command", REGION_COMMANDS, ids=" ".join)
def test_an_assumed_region_comes_before_the_answer(
    command: tuple[str, ...], repository: Path
) -> None:
    result = run(*command, "-q", str(repository), *NOW[:2])
    assert result.output.startswith(ASSUMED)
    assert "tells the region" not in run(*command, str(repository), *NOW).stderr


@pytest.mark.parametrize("command", REGION_COMMANDS, ids=" ".join)
def test_an_object_that_tells_the_region_is_named_after_the_answer(
    command: tuple[str, ...], repository: Path
) -> None:
    selector = "spec: {nodeSelector: {topology.kubernetes.io/zone: eu-west-1a}, "
    (repository / "pod.yaml").write_text(POD.replace("spec: {", selector))
    result = run(*command, str(repository), *NOW[:2])
    assert result.output.rindex(INFERRED) > len(result.stdout) / 2
    assert INFERRED not in run(*command, "-q", str(repository), *NOW[:2]).stderr


def test_explain_says_what_was_assumed_of_the_pod(repository: Path) -> None:
    assuming = POD.replace("spec: {", "spec: {priorityClassName: high, ")
    (repository / "pod.yaml").write_text(f"{assuming}---\n{assuming.replace('web', 'other')}")
    result = run("explain", "pod", "web", "-q", str(repository), *NOW)
    note = "note: priority class high is not in the input, so 0 is assumed: default/web\n"
    assert result.stderr == note


def test_a_named_file_that_is_no_manifest_is_refused(repository: Path) -> None:
    assert run("validate", str(repository / "values.yaml")).return_value == 2
    assert run("validate", str(repository / "later.yaml")).return_value == 2


def test_convert_never_prints_what_is_no_manifest(repository: Path) -> None:
    result = run("convert", str(repository))
    assert (result.return_value, "replicas" in result.stdout) == (0, False)
    named = run("convert", str(repository / "values.yaml"))
    assert (named.return_value, named.stdout) == (2, "")
    assert "apiVersion is missing" in named.stderr


def test_a_chart_that_is_left_out_comes_before_the_plan(repository: Path) -> None:
    (repository / "chart" / "templates").mkdir(parents=True)
    (repository / "chart" / "Chart.yaml").write_text("name: a\n")
    result = run("plan", str(repository), *NOW)
    assert result.return_value == 0
    assert "helm template" in result.output.partition("NODES")[0]


PLACEHOLDERS = {
    "${ARCH}": POOL.replace("m5.large", '"${ARCH}"'),
    "<<AZ>>": POOL.replace("m5.large", "<<AZ>>"),
    "POOL_NAME": POOL.replace("metadata: {name: default}", "metadata: {name: POOL_NAME}"),
    "{{ name }}": POOL.replace("metadata: {name: default}", 'metadata: {name: "{{ name }}"}'),
}


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_a_placeholder_is_named_as_such(placeholder: str, tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(PLACEHOLDERS[placeholder])
    result = run("validate", str(tmp_path / "pool.yaml"))
    assert result.return_value == 2
    assert f"{placeholder} is a placeholder that was not filled in" in result.stdout


def test_a_placeholder_that_an_api_server_accepts_does_not_stop_a_plan(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(PLACEHOLDERS["${ARCH}"])
    result = run("plan", str(tmp_path), *NOW)
    assert result.return_value == 0
    assert "${ARCH} is a placeholder" in result.stderr


def test_a_placeholder_where_any_text_is_good_is_none(tmp_path: Path) -> None:
    (tmp_path / "class.yaml").write_text(CLASS.replace("discovery: a", 'discovery: "${CLUSTER}"'))
    assert run("validate", str(tmp_path)).return_value == 0


def test_a_misspelt_word_in_capitals_is_no_placeholder(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL.replace("operator: In", "operator: NOT_IN"))
    result = run("validate", str(tmp_path))
    assert (result.return_value, "did you mean NotIn?" in result.stdout) == (2, True)


UNKNOWN_FIELD = POOL.replace(
    "      nodeClassRef", "      kubelet: {maxPods: 10}\n      nodeClassRef"
)


@pytest.mark.parametrize(
    "command",
    [
        ("plan",),
        ("explain", "pod", "web"),
        ("explain", "type", "m5.large"),
        ("catalog",),
        ("reservations",),
    ],
)
def test_what_an_api_server_would_drop_or_replace_stops_no_command(
    command: tuple[str, ...], repository: Path
) -> None:
    (repository / "pool.yaml").write_text(UNKNOWN_FIELD)
    (repository / "z.yaml").write_text(POD.replace("kind: Pod", "kind: Pod\nkind: Pod"))
    result = run(*command, str(repository), *NOW)
    assert result.return_value == 0
    for message in (
        "unknown field: dropped",
        "Pod web is also in",
        "the key 'kind' is there twice",
    ):
        assert message in result.stderr


def test_validate_refuses_unknown_fields_and_warns_of_duplicates(repository: Path) -> None:
    (repository / "z.yaml").write_text(POD.replace("kind: Pod", "kind: Pod\nkind: Pod"))
    assert run("validate", str(repository)).return_value == 0
    assert run("validate", "--strict", str(repository)).return_value == 2
    (repository / "pool.yaml").write_text(UNKNOWN_FIELD)
    assert run("validate", str(repository)).return_value == 2


def objects(**counts: int) -> str:
    return "---\n".join(
        f"apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a{number}}}\n"
        for kind, count in counts.items()
        for number in range(count)
    )


MANY_KINDS = {"Role": 2, "ConfigMap": 3, "Ingress": 2, "NetworkPolicy": 2, "Gateway": 1, "Cert": 1}
KINDS_LINE = (
    "note: not relevant to scheduling: 3 ConfigMaps, 2 Ingresses, 2 NetworkPolicies, 2 Roles, "
    "1 Cert, "
)


@pytest.mark.parametrize("command", [("validate",), ("plan", *NOW)])
def test_kinds_that_do_not_matter_are_one_line(command: tuple[str, ...], repository: Path) -> None:
    (repository / "others.yaml").write_text(objects(**MANY_KINDS))
    result = run(*command, str(repository))
    assert result.return_value == 0
    assert f"{KINDS_LINE}11 in all\n" in result.stderr
    assert (
        f"{KINDS_LINE}1 Gateway, 11 in all\n" in run(*command, "--verbose", str(repository)).stderr
    )
    assert "relevant" not in run(*command, "-q", str(repository)).output


@pytest.mark.parametrize(
    "text",
    [
        objects(CronJob=1),
        "apiVersion: a/v1\nkind: Runner\nmetadata: {name: a}\n"
        "spec: {template: {spec: {containers: [{name: c}]}}}\n",
    ],
    ids=["a kind that is known for it", "an object with containers"],
)
def test_a_kind_that_creates_pods_is_never_called_irrelevant(text: str, repository: Path) -> None:
    (repository / "others.yaml").write_text(text)
    result = run("plan", "-q", str(repository), *NOW)
    line = "note: create or scale pods, which are not counted: 1 "
    assert line in result.output.partition("NODES")[0]
    assert "relevant" not in run("plan", str(repository), *NOW).output


def test_only_notes_that_change_the_plan_come_before_it(repository: Path) -> None:
    (repository / "pool.yaml").write_text(UNKNOWN_FIELD.replace("nodeClassRef", "# nodeClassRef"))
    (repository / "others.yaml").write_text(objects(Role=2))
    before, _, after = run("plan", str(repository), *NOW).output.partition("NODES")
    assert "unknown field" in before
    for note in ("short form", "2 Roles", "files were skipped"):
        assert note not in before
        assert note in after


def test_a_saved_input_has_its_notes_in_the_same_places(repository: Path, tmp_path: Path) -> None:
    (repository / "pool.yaml").write_text(UNKNOWN_FIELD)
    saved = tmp_path / "saved"
    first = run("plan", str(repository), "--save-input", str(saved), *NOW)
    assert run("plan", str(saved)).output == first.output
    assert "files were skipped" not in run("plan", "-q", str(saved)).output
