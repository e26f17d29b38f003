"""What clients do to connections of a server of ours, which is no bug and no line of a log."""

import logging
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

CLIENT_FAULTS: Final = (web.RequestPayloadError, HttpProcessingError)


def _is_our_fault(record: logging.LogRecord) -> bool:
    """A request or body that is not what its headers say is the client's, which has its 400."""
    return not (record.exc_info and isinstance(record.exc_info[1], CLIENT_FAULTS))


CONNECTION_LOG: Final = logging.getLogger("aiohttp.server.connections")
"""Of what aiohttp meets before and after a request: it reads the rest of a body once more."""
CONNECTION_LOG.addFilter(_is_our_fault)


def close_after_bad_body(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Nobody knows where the next request of the connection would begin."""
    if request.content.exception() is not None:
        response.force_close()
