"""--from-cluster and `wain snapshot` where there is no cluster, as somebody at a terminal."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wainwright.cli.cluster_input import cluster_text
from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError, ServerUnavailableError, UsageError, WainError

CLUSTER = {"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}
CONTEXT = {"name": "here", "context": {"cluster": "here"}}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return written_config(tmp_path, CLUSTER)


def written_config(folder: Path, cluster: dict[str, Any]) -> str:
    config = {"clusters": [cluster], "contexts": [CONTEXT], "current-context": "here"}
    (folder / "config").write_text(json.dumps(config))
    return str(folder / "config")


class EmptyClusterWithoutServices(BaseHTTPRequestHandler):
    """Lists nothing of any kind, and refuses to list services."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body: dict[str, Any] = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
        code = 200
        if self.path.startswith("/api/v1/services"):
            code, message = 403, 'services is forbidden: User "a" cannot list resource "services"'
            body = {"kind": "Status", "message": message, "code": code}
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on standard error, which is what is tested."""


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


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


def test_a_role_without_services_is_enough_and_a_note_says_what_is_missing(tmp_path: Path) -> None:
    with served(EmptyClusterWithoutServices) as url:
        config = written_config(tmp_path, {"name": "here", "cluster": {"server": url}})
        result = CliRunner().invoke(wain, ("snapshot", "--kubeconfig", config))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["items"] == []
    assert 'note: left out: services is forbidden: User "a" cannot list' in result.stderr
    assert "--scheduler-config" in result.stderr
    assert "wain snapshot --rbac" in result.stderr
