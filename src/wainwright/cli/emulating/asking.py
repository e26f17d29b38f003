"""Asking a running emulator under its own path."""

import json
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from wainwright.errors import BadInput, Usage


def ask(endpoint: str, path: str, body: Any = None) -> Any:
    """The answer, or BadInput with what the emulator has against it."""
    data = None if body is None else json.dumps(body).encode()
    try:
        request = Request(f"{endpoint.rstrip('/')}/_wain/{path}", data)
        request.add_header("Content-Type", "application/json")
        # Straight there, whatever proxy the environment names: it is on this machine.
        with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
            return json.load(answer)
    except HTTPError as error:
        raise _refused(endpoint, error) from None
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        hint = "start one with: wain emulator, or name another with --endpoint"
        raise Usage(f"no emulator answers at {endpoint}: {reason}", hint) from None


def _refused(endpoint: str, error: HTTPError) -> BadInput:
    try:
        said = json.load(error)
        return BadInput(str(said["error"]), str(said.get("hint", "")))
    except (ValueError, KeyError, TypeError):
        return BadInput(f"what answers at {endpoint} is no wain emulator (HTTP {error.code})")
