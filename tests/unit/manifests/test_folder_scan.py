"""Folders as repositories have them: what counts as a manifest, and what is said of the rest."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from wainwright.manifests.documents import LoadedManifests, load_manifests
from wainwright.manifests.source_files import FileKind

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n"
CHART_TEMPLATE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {{ .Values.name }}\n"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def names(loaded: LoadedManifests) -> list[str]:
    return [document.value["metadata"]["name"] for document in loaded.documents]


def skipped(loaded: LoadedManifests, folder: Path) -> dict[str, FileKind]:
    return {str(Path(each.name).relative_to(folder)): each.kind for each in loaded.skipped}


def load(folder: Path, *, render: bool = False) -> LoadedManifests:
    return load_manifests([str(folder)], render=render)


OTHER_FILES: dict[str, tuple[str | bytes, FileKind]] = {
    "package.json": ('{"name": "web", "kind": "module"}', FileKind.NOT_A_MANIFEST),
    "values.yaml": (
        "kind: DaemonSet\nextra:\n  - apiVersion: v1\n    metadata: {name: a}\n",
        FileKind.NOT_A_MANIFEST,
    ),
    "stack.yaml": (
        "AWSTemplateFormatVersion: 2010-09-09\nResources:\n  A:\n    metadata: !Sub '${B}'\n"
        "    kind: !Ref C\n",
        FileKind.NOT_A_MANIFEST,
    ),
    "policy.json": ('{"Version": "2012-10-17", "Statement": []}', FileKind.NOT_A_MANIFEST),
    "dashboard.json": ('{"panels": [{"kind": "a", "metadata": 1}]}', FileKind.NOT_A_MANIFEST),
    "list.yaml": ("- kind\n- metadata\n", FileKind.NOT_A_MANIFEST),
    "broken.yaml": ("kind of: [metadata\n", FileKind.NOT_A_MANIFEST),
    "binary.yaml": (b"\x7fELF\x00\x01", FileKind.NOT_A_MANIFEST),
    "latin.yaml": (b"name: caf\xe9\n", FileKind.NOT_A_MANIFEST),
    "empty.yaml": ("\n", FileKind.EMPTY),
    "comment.yaml": ("# kind and metadata, later\n", FileKind.EMPTY),
}


@pytest.mark.parametrize("file", OTHER_FILES)
def test_a_file_that_is_no_manifest_is_skipped_in_a_folder(file: str, tmp_path: Path) -> None:
    content, kind = OTHER_FILES[file]
    loaded = load(write(tmp_path, {file: content, "z.yaml": NAMESPACE % "a"}))
    assert names(loaded) == ["a"]
    assert (loaded.problems, loaded.warnings) == ([], [])
    assert skipped(loaded, tmp_path) == {file: kind}


@pytest.mark.parametrize("file", OTHER_FILES)
def test_no_file_that_is_named_is_skipped(file: str, tmp_path: Path) -> None:
    write(tmp_path, {file: OTHER_FILES[file][0]})
    loaded = load_manifests([str(tmp_path / file)])
    assert loaded.skipped == []
    assert loaded.problems or loaded.documents


MISTAKES = {
    "no apiVersion": "kind: NodePool\nmetadata: {name: a}\n",
    "no kind": "apiVersion: karpenter.sh/v1\nmetadata: {name: a}\n",
    "no name": "apiVersion: karpenter.sh/v1\nkind: NodePool\n",
}


@pytest.mark.parametrize("text", MISTAKES.values(), ids=MISTAKES)
def test_a_manifest_with_a_mistake_in_its_head_is_not_skipped(text: str, tmp_path: Path) -> None:
    assert len(load(write(tmp_path, {"m.yaml": text})).documents) == 1


def test_a_manifest_that_cannot_be_parsed_is_an_error_in_a_folder(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, {"m.yaml": (NAMESPACE % "a") + "spec: [\n"}))
    assert [(each.line, loaded.skipped) for each in loaded.problems] == [(5, [])]


def test_files_outside_of_folders_of_packages_and_of_tools_are_read(tmp_path: Path) -> None:
    files = {
        "node_modules/a/m.yaml": NAMESPACE % "left-out",
        ".github/m.yaml": NAMESPACE % "left-out",
        "deploy/m.yaml": NAMESPACE % "read",
    }
    assert names(load(write(tmp_path, files))) == ["read"]


def test_a_link_to_nothing_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"m.yaml": NAMESPACE % "a"})
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nothing.yaml")
    loaded = load(tmp_path)
    assert (names(loaded), loaded.problems) == (["a"], [])


def chart(name: str = "web") -> dict[str, str | bytes]:
    return {
        f"{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\n",
        f"{name}/values.yaml": "name: a\n",
        f"{name}/templates/a.yaml": CHART_TEMPLATE,
        f"{name}/templates/plain.yaml": NAMESPACE % "in-chart",
        f"{name}/charts/inner/Chart.yaml": "apiVersion: v2\nname: inner\n",
        f"{name}/charts/inner/templates/a.yaml": CHART_TEMPLATE,
    }


def test_a_chart_beside_manifests_is_a_warning_with_the_command(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, {**chart(), "m.yaml": NAMESPACE % "a"}))
    assert (names(loaded), loaded.problems) == (["a"], [])
    [warning] = loaded.warnings
    assert warning.message == "a Helm chart: not read as it is"
    assert f"helm template {tmp_path / 'web'} | wain plan -" in warning.hint


def test_several_charts_are_one_warning(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, {**chart("b"), **chart("c"), "a.yaml": NAMESPACE % "a"}))
    [warning] = loaded.warnings
    assert warning.message.startswith("2 Helm charts, whose templates are not read:")


def test_a_folder_with_nothing_but_a_chart_is_an_error(tmp_path: Path) -> None:
    [problem] = load(write(tmp_path, chart())).problems
    assert problem.message.startswith("a Helm chart")


def test_a_library_chart_is_not_worth_a_word(tmp_path: Path) -> None:
    files = {**chart(), "web/Chart.yaml": "name: web\ntype: library\n", "m.yaml": NAMESPACE % "a"}
    assert load(write(tmp_path, files)).warnings == []


TEMPLATES = {
    "unquoted": (CHART_TEMPLATE, "{{ .Values.name }}"),
    "quoted": (
        CHART_TEMPLATE.replace("{{ .Values.name }}", '"{{ .Values.name }}"'),
        "{{ .Values.name }}",
    ),
    "blocks": ("{{- if .Values.on }}\n" + (NAMESPACE % "a") + "{{- end }}\n", "{{- if .Values.on"),
    "jinja": ((NAMESPACE % "a") + "{% if on %}\nspec: {}\n{% endif %}\n", "{% if on %}"),
    "envsubst in a list": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: [${ARCH}]\n",
        "${ARCH}",
    ),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_a_template_beside_manifests_is_left_out_with_a_warning(case: str, tmp_path: Path) -> None:
    text, placeholder = TEMPLATES[case]
    loaded = load(write(tmp_path, {"t.yaml": text, "z.yaml": NAMESPACE % "z"}))
    assert (names(loaded), loaded.problems) == (["z"], [])
    [warning] = loaded.warnings
    assert warning.message.startswith(f"a template, not a manifest: {placeholder}")


@pytest.mark.parametrize("case", TEMPLATES)
def test_a_template_that_is_named_is_an_error_with_its_line(case: str, tmp_path: Path) -> None:
    text, placeholder = TEMPLATES[case]
    write(tmp_path, {"t.yaml": text})
    [problem] = load_manifests([str(tmp_path / "t.yaml")]).problems
    assert problem.found.startswith(placeholder)
    assert problem.line is not None
    assert placeholder in text.splitlines()[problem.line - 1]


def test_a_template_of_a_chart_names_the_folder_of_the_chart(tmp_path: Path) -> None:
    write(tmp_path, chart())
    [problem] = load_manifests([str(tmp_path / "web" / "templates" / "a.yaml")]).problems
    assert f"helm template {tmp_path / 'web'} | wain plan -" in problem.hint
    [folder] = load(tmp_path / "web" / "templates").warnings
    assert f"helm template {tmp_path / 'web'} | wain plan -" in folder.hint


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  t: |\n   {{ .Values.a }}\n",
        "apiVersion: a/v1\nkind: Rule\nmetadata: {name: a}\nsummary: '{{ $labels.node }} failed'\n",
    ],
    ids=["a text of several lines", "a template for somebody else"],
)
def test_a_manifest_may_contain_templates(text: str, tmp_path: Path) -> None:
    loaded = load(write(tmp_path, {"m.yaml": text}))
    assert (names(loaded), loaded.warnings) == (["a"], [])


def kustomization(**fields: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in fields.items())


def test_a_kustomization_without_transformations_is_its_resources(tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": kustomization(resources="[a.yaml, sub]"),
        "a.yaml": NAMESPACE % "a",
        "b.yaml": NAMESPACE % "unlisted",
        "sub/kustomization.yml": kustomization(resources="[c.yaml]", images="[{name: x}]"),
        "sub/c.yaml": NAMESPACE % "c",
    }
    loaded = load(write(tmp_path, files))
    assert names(loaded) == ["a", "c"]
    assert (loaded.problems, loaded.warnings) == ([], [])
    assert skipped(loaded, tmp_path)["b.yaml"] is FileKind.UNLISTED


def test_resources_in_other_folders_are_read_once(tmp_path: Path) -> None:
    files = {
        "base/kustomization.yaml": kustomization(resources="[a.yaml]"),
        "base/a.yaml": NAMESPACE % "a",
        "one/kustomization.yaml": kustomization(resources="[../base]"),
        "two/kustomization.yaml": kustomization(resources="[../base]"),
    }
    write(tmp_path, files)
    assert names(load(tmp_path / "one")) == ["a"]
    assert names(load(tmp_path)) == ["a"]


OVERLAY: dict[str, str | bytes] = {
    "base/kustomization.yaml": kustomization(resources="[a.yaml]"),
    "base/a.yaml": NAMESPACE % "a",
    "test/kustomization.yaml": kustomization(
        resources="[../base, more.yaml]", patches="[{path: patches/a.yaml}]", nameSuffix="-test"
    ),
    "test/more.yaml": NAMESPACE % "more",
    "test/patches/a.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\n",
}


def test_a_kustomization_that_transforms_is_named_with_the_command(tmp_path: Path) -> None:
    write(tmp_path, OVERLAY)
    [problem] = load(tmp_path / "test").problems
    assert problem.message.startswith("a kustomization with patches and nameSuffix")
    assert f"kubectl kustomize {tmp_path / 'test'} | wain plan -" in problem.hint


@pytest.mark.parametrize("name", ["kustomization.yaml", "Chart.yaml"])
def test_a_device_without_an_end_is_not_read(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"web/m.yaml": NAMESPACE % "a", "web/templates/t.yaml": "{{ x }}"})
    (tmp_path / "web" / name).symlink_to("/dev/zero")
    loaded = load(tmp_path)
    assert str(tmp_path / "web") in {each.file for each in (*loaded.warnings, *loaded.problems)}


def test_neither_patches_nor_what_they_change_are_manifests(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, OVERLAY))
    assert names(loaded) == ["a"]
    assert len(loaded.warnings) == 1
    assert skipped(loaded, tmp_path)["test/patches/a.yaml"] is FileKind.KUSTOMIZATION_PART


def test_a_remote_base_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    files = {
        "kustomization.yaml": kustomization(resources="[a.yaml, 'https://example.com/b.yaml']"),
        "a.yaml": NAMESPACE % "a",
    }
    loaded = load(write(tmp_path, files))
    assert names(loaded) == ["a"]
    assert "the remote base https://example.com/b.yaml" in loaded.warnings[0].message


def test_a_component_is_part_of_others(tmp_path: Path) -> None:
    files = {
        "c/kustomization.yaml": kustomization(kind="Component", resources="[a.yaml]"),
        "c/a.yaml": NAMESPACE % "left-out",
        "m.yaml": NAMESPACE % "read",
    }
    loaded = load(write(tmp_path, files))
    assert (names(loaded), loaded.warnings) == (["read"], [])


def test_the_kustomization_of_another_tool_is_a_manifest(tmp_path: Path) -> None:
    text = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: a}\n"
    files: dict[str, str | bytes] = {"kustomization.yaml": text, "b.yaml": NAMESPACE % "b"}
    assert names(load(write(tmp_path, files))) == ["b", "a"]


def test_a_kustomization_that_is_named_points_to_its_folder(tmp_path: Path) -> None:
    write(tmp_path, OVERLAY)
    [problem] = load_manifests([str(tmp_path / "base" / "kustomization.yaml")]).problems
    assert problem.message == "a kustomization, not a manifest"


def tool(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only program of that name on the PATH; its last argument is the folder to render."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\nfor last; do :; done\n{script}\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


PRINT_NAMESPACE = (
    "echo 'apiVersion: v1'; echo 'kind: Namespace'; echo \"metadata: {name: ${last##*/}}\""
)


def test_charts_are_rendered_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "bin", "helm", PRINT_NAMESPACE, monkeypatch)
    folder = write(tmp_path / "repo", {**chart(), "m.yaml": NAMESPACE % "a"})
    loaded = load(folder, render=True)
    assert (names(loaded), loaded.warnings) == (["a", "web"], [])
    assert loaded.documents[1].file == f"helm template {folder / 'web'}"


@pytest.mark.parametrize("name", ["kustomize", "kubectl"])
def test_a_kustomization_is_rendered_with_its_bases(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "bin", name, PRINT_NAMESPACE, monkeypatch)
    loaded = load(write(tmp_path / "repo", OVERLAY), render=True)
    assert (names(loaded), loaded.warnings) == (["test"], [])


def test_no_tool_runs_unless_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "bin", "helm", PRINT_NAMESPACE, monkeypatch)
    loaded = load(write(tmp_path / "repo", {**chart(), "m.yaml": NAMESPACE % "a"}))
    assert names(loaded) == ["a"]


def test_a_tool_that_fails_or_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool(tmp_path / "bin", "helm", "echo 'a value is missing' >&2; exit 1", monkeypatch)
    files = {**chart(), **OVERLAY, "m.yaml": NAMESPACE % "a"}
    warnings = load(write(tmp_path / "repo", files), render=True).warnings
    assert "failed: a value is missing" in warnings[0].message
    assert "there is no kustomize or kubectl on the PATH" in warnings[1].message


def test_a_remote_base_is_never_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path / "bin", "kustomize", PRINT_NAMESPACE, monkeypatch)
    remote = kustomization(resources="['github.com/a/b//c?ref=v1']")
    files = {**OVERLAY, "base/kustomization.yaml": remote}
    loaded = load(write(tmp_path / "repo", files), render=True)
    assert names(loaded) == []
    assert "the remote base github.com/a/b//c?ref=v1" in loaded.problems[0].message
