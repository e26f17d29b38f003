"""Pages and examples for users: links lead somewhere, commands exist, scripts for CI work."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from benchmarks.__main__ import ALL as BENCHMARKS
from click.testing import CliRunner, Result
from tests.support.documented_commands import ELSEWHERE, NOT_RUN, Runner, documented_commands

from wainwright.cli.main import wain

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
    *sorted((ROOT / "examples").glob("**/*.md")),
]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]*))?\)")
COMMAND = re.compile(r"^ *(?:\$ )?(?:\.venv/bin/)?(wain .*?)(?:  .*)?$")
NOT_BENCHED_BY_NAME = {"karpenter_cluster", "karpenter_disruption"}
"""Parts of `make bench-karpenter`."""
MAKE = re.compile(r"^ {4}(?:nohup )?make ([\w-]+)")
DIFF_SCRIPT = ROOT / "examples" / "ci" / "plan-diff.sh"


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    missing = [
        link[0]
        for link in LINK.finditer(path.read_text("utf-8"))
        if not leads_somewhere(path, link)
    ]
    assert missing == []


def leads_somewhere(path: Path, link: re.Match[str]) -> bool:
    target, heading = link[1], link[2]
    if "://" in target:
        return True
    found = (path.parent / target).resolve()
    if heading and found.suffix == ".md":
        return found.is_file() and heading in headings(found.read_text("utf-8"))
    return found.exists()


def headings(text: str) -> set[str]:
    """As GitHub names them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_can_be_reached_from_the_index() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "docs" / "README.md"]
    while waiting:
        path = waiting.pop()
        if path not in reached and path.is_file() and path.suffix == ".md":
            reached.add(path)
            targets = [link[1] for link in LINK.finditer(path.read_text("utf-8"))]
            waiting += [(path.parent / name).resolve() for name in targets if "://" not in name]
    adr = ROOT / "docs" / "adr"
    pages = {path for path in (ROOT / "docs").glob("**/*.md") if path.parent != adr}
    assert sorted(map(page_name, pages - reached)) == []


def code_lines(text: str) -> Iterator[str]:
    """The lines of code blocks, indented ones included; without what stands in a Python block."""
    fence = ""
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fence = "" if fence else line.strip()
        elif fence in ("```", "```sh") or (not fence and line.startswith("    ")):
            yield line


