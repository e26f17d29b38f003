"""Bad files get a clear error with the line, without a traceback or a long wait."""

import json
from pathlib import Path

import pytest

from wainwright.manifests.documents import ReadOptions
from wainwright.manifests.manifest_validation import validate_manifests
from wainwright.manifests.problems import Problem
from wainwright.manifests.source_files import MAX_YAML
from wainwright.manifests.yaml_writer import NotJSONValue, parse_plain_scalar

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: a}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


def problems(path: Path, content: str | bytes, name: str = "m.yaml") -> list[Problem]:
    file = path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return validate_manifests([str(file)]).report.errors


CASES = {
    "an alias bomb": (BOMB, 6, "aliases blow this file up to more than 200,000 values"),
    "an undefined alias": ("a: *b\n", 1, "the alias *b is not defined above"),
    "a tab": ("kind: A\nmetadata:\n\tname: a\n", 3, "not YAML: found character that cannot start"),
    "an empty file": ("", 1, "the file is empty"),
    "only white space": ("\n  \n", 1, "the file is empty"),
    "only a comment": ("# nothing\n", 1, "no document in this file"),
    "a binary file": (b"\x7fELF\x00\x01\x02", None, "a binary file"),
    "not UTF-8": (b"kind: A\nname: caf\xe9\n", 2, "not UTF-8 text"),
    "deep nesting": ("[" * 5000, 1, "more than 100 levels of nesting"),
    "deep nesting in JSON": ('{"a":' * 90000, 1, "more than 100 levels of nesting"),
    "an open bracket": ("a: [1, 2\n", 2, "not YAML: did not find expected ',' or ']'"),
    "two colons": ("kind: a: b\n", 1, "not YAML: mapping values are not allowed"),
    "infinity": ("kind: A\nprice: .inf\n", 2, "'.inf' is not a number that Kubernetes can store"),
    "a foreign tag": ("kind: !!python/object:os.system A\n", 1, "the tag"),
    "a list as key": ("? [a]\n: b\n", 1, "a mapping or list cannot be a key"),
    "a control character": (b"kind: \x01A\n", 1, "a control character that YAML does not allow"),
    "text instead of an object": ("hello\n", 1, "not a Kubernetes object"),
    "no kind": ("apiVersion: v1\n", 1, "kind is missing"),
    "a kind that is a number": ("apiVersion: v1\nkind: 7\n", 2, "kind is not text"),
}


@pytest.mark.parametrize(("content", "line", "message"), CASES.values(), ids=CASES)
def test_a_bad_file_is_refused_with_its_line(
    content: str | bytes, line: int | None, message: str, tmp_path: Path
) -> None:
    found = problems(tmp_path, content)[0]
    assert found.line == line
    assert found.message.startswith(message)
    assert found.file.endswith("m.yaml")


HIDING = {
    "lists": ("[", "]"),
    "objects": ('{"a":', "}"),
    "both": ('[{"a":', "}]"),
    "closing brackets in strings": ('["]]}",', ',"[{["]'),
    "escaped quotes": ('["\\"]",', ',"\\\\",1]'),
    "brackets in keys": ('{"]}": 1, "a":', "}"),
}


@pytest.mark.parametrize(("before", "after"), HIDING.values(), ids=HIDING)
@pytest.mark.parametrize(("levels", "refused"), [(100, False), (102, True)])
def test_levels_of_json_are_counted_by_brackets_outside_strings(
    before: str, after: str, levels: int, refused: bool, tmp_path: Path
) -> None:
    repeated = levels // (2 if before == '[{"a":' else 1)
    content = before * repeated + "1" + after * repeated
    found = problems(tmp_path, content, "m.json")[0]
    assert (found.message == "more than 100 levels of nesting") is refused


def test_a_long_number_instead_of_an_object_is_refused(tmp_path: Path) -> None:
    [found] = problems(tmp_path, "7" * 150, "m.json")
    assert found.message.startswith("not a Kubernetes object")


def test_a_json_file_that_is_broken_says_so(tmp_path: Path) -> None:
    [found] = problems(tmp_path, '{\n "kind": }', "m.json")
    assert (found.line, found.message) == (2, "not JSON: Expecting value")


