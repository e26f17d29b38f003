"""Services by the credentials of a request: the only thing that tells them apart on one port."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader
from botocore.model import ServiceModel

from wainwright.emulator.http import refusals
from wainwright.emulator.http.protocols import Json, Query, Speech
from wainwright.emulator.http.rest import Rest
from wainwright.emulator.http.wire import Incoming, Reply
from wainwright.emulator.world import Answer, Params
from wainwright.errors import AwsError

SCOPE: Final = re.compile(r"Credential=[^/\s,]+/\d{8}/[^/\s,]*/([^/\s,]+)/aws4_request")
PRESIGNED: Final = "X-Amz-Credential"
SPEECHES: Final[dict[str, Callable[[Any], Speech]]] = {
    "ec2": Query,
    "query": Query,
    "json": Json,
    "rest-json": Rest,
}


def signed_for(incoming: Incoming) -> str | None:
    """The service that a request was signed for. Nobody looks at the signature itself."""
    found = SCOPE.search(incoming.headers.get("Authorization", ""))
    if found is not None:
        return found[1]
    for name, value in incoming.arguments:
        if name == PRESIGNED:
            found = SCOPE.fullmatch(f"Credential={unquote(value)}")
            return None if found is None else found[1]
    return None


@lru_cache(maxsize=512)
def speech(service: str) -> Speech | None:
    """How a service is spoken to, whichever botocore has a model of; None where it has none.

    Loaded once and for all servers of the process: half a second for the largest.
    """
    try:
        described = Loader().load_service_model(service, "service-2")
    except (UnknownServiceError, DataNotFoundError):
        return None
    model = ServiceModel(described, service)
    made = SPEECHES.get(model.metadata["protocol"])
    return None if made is None else made(model)


class Guess:
    """How to refuse a request of which nobody knows for whom it is: as it was asked."""

    def __init__(self, error: AwsError, incoming: Incoming) -> None:
        self._error = error
        self._incoming = incoming

    def operation(self, incoming: Incoming) -> str:  # noqa: ARG002
        raise self._error

    def params(self, operation: str, incoming: Incoming) -> Params:  # noqa: ARG002
        raise self._error

    def answer(self, operation: str, answer: Answer, request_id: str) -> Reply:  # noqa: ARG002
        return self.refusal(self._error, request_id)

    def refusal(self, error: AwsError, request_id: str) -> Reply:
        headers = self._incoming.headers
        if "X-Amz-Target" in headers:
            version = headers.get("Content-Type", "").rpartition("-")[2]
            return refusals.json(error, request_id, version if version == "1.0" else "1.1")
        if "json" in headers.get("Content-Type", "") or self._incoming.path != "/":
            return refusals.rest(error, request_id)
        return refusals.query(error, request_id)
