"""`import wainwright`: every example that is printed somewhere is run, and says what is shown.

`python -m tests.unit.test_library` writes the shown output anew, for review in the diff.
"""

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.manifest_tables import TESTS

import wainwright
from wainwright.errors import UsageError
from wainwright.manifests.problems import InvalidInput

ROOT = TESTS.parent
CHAPTER = ROOT / "docs" / "library.md"
SHOWN = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)
WRITTEN = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the texts tell the reader to be."""
    monkeypatch.chdir(ROOT)


def output(code: str) -> str:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "example", "exec"), {})
    return said.getvalue()


def refreshed(text: str) -> str:
    return SHOWN.sub(lambda one: f"```python\n{one[1]}```\n\n```\n{output(one[1])}```\n", text)


def docstring_example() -> str:
    lines = (wainwright.__doc__ or "").splitlines()
    begin = lines.index("    import wainwright")
    length = next(n for n, line in enumerate(lines[begin:]) if line and line[0] != " ")
    return textwrap.dedent("\n".join(lines[begin : begin + length]))


def test_the_chapter_shows_what_its_examples_print_today() -> None:
    text = CHAPTER.read_text(encoding="utf-8")
    assert len(SHOWN.findall(text)) == len(WRITTEN.findall(text)) >= 3
    assert text == refreshed(text)


def test_the_example_of_the_docstring_is_the_first_of_the_chapter() -> None:
    text = CHAPTER.read_text(encoding="utf-8")
    assert WRITTEN.findall(text)[0].strip() == docstring_example().strip()
    assert output(docstring_example()).startswith("$0.172/h ['c5.large', ")


def test_the_readme_shows_the_same_example() -> None:
    [shown] = WRITTEN.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert shown.strip() == docstring_example().strip()


def test_names_are_there_to_be_completed_before_anything_is_loaded() -> None:
    code = "import sys, wainwright; print(dir(wainwright)); print('wainwright.core' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT
    )
    names, loaded = done.stdout.splitlines()
    assert {"read", "plan", "explain", "__version__"} <= set(ast.literal_eval(names))
    assert loaded == "False"


def test_a_refusal_names_file_line_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.write_text(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n"
        'spec:\n  weight: "10"\n  template: {spec: {requirements: []}}\n'
    )
    with pytest.raises(InvalidInput) as refused:
        wainwright.read(file)
    message = str(refused.value)
    assert message.startswith("one thing in the input must be mended first:\n")
    expected = 'found "10", expected a whole number\n    remove the quotes'
    assert f"{file}:5: spec.weight: {expected}" in message


def test_of_many_mistakes_the_first_few_are_shown(tmp_path: Path) -> None:
    pods = (
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}}}\nspec: {{contaners: []}}\n"
        for number in range(30)
    )
    file = tmp_path / "pods.yaml"
    file.write_text("".join(pods))
    with pytest.raises(InvalidInput) as refused:
        wainwright.read(file)
    errors = refused.value.report.errors
    assert str(refused.value).endswith(f"and {len(errors) - 10} more, in .report.errors")


def test_an_unknown_pod_is_an_error_with_the_name_that_was_meant() -> None:
    with pytest.raises(UsageError, match="did you mean shop/web-0"):
        wainwright.explain(wainwright.read("examples/reserved-then-spot"), "wbe-0")


def main() -> None:
    os.chdir(ROOT)
    CHAPTER.write_text(refreshed(CHAPTER.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
