"""The page of `wain serve` in a real browser: playing, events from the page, lost connections."""

import json
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, expect
from tests.page.conftest import LivePages
from tests.page.test_report_page import AXE, figure, run_axe, seek
from tests.support.manifest_tables import TESTS

SCENARIO = TESTS / "scenarios" / "live" / "shop.yaml"
WAIN = str(Path(sys.executable).with_name("wain"))
BAD_POOL = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: bad}, spec: {weight: 0}}"
SLOW = 60_000
"""Milliseconds that an answer may take on a machine that is busy with other tests."""


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The address of a `wain serve` of its own."""
    command = [WAIN, "serve", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().partition(" ")[0]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, "it ends of itself, without an error"


@pytest.fixture
def address() -> Iterator[str]:
    """A scenario that waits to be played."""
    with serving(str(SCENARIO), "--paused") as url:
        yield url


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    """For tests to which it does not matter where it is."""
    with serving(str(SCENARIO), "--paused") as url:
        yield url


def report(address: str) -> dict[str, Any]:
    with urlopen(f"{address}report.json", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def story(address: str) -> dict[str, Any]:
    found: dict[str, Any] = report(address)["stories"][0]
    return found


def step(page: Page, seconds: int, since_start: str) -> None:
    """By the button, until the page has got there."""
    page.locator("#speed").select_option(str(seconds))
    page.locator("#step").click()
    expect(page.locator("#moment-text")).to_contain_text(
        re.compile(rf"· {since_start}$"), timeout=SLOW
    )


def inject(page: Page, verb: str, *, what: str | None = None, amount: str | None = None) -> str:
    """Fills in the form and sends it; returns the event as it was sent."""
    page.locator("#verb").select_option(verb)
    if what is not None:
        page.locator("#what").select_option(what)
    if amount is not None:
        page.locator("#amount").fill(amount)
    event = page.locator("#event").input_value()
    page.locator("#happen").click()
    expect(page.locator("#injected")).to_have_text(f"happened: {event}", timeout=SLOW)
    return event


def assert_numbers_of(page: Page, address: str) -> None:
    """Header and JSON say the same."""
    series = story(address)["series"]
    assert figure(page, "nodes") == str(series["nodes"][-1])
    pods = figure(page, "pods")
    assert f"{series['pods']['running'][-1]} running" in pods
    assert f"{series['pods']['pending'][-1]} pending" in pods
    price = series["pricePerHour"][-1]
    expected = "≈$0/h" if 0 < price < 0.0005 else f"~${price:,.3f}/h" if price else "$0.000/h"
    assert figure(page, "price").startswith(expected)


def picture(page: Page) -> str:
    """What is painted."""
    painted: str = page.locator("#picture-0").evaluate("(it) => it.toDataURL()")
    return painted


# Playing


def test_play_pause_and_step_up_to_the_end(address: str, live_pages: LivePages) -> None:
    page = live_pages.serve(address)
    state = page.locator("#live-state")
    expect(state).to_have_text("· paused")
    assert figure(page, "pods").startswith("0 running")
    before = picture(page)
    step(page, 300, "5m")
    assert figure(page, "pods").startswith("6 running")
    assert picture(page) != before
    assert_numbers_of(page, address)
    page.locator("#speed").select_option("60")
    page.locator("#play").click()
    expect(state).to_have_text("· playing 1m per second", timeout=SLOW)
    expect(page.locator("#moment-text")).not_to_have_text(re.compile("· 5m$"), timeout=SLOW)
    page.locator("h1").click()
    page.keyboard.press("Space")
    expect(state).to_have_text("· paused", timeout=SLOW)
    expect(page.locator("#play")).to_have_attribute("aria-pressed", "false")
    assert_numbers_of(page, address)
    page.locator("#speed").select_option("3600")
    for _ in range(4):
        page.locator("#step").click()
    expect(state).to_have_text("· finished", timeout=SLOW)
    command = [WAIN, "simulate", str(SCENARIO), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = json.loads(done.stdout)
    assert story(address)["figures"] == expected["totals"]
    expect(page.locator("h1")).to_contain_text("all 2 expectations held")
    assert_numbers_of(page, address)
    seek(page, 600)
    assert figure(page, "nodes") == "3", "the past is there still"
    page.locator("#latest").click()
    assert figure(page, "nodes") == str(expected["series"]["nodes"][-1])


# Events from the page


def test_the_five_events_happen_and_the_loop_answers(address: str, live_pages: LivePages) -> None:
    page = live_pages.serve(address)
    step(page, 900, "15m")
    details = page.locator("#details")
    nodes = figure(page, "nodes")

    sent = inject(page, "scale", amount="12")
    assert sent == "{scale: {kind: Deployment, namespace: shop, name: web, replicas: 12}}"
    expect(page.locator("[data-figure=pods]")).to_contain_text("6 pending", timeout=SLOW)
    before = picture(page)
    step(page, 300, "20m")
    assert figure(page, "pods").startswith("12 running")
    assert figure(page, "nodes") != nodes
    assert picture(page) != before
    assert_numbers_of(page, address)

    price = figure(page, "price")
    assert inject(page, "price", amount="4") == "{price: {capacityType: spot, factor: 4}}"
    expect(page.locator("[data-figure=price]")).not_to_have_text(price, timeout=SLOW)
    assert_numbers_of(page, address)

    sent = inject(page, "interrupt", what="", amount="100")
    assert sent == "{interrupt: {capacityType: spot, share: 1}}"
    expect(details).to_contain_text("spot interruption: EC2 reclaims the instance", timeout=SLOW)

    sent = inject(page, "reservation", what="cr-1", amount="1")
    assert re.fullmatch(
        r'\{reservation: \{change: \{id: cr-1, endTime: "2026-03-02T08:21:00Z"\}\}\}', sent
    )
    expect(details).to_contain_text("none idle")
    step(page, 60, "21m")
    expect(details).to_contain_text("expired: ", timeout=SLOW)
    expect(details).to_contain_text("ended at ")

    assert inject(page, "outage", what="us-west-2a") == "{outage: {zone: us-west-2a}, for: 30m}"
    expect(details).to_contain_text("outage zone us-west-2a", timeout=SLOW)
    step(page, 900, "36m")
    assert_numbers_of(page, address)
    marks = {each["verb"] for each in story(address)["events"] if each["what"] == "scenario"}
    assert {"scale", "price", "interrupt", "reservation", "outage"} <= marks
    assert story(address)["series"]["pods"]["running"][-1] == 8, "the scenario scales at 30m"


def test_any_event_of_a_scenario_can_be_written(shared: str, live_pages: LivePages) -> None:
    page = live_pages.serve(shared)
    text = page.locator("#event")
    text.fill("outage: {zone: mars}")
    text.press("Enter")
    problem = page.locator("#injected.failed")
    expect(problem).to_contain_text(
        "outage.zone: no zone of us-west-2 is called mars", timeout=SLOW
    )
    text.fill("restart: controller")
    text.press("Enter")
    expect(page.locator("#injected")).to_have_text("happened: restart: controller", timeout=SLOW)
    expect(page.locator("#details")).to_contain_text("restart the controllers", timeout=SLOW)
    text.fill("delete: {kind: Deployment, namespace: shop, name: <img src=x onerror=alert(1)>}")
    text.press("Enter")
    expect(problem).to_contain_text("<img src=x onerror=alert(1)>", timeout=SLOW)


# Connections


class Wire:
    """Between browser and server: it can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sock = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._sock.getsockname()[1]}/"

    def cut(self) -> None:
        self._is_cut = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._sock.accept()
                if self._is_cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += [client, server]
                threading.Thread(target=_carry, args=(client, server), daemon=True).start()