def commands(text: str) -> Iterator[list[str]]:
    """Arguments of every `wain` in a page; of a pipeline the part that is ours."""
    for line in code_lines(text):
        if found := COMMAND.match(line):
            words = shlex.split(found[1], comments=True)
            end = next((n for n, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
            yield words[1:end]


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_commands_of_a_page_exist_with_their_options(path: Path) -> None:
    for arguments in commands(path.read_text("utf-8")):
        check_arguments(wain, arguments)


def check_arguments(command: click.Command, arguments: list[str]) -> None:
    """Parsed, and not run; raises what click says of an option that does not exist."""
    with command.make_context(command.name or "wain", list(arguments)) as context:
        if isinstance(command, click.Group):
            rest = [*context._protected_args, *context.args]
            if rest or not command.invoke_without_command:
                _, inner, others = command.resolve_command(context, rest)
                assert inner is not None
                check_arguments(inner, others)


def test_lines_to_paste_from_the_readme_work_after_the_demo() -> None:
    """`make demo` puts `wain` into .venv and on nobody's path."""
    text = (ROOT / "README.md").read_text("utf-8")
    pasted = [line.strip() for line in code_lines(text) if line.startswith("    ")]
    ours = [line for line in pasted if re.search(r"\bwain\b", line.partition(" ")[0])]
    assert ours
    assert [line for line in ours if not line.startswith(".venv/bin/wain ")] == []


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_make_targets_of_a_page_exist(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    text = path.read_text("utf-8")
    named = {found[1] for line in code_lines(text) if (found := MAKE.match(line))}
    named |= set(re.findall(r"`make ([\w-]+)[^`]*`", text))
    assert named - targets == set()


def test_benchmarks_have_names_and_pages_name_no_others() -> None:
    """A module of `benchmarks` with `run` that is not listed could not be called."""
    modules = {
        path.stem
        for path in (ROOT / "benchmarks").glob("*.py")
        if "\ndef run() -> None:" in path.read_text("utf-8")
    }
    assert modules - NOT_BENCHED_BY_NAME == set(BENCHMARKS)
    named = re.compile(r"make bench ARGS=\"?([\w ]+)")
    texts = [path.read_text("utf-8") for path in PAGES]
    assert {each for text in texts for names in named.findall(text) for each in names.split()} <= {
        *BENCHMARKS
    }


# Commands that need no cluster are run

OFFLINE = dict.fromkeys(
    each.line for each in documented_commands() if each.runner is Runner.OFFLINE
)
SCENARIO = """\
apiVersion: wainwright.dev/v1alpha1
kind: Scenario
metadata: {name: short}
spec: {start: "2026-11-27T00:00:00Z", duration: 5m, manifests: [shop.yaml]}
"""
OWN = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
"""
OLD_KIND = """\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {requirements: [], nodeClassRef: {name: default}}}}
"""
PLACEHOLDERS = {
    ".": "examples/reserved-only",
    "FOLDER": "examples/reserved-only",
    "PATH/TO/YOUR/MANIFESTS": "examples/reserved-only",
    "FILE…": "examples/consolidate",
    "OLD": "examples/reserved-only",
    "NEW": "examples/reserved-then-on-demand",
    "PATH=VALUE": "NodePool/shop:spec.disruption.consolidateAfter=1m",
    "SCENARIO": "MADE/short.yaml",
    "sale-day.yaml": "MADE/short.yaml",
    "examples/sale-day/scenario.yaml": "MADE/short.yaml",  # a day takes long
    "manifests/": "MADE/own.yaml",
    "nodeclass.yaml": "examples/reserved-only/nodeclass.yaml",
    "nodepool.yaml": "examples/reserved-only/nodepool.yaml",
    "old/": "MADE/old.yaml",
    "FOLDER/20260131T080000Z-provision-7": "MADE/provision-7",
    "FOLDER/20260131T080310Z-disrupt-8": "MADE/disrupt-8",
    "day.html": "MADE/day.html",
    "both.html": "MADE/both.html",
}
"""What stands for a name of the reader's own; MADE is a folder of the test."""
REFUSED = ("wain validate examples/mistakes/nodepool.yaml",)
NO_ERROR = (0, 1, 3)
"""Exit codes: as it should be, pods are unschedulable, something changed."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "short.yaml").write_text(SCENARIO)
    (folder / "shop.yaml").write_text((ROOT / "examples/sale-day/shop.yaml").read_text())
    (folder / "old.yaml").write_text(OLD_KIND)
    (folder / "own.yaml").write_text(OWN)
    for line in ("plan examples/reserved-only", "consolidate examples/consolidate"):
        name = "provision-7" if line.startswith("plan") else "disrupt-8"
        run_documented(f"wain {line} --save-input MADE/{name}", folder)
    return folder


def run_documented(line: str, made: Path) -> Result:
    words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
    words = [PLACEHOLDERS.get(word, word).replace("MADE", str(made)) for word in words]
    words += ["--once"] if words[0] == "top" else []
    with contextlib.chdir(ROOT):
        result = CliRunner().invoke(wain, words, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.mark.parametrize("line", OFFLINE)
def test_documented_commands_run(line: str, made: Path) -> None:
    result = run_documented(line, made)
    assert result.return_value in ((2,) if line in REFUSED else NO_ERROR)
    assert result.stdout


@pytest.mark.parametrize("listed", [*ELSEWHERE, *NOT_RUN], ids=" ".join)
def test_what_is_listed_as_run_elsewhere_or_not_at_all_is_documented(
    listed: tuple[str, str],
) -> None:
    assert any(each.matches(*listed) for each in documented_commands())


# For CI


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the manifests of an example, committed."""
    folder = tmp_path / "clusters"
    folder.mkdir()
    for file in (ROOT / "examples" / "reserved-only").glob("*.yaml"):
        (folder / file.name).write_text(file.read_text())
    for line in ("init -q", "add -A", "-c user.name=t -c user.email=t@example.com commit -qm one"):
        subprocess.run(["git", *line.split()], cwd=tmp_path, check=True)
    return tmp_path


def plan_diff(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", str(DIFF_SCRIPT), *arguments],
        cwd=repository,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def change(repository: Path, file: str, old: str, new: str) -> None:
    path = repository / "clusters" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_script_accepts_a_change_that_leaves_every_pod_scheduled(repository: Path) -> None:
    change(repository, "workload.yaml", "replicas: 3", "replicas: 1")
    done = plan_diff(repository, "HEAD", "clusters/")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_script_refuses_a_change_that_makes_a_pod_unschedulable(repository: Path) -> None:
    change(repository, "workload.yaml", "cpu: ", "cpu: 900")
    done = plan_diff(repository, "HEAD", "clusters/")
    assert done.returncode == 1
    assert "unschedulable" in done.stdout


def test_the_script_refuses_a_wrong_manifest(repository: Path) -> None:
    change(repository, "nodepool.yaml", "\nspec:\n", "\nspec:\n  weight: none\n")
    done = plan_diff(repository, "HEAD", "clusters/")
    assert done.returncode == 2
    assert "spec.weight" in done.stderr


def test_the_script_says_how_to_call_it(repository: Path) -> None:
    done = plan_diff(repository)
    assert done.returncode != 0
    assert "usage: sh plan-diff.sh BASE FOLDER" in done.stderr


def test_the_workflow_runs_commands_that_exist() -> None:
    text = (ROOT / "examples" / "ci" / "github-action.yaml").read_text("utf-8")
    steps = yaml.safe_load(text)["jobs"]["plan"]["steps"]
    runs = {step["name"]: step["run"] for step in steps if "run" in step}
    check_arguments(wain, shlex.split(runs["validate"])[1:])
    assert Path(shlex.split(runs["plan"])[1]).name == DIFF_SCRIPT.name


def test_the_hooks_run_what_exists() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    entries = {hook["id"]: hook["entry"] for hook in hooks}
    check_arguments(wain, [*entries["wain-validate"].split()[1:], "file.yaml"])
    script = ROOT / entries["wain-plan-diff"]
    assert script == DIFF_SCRIPT
    assert os.access(script, os.X_OK)
