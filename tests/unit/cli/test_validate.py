"""`wain validate`, `wain convert` and `wain crds` as somebody at a terminal meets them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import main, wain

ROOT = TESTS.parent


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(wain, arguments, input=text, standalone_mode=False)


def test_a_good_folder_gives_zero_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "ns.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    result = run("validate", str(tmp_path))
    assert (result.return_value, result.stdout) == (0, "1 object in 1 file: all good\n")
    assert result.stderr == ""


def test_a_bad_file_gives_two_and_names_line_field_and_remedy() -> None:
    result = run("validate", str(ROOT / "examples" / "mistakes" / "nodepool.yaml"))
    assert result.return_value == 2
    assert (
        "nodepool.yaml:7: spec.wieght\n    unknown field\n    did you mean weight?" in result.stdout
    )


def test_a_typo_in_a_value_of_a_well_known_label_gets_the_value_that_was_meant() -> None:
    requirement = "{key: karpenter.sh/capacity-type, operator: In, values: [spto]}"
    reference = "{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}"
    pool = (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: web}\nspec:\n"
        "  disruption: {consolidateAfter: 0s}\n  template:\n    spec:\n"
        f"      nodeClassRef: {reference}\n      requirements: [{requirement}]\n"
    )
    result = run("validate", "-", text=pool)
    assert "expected one of on-demand, reserved, spot\n    did you mean spot?" in result.stdout


def test_the_report_as_json_has_its_eight_fields() -> None:
    result = run("validate", "-o", "json", str(ROOT / "examples" / "mistakes"))
    report = json.loads(result.stdout)
    assert set(report) == {"errors", "warnings"}
    first = report["errors"][0]
    fields = {"file", "line", "document", "path", "found", "expected", "message", "hint"}
    assert set(first) == fields
    assert len(report["errors"]) == 22


def test_standard_input_can_be_read() -> None:
    result = run("validate", "-", text="apiVersion: v1\nkind: Namespace\nmetadata: {name: A}\n")
    assert result.return_value == 2
    assert "error: standard input:3: metadata.name" in result.stdout


def test_an_old_kind_is_an_error_that_names_the_remedy() -> None:
    text = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {}\n"
    result = run("validate", "-", text=text)
    assert result.return_value == 2
    assert "turn it into v1 with: wain convert FILE" in result.stdout


@pytest.mark.parametrize(
    ("version", "kind", "said"),
    [
        ("v1", "Secret", "1 Secret"),
        (
            "hypershift.openshift.io/v1beta1",
            "NodePool",
            "1 NodePool of hypershift.openshift.io/v1beta1",
        ),
    ],
)
def test_a_foreign_kind_is_only_noted(version: str, kind: str, said: str) -> None:
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    result = run("validate", "-", text=text)
    assert (result.return_value, result.stdout) == (0, "1 object in 1 file: all good\n")
    assert result.stderr == f"note: not relevant to scheduling: {said}\n"


def test_convert_prints_what_validate_accepts(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\n"
        "spec:\n  weight: 10\n  limits: {resources: {cpu: 100}}\n"
    )
    result = run("convert", str(old))
    assert result.return_value == 0
    assert "note: " in result.stderr
    again = run("validate", "-", text=result.stdout)
    assert again.return_value == 0, again.stderr


def test_convert_prints_nothing_when_the_input_is_wrong(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\n"
        "spec: {wieght: 10}\n"
    )
    result = run("convert", str(old))
    assert (result.return_value, result.stdout) == (2, "")
    assert "did you mean weight?" in result.stderr


def test_convert_as_json_is_documents_and_a_report() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    result = run("convert", "-o", "json", "-", text=text)
    made = json.loads(result.stdout)
    assert [one["kind"] for one in made["documents"]] == ["Namespace"]
    assert (made["errors"], made["warnings"]) == ([], [])


def test_the_committed_crds_are_what_the_types_make() -> None:
    result = run("crds", "--check", str(ROOT / "deploy" / "chart" / "crds"))
    assert (result.return_value, result.exception) == (0, None)


def test_stale_crds_are_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wain", "crds", "--check", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "write them again with: wain crds --output" in capsys.readouterr().err


def test_naming_no_file_is_a_usage_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["wain", "validate"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "name a file or a folder" in capsys.readouterr().err
