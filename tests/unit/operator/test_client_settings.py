"""What settings of `wain run` say of its client, as an API server notices it."""

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.scripted_api import serve, status

from wainwright.clock import VirtualClock
from wainwright.operator.process import EMULATOR, CannotStartError, RunOptions, run_operator
from wainwright.operator.settings import read_settings


def kubeconfig(folder: Path, url: str) -> str:
    content = {
        "clusters": [{"name": "a", "cluster": {"server": url}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "current-context": "a",
    }
    (folder / "config").write_text(json.dumps(content))
    return str(folder / "config")


def request_times(folder: Path, environment: dict[str, str]) -> list[float]:
    """When a process asks a cluster that has none of our kinds, and so does not start: for the
    version, for three API groups, and for each of five kinds.
    """
    settings, clock, times = read_settings({}, environment), VirtualClock(), list[float]()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        times.append(asyncio.get_running_loop().time())
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": "33"})
        return status(404)

    async def main() -> None:
        async with serve(handle) as url:
            options = RunOptions(provider=EMULATOR, kubeconfig=kubeconfig(folder, url))
            with pytest.raises(CannotStartError, match="does not have"):
                await run_operator(settings, options)

    try:
        clock.run(main())
    finally:
        clock.close()
    return [time - times[0] for time in times]


def test_the_client_makes_as_many_requests_as_settings_allow(tmp_path: Path) -> None:
    environment = {"CLUSTER_NAME": "shop", "KUBE_CLIENT_QPS": "2", "KUBE_CLIENT_BURST": "3"}
    found = request_times(tmp_path, environment)
    assert found == pytest.approx([0, 0, 0, 0.5, 1, 1.5, 2, 2.5, 3], abs=0.1)


def test_without_settings_a_start_waits_for_nothing(tmp_path: Path) -> None:
    found = request_times(tmp_path, {"CLUSTER_NAME": "shop"})
    assert found == pytest.approx([0] * 9, abs=0.1)
