"""`wain serve` as somebody at a terminal meets it: what it refuses, and how it begins and ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest
from click.testing import CliRunner
from tests.support.manifest_tables import TESTS

from wainwright.cli.main import wain
from wainwright.errors import UsageError, WainError
from wainwright.manifests.problems import InvalidInput

CLUSTER = str(TESTS.parent / "examples" / "consolidate")
SCENARIO = str(TESTS / "scenarios" / "live" / "shop.yaml")
WAIN = [sys.executable, "-c", "from wainwright.cli.main import main; main()"]


def refusal(*arguments: str) -> WainError:
    error = CliRunner().invoke(wain, ["serve", *arguments], standalone_mode=False).exception
    assert isinstance(error, WainError), error
    assert error.exit_code == 2
    return error


@pytest.mark.parametrize("arguments", [(), (CLUSTER, "--demo"), ("--from-cluster", "--demo")])
def test_one_thing_is_served(arguments: tuple[str, ...]) -> None:
    error = refusal(*arguments)
    assert isinstance(error, UsageError)
    assert "one thing" in error.message
    assert "--from-cluster" in error.hint


@pytest.mark.parametrize("flag", [("--seed", "3"), ("--set", "spec.seed=3")])
def test_options_of_scenarios_are_refused_for_a_cluster(flag: tuple[str, ...]) -> None:
    assert "are for scenarios" in refusal(CLUSTER, *flag).message


def test_standard_input_is_refused_as_files_are_read_again() -> None:
    error = refusal("-")
    assert "more than once" in error.message
    assert "instead of -" in error.hint


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refusal(SCENARIO, "--port", str(port))
    assert f"port {port} cannot be used: Address already in use" in error.message
    assert "--port" in error.hint


def test_an_address_of_another_computer_is_named() -> None:
    assert (
        "192.0.2.1, port 0, cannot be used"
        in refusal(SCENARIO, "--host", "192.0.2.1", "--port", "0").message
    )


def test_a_bad_scenario_is_refused_with_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "day.yaml"
    file.write_text(
        "apiVersion: wainwright.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\n"
        "spec:\n  duration: 1h\n  events:\n    - {at: 1m, explode: {}}\n",
        encoding="utf-8",
    )
    error = refusal(str(file), "--port", "0")
    assert isinstance(error, InvalidInput)
    problem = error.report.errors[0]
    assert problem.where == f"{file}:7"
    assert problem.path == "spec.events[0].explode"


def test_it_serves_until_it_is_stopped_and_ends_quietly() -> None:
    command = [*WAIN, "serve", CLUSTER, "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url, _, rest = line.partition(" ")
        try:
            assert rest.strip() == f"shows {CLUSTER}; Ctrl-C stops it"
            with urlopen(f"{url}report.json", timeout=60) as answer:
                report = json.load(answer)
            assert report["live"]["mode"] == "cluster"
            assert len(report["stories"][0]["history"]["nodes"]) == 7
            body = Request(f"{url}inject", data=b"{}", method="POST")
            with pytest.raises(HTTPError) as refused:
                urlopen(body, timeout=60)
            assert refused.value.code == 404
            refused.value.close()
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize(
    "token", ["s3cret", "a+b", "a&b#c=d", "a b", "é%41/?", '"quoted"; x,y', "\x1b[31m"]
)
def test_the_printed_address_opens_whatever_the_token_is(token: str) -> None:
    command = [*WAIN, "serve", CLUSTER, "--port", "0"]
    environment = {**os.environ, "WAIN_SERVE_TOKEN": token}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        url, _, rest = process.stdout.readline().partition(" ")
        try:
            assert rest.strip() == f"shows {CLUSTER}; Ctrl-C stops it"
            browser = build_opener(HTTPCookieProcessor())
            with browser.open(url, timeout=60) as answer:
                assert "<html" in answer.read().decode()
                assert urlsplit(answer.url).query == ""
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_a_token_that_no_request_can_have_is_refused() -> None:
    assert "not UTF-8 text" in refusal(CLUSTER, "--port", "0", "--token", "a\udcff").message


def test_the_limit_of_pods_is_that_of_events_from_the_page_too() -> None:
    command = [*WAIN, "serve", SCENARIO, "--port", "0", "--paused", "--pod-limit", "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().partition(" ")[0]
        try:
            event = json.dumps(
                {"event": "scale: {namespace: shop, name: web, replicas: 51}"}
            ).encode()
            headers = {"Content-Type": "application/json"}
            with urlopen(Request(f"{url}inject", event, headers), timeout=60) as answer:
                assert "at most 50 are simulated" in json.load(answer)["error"]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