def test_json_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    [found] = problems(tmp_path, '{"a": [1, ', "m.json")
    assert found.message.startswith("not JSON")


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    [found] = validate_manifests([str(tmp_path)]).report.errors
    assert found.message == "no manifests in this folder"
    assert found.expected == "files that end in .yaml, .yml or .json"


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    [found] = validate_manifests([str(tmp_path / "gone.yaml")]).report.errors
    assert found.message == "cannot be read: No such file or directory"


def test_a_huge_file_is_refused_without_reading_it(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as huge:
        huge.truncate(MAX_YAML + 1)
    [found] = validate_manifests([str(file)]).report.errors
    assert found.message == "too large to read: 128 MiB"
    assert found.hint == "split the file, or save it as JSON"


def test_a_device_is_refused() -> None:
    [found] = validate_manifests(["/dev/null"]).report.errors
    assert found.message == "not an ordinary file"


def test_documents_before_a_broken_one_are_still_judged(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{POOL}  weight: 0\n---\na: [\n")
    assert [(p.document, p.line) for p in found] == [(1, 9), (2, 12)]


def test_every_error_of_a_file_is_reported_at_once(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{POOL}  weight: 0\n  limits: {{cpu: x}}\n  colour: red\n")
    assert [(p.line, p.path) for p in found] == [
        (9, "spec.weight"),
        (10, "spec.limits.cpu"),
        (11, "spec.colour"),
    ]


def test_items_of_a_list_are_objects_with_their_own_lines(tmp_path: Path) -> None:
    indented = "".join(f"  {line}\n" for line in f"{POOL}  weight: 0".splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n- {indented[2:]}"
    [found] = problems(tmp_path, text)
    assert (found.line, found.path) == (12, "items[0].spec.weight")


def test_items_of_a_typed_list_need_not_repeat_their_kind(tmp_path: Path) -> None:
    item = {"metadata": {"name": "a"}, "spec": {"weight": 0}}
    typed = {"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList", "items": [item]}
    found = problems(tmp_path, json.dumps(typed, indent=1), "m.json")
    assert ("items[0].spec.weight", 10) in [(p.path, p.line) for p in found]


def test_json_may_be_indented_with_tabs_and_follow_one_another(tmp_path: Path) -> None:
    pod = json.dumps(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}, indent="\t"
    )
    other = pod.replace('"a"', '"b"')
    assert problems(tmp_path, f"{pod}\n{other}\n") == []


def test_folders_are_read_deep_and_hidden_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b" / "pool.yml").write_text(POOL)
    (tmp_path / ".git" / "pool.yaml").write_text("a: [")
    checked = validate_manifests([str(tmp_path)])
    assert len(checked.objects) == 1
    assert checked.report.errors == []


DUPLICATE_KEYS = {
    "YAML": "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n  name: c\n",
    "JSON": '{"apiVersion": "v1", "kind": "Namespace",\n"metadata": {\n\n"name": "a",\n'
    '"name": "b",\n"name": "c", "labels": {"name": "d"}}}',
}


@pytest.mark.parametrize("text", DUPLICATE_KEYS.values(), ids=DUPLICATE_KEYS)
def test_of_equal_keys_the_last_counts_and_each_is_warned_of(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(text)
    checked = validate_manifests([str(tmp_path)])
    assert checked.objects[0][0].value["metadata"]["name"] == "c"
    found = [(each.line, each.path, each.message) for each in checked.report.warnings]
    message = "the key 'name' is there twice; the last one counts"
    assert found == [(5, "metadata.name", message), (6, "metadata.name", message)]
    assert checked.report.errors == []


def test_two_objects_without_a_separator_are_warned_of(tmp_path: Path) -> None:
    """As `cat *.yaml` makes them: all but the last would be lost without a word on why."""
    one = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    (tmp_path / "m.yaml").write_text(one + one)
    report = validate_manifests([str(tmp_path)]).report
    hints = {each.path: each.hint for each in report.warnings}
    assert "put --- between them" in hints["kind"]
    assert "---" not in hints["apiVersion"] + hints["metadata"]


@pytest.mark.parametrize("text", DUPLICATE_KEYS.values(), ids=DUPLICATE_KEYS)
def test_duplicate_keys_are_errors_where_that_is_wanted(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(text)
    report = validate_manifests([str(tmp_path)], options=ReadOptions(strict=True)).report
    assert (len(report.errors), report.warnings) == (2, [])


def test_duplicate_keys_of_a_file_that_is_no_manifest_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(POOL)
    (tmp_path / "values.yaml").write_text("kind: a\nkind: b\nx: {metadata: 1}\n")
    assert validate_manifests([str(tmp_path)]).report.warnings == []


def test_an_item_with_a_duplicate_key_has_its_path(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Namespace\n"
    (tmp_path / "m.yaml").write_text(f"{text}  metadata:\n    name: a\n    name: b\n")
    [warning] = validate_manifests([str(tmp_path)]).report.warnings
    assert (warning.line, warning.path) == (8, "items[0].metadata.name")


def test_the_same_object_twice_is_an_error_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"{POOL}---\n{POOL}")
    report = validate_manifests([str(tmp_path)], options=ReadOptions(strict=True)).report
    assert (len(report.errors), report.warnings) == (1, [])


def test_the_same_object_twice_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(f"{POOL}---\n{POOL}")
    [warning] = validate_manifests([str(tmp_path)]).report.warnings
    assert (warning.line, warning.document) == (12, 2)
    assert "NodePool a is also in" in warning.message


@pytest.mark.parametrize(
    ("kind", "first", "second", "doubles"),
    [
        ("Pod", "", "default", 1),
        ("Pod", "default", "default", 1),
        ("Pod", "default", "shop", 0),
        ("Pod", "", "shop", 0),
        ("Node", "", "shop", 1),
    ],
)
def test_no_namespace_is_the_default_one(
    tmp_path: Path, kind: str, first: str, second: str, doubles: int
) -> None:
    texts = [
        f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: a, namespace: '{space}'}}\n"
        + ("spec: {containers: [{name: c}]}\n" if kind == "Pod" else "")
        for space in (first, second)
    ]
    (tmp_path / "m.yaml").write_text("---\n".join(texts))
    warnings = validate_manifests([str(tmp_path)]).report.warnings
    assert len([each for each in warnings if "is also in" in each.message]) == doubles


def test_merge_keys_and_anchors_are_folded_in(tmp_path: Path) -> None:
    text = POOL.replace("metadata: {name: a}", "metadata: &m {name: a}\n") + "  weight: 0\n"
    merged = text.replace("metadata: &m {name: a}\n", "metadata:\n  <<: {name: b}\n  name: a\n")
    assert [p.path for p in problems(tmp_path, merged)] == ["spec.weight"]


SPELLINGS = [
    ("text", "text"),
    ("yes", True),
    ("y", True),
    ("Off", False),
    ("n", False),
    ("TRUE", True),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("12", 12),
    ("-12", -12),
    ("+12", 12),
    ("1_000", 1000),
    ("0x1F", 31),
    ("0o17", 15),
    ("017", 15),
    ("0b101", 5),
    ("1e3", 1000),
    ("1E-1", 0.1),
    (".5", 0.5),
    ("5.", 5),
    ("1.50", 1.5),
    ("12:30:45", "12:30:45"),
    ("2026-01-31", "2026-01-31"),
    ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ("1e400", "1e400"),
    ("1.2.3", "1.2.3"),
    ("0x", "0x"),
    ("08", 8),
    ("500m", "500m"),
    ("2Gi", "2Gi"),
    ("nope", "nope"),
    ("-", "-"),
    ("18446744073709551615", 18446744073709551615),
]


@pytest.mark.parametrize(("text", "value"), SPELLINGS, ids=[text for text, _ in SPELLINGS])
def test_a_scalar_has_the_value_that_kubernetes_gives_it(text: str, value: object) -> None:
    found = parse_plain_scalar(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan"])
def test_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(NotJSONValue):
        parse_plain_scalar(text)


def test_aliases_of_all_documents_of_a_file_count_together(tmp_path: Path) -> None:
    modest = "".join(BOMB.splitlines(keepends=True)[:5])  # 111,100 values
    assert "aliases blow" not in str(problems(tmp_path, modest))
    assert "aliases blow this file up" in str(problems(tmp_path, "---\n".join([modest] * 3)))