def _carry(one: socket.socket, other: socket.socket) -> None:
    ends = {one: other, other: one}
    with suppress(OSError), one, other:
        while True:
            for ready in select.select(list(ends), [], [])[0]:
                data = ready.recv(65_536)
                if not data:
                    return
                ends[ready].sendall(data)


def test_a_page_that_lost_its_connection_misses_nothing(
    address: str, live_pages: LivePages
) -> None:
    wire = Wire(int(address.rstrip("/").rpartition(":")[2]))
    # Chromium itself reports requests that fail; that is what happens here on purpose.
    live_pages.may_fail = True
    page = live_pages.serve(wire.address)
    step(page, 300, "5m")
    wire.cut()
    expect(page.locator("#live-state")).to_have_text("· disconnected, reconnecting", timeout=SLOW)
    other = live_pages.serve(address)
    step(other, 900, "20m")
    step(other, 900, "35m")
    expect(page.locator("#moment-text")).to_contain_text(re.compile("· 5m$"))
    wire.mend()
    expect(page.locator("#moment-text")).to_contain_text(re.compile("· 35m$"), timeout=SLOW)
    expect(page.locator("#live-state")).to_have_text("· paused")
    assert_numbers_of(page, address)
    seek(page, 1790)
    seek(other, 1790)
    for name in ("nodes", "cpu", "memory", "price", "pods"):
        assert figure(page, name) == figure(other, name)
    resumed = [each for each in live_pages.requests if each.startswith(f"{wire.address}stream")]
    assert len(resumed) >= 2
    wire.close()


