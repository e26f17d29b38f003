"""--from-cluster and `wain snapshot` where there is no cluster, as somebody at a terminal."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from wainwright.cli.cluster_input import cluster_text
from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError, ServerUnavailableError, UsageError, WainError

CLUSTER = {"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}
CONTEXT = {"name": "here", "context": {"cluster": "here"}}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    config = {"clusters": [CLUSTER], "contexts": [CONTEXT], "current-context": "here"}
    (tmp_path / "config").write_text(json.dumps(config))
    return str(tmp_path / "config")


def refusal(*arguments: str) -> WainError:
    cluster_text.cache_clear()
    error = CliRunner().invoke(wain, arguments, standalone_mode=False).exception
    assert isinstance(error, WainError), error
    return error


COMMANDS = [
    ("snapshot",),
    ("plan", "--from-cluster"),
    ("consolidate", "--from-cluster"),
    ("explain", "pod", "a", "--from-cluster"),
    ("explain", "node", "a", "--from-cluster"),
    ("reservations", "--from-cluster"),
    ("validate", "--from-cluster"),
    ("top", "--from-cluster"),
    ("serve", "--from-cluster", "--port", "0"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_that_does_not_answer_is_named(command: tuple[str, ...], kubeconfig: str) -> None:
    error = refusal(*command, "--kubeconfig", kubeconfig)
    assert isinstance(error, ServerUnavailableError)
    assert "http://127.0.0.1:1" in error.message
    assert "context 'here'" in error.hint
    assert error.exit_code == 2


def test_an_unknown_context_is_answered_with_those_there_are(kubeconfig: str) -> None:
    error = refusal("snapshot", "--kubeconfig", kubeconfig, "--context", "there")
    assert isinstance(error, InvalidInputError)
    assert "no context 'there'" in error.message
    assert "here" in error.hint


def test_without_a_kubeconfig_it_says_how_to_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    error = refusal("plan", "--from-cluster")
    assert "no kubeconfig" in error.message
    assert "--kubeconfig" in error.hint


def test_a_context_without_from_cluster_is_a_mistake() -> None:
    error = refusal("plan", "--context", "here", "x.yaml")
    assert isinstance(error, UsageError)
    assert "--from-cluster" in error.message