# Everybody


def test_axe_finds_nothing_in_light_and_dark(shared: str, live_pages: LivePages) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run npm ci in web/")
    page = live_pages.serve(shared)
    page.locator("#step").click()
    expect(page.locator("#moment-text")).not_to_contain_text(re.compile("· 0s$"), timeout=SLOW)
    found = run_axe(page)
    page.emulate_media(color_scheme="dark")
    page.locator("#event").fill("outage: {zone: mars}")
    page.locator("#happen").click()
    expect(page.locator("#injected.failed")).to_be_visible(timeout=SLOW)
    assert found + run_axe(page) == []


@pytest.mark.parametrize("size", [(1440, 900), (820, 1180), (390, 844)])
def test_nothing_is_wider_than_the_window(
    shared: str, live_pages: LivePages, size: tuple[int, int]
) -> None:
    page = live_pages.serve(shared, width=size[0], height=size[1])
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


# A cluster


def test_files_of_a_cluster_are_shown_read_only_and_followed(
    live_pages: LivePages, tmp_path: Path
) -> None:
    example = (TESTS.parent / "examples" / "consolidate").glob("*.yaml")
    for each in example:
        (tmp_path / each.name).write_text(each.read_text(encoding="utf-8"), encoding="utf-8")
    with serving(str(tmp_path), "--interval", "1") as address:
        page = live_pages.serve(address)
        expect(page.locator("#live-state")).to_have_text("· live, read-only")
        expect(page.locator("h1")).to_contain_text("7 nodes could be 3")
        assert page.locator("#inject").is_hidden()
        assert page.locator("#play").is_hidden()
        assert figure(page, "nodes") == "7"
        page.locator("#picture-0").press("ArrowRight")
        expect(page.locator("#details-title")).to_contain_text("Node ")
        pools = tmp_path / "pools.yaml"
        text = pools.read_text(encoding="utf-8")
        pools.write_text(f"{text}\n---\n{BAD_POOL}", encoding="utf-8")
        expect(page.locator("#live-state")).to_contain_text("not refreshed: ", timeout=SLOW)
        assert figure(page, "nodes") == "7"
        pools.write_text(text, encoding="utf-8")
        expect(page.locator("#live-state")).to_have_text("· live, read-only", timeout=SLOW)
        (tmp_path / "pods.yaml").unlink()
        expect(page.locator("[data-figure=pods]")).to_contain_text("0 running", timeout=SLOW)
        page.context.close()


def test_the_token_is_taken_out_of_the_address(live_pages: LivePages) -> None:
    with serving(str(SCENARIO), "--paused", "--host", "0.0.0.0") as printed:
        port = re.search(r":(\d+)/\?token=", printed)
        assert port is not None
        local = printed.replace("0.0.0.0", "127.0.0.1")
        page = live_pages.serve(local)
        assert page.url == f"http://127.0.0.1:{port[1]}/"
        step(page, 300, "5m")
        assert figure(page, "pods").startswith("6 running")
        other = live_pages.browser.new_context().new_page()
        answer = other.goto(page.url)
        assert answer is not None
        assert answer.status == 403
        page.context.close()
