"""What boto3 writes we read, and what we write boto3 reads: for every operation that is served."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import botocore.parsers
import botocore.serialize
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.emulator_accounts import ManualClock, service_model
from tests.unit.emulator.http.http_support import values

from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.http.protocols import HttpRequest
from wainwright.emulator.http.router import PROTOCOLS_BY_NAME, load_protocol

REQUEST_ID = "00000000-0000-4000-8000-000000000000"


@cache
def operations() -> list[tuple[str, str]]:
    """Everything that the emulator knows, and a service that it does not know at all."""
    parts = EmulatedAwsAccount(clock=ManualClock()).services
    served = {(part.name, name) for part in parts.all() for name in part.operations()}
    return sorted(served | {("sts", "AssumeRole"), ("arc-zonal-shift", "ListZonalShifts")})


@cache
def params(service: str, operation: str) -> st.SearchStrategy[dict[str, Any]] | None:
    shape = service_model(service).operation_model(operation).input_shape
    return None if shape is None else values(shape, whole=True)


@cache
def answers(service: str, operation: str) -> st.SearchStrategy[dict[str, Any]] | None:
    shape = service_model(service).operation_model(operation).output_shape
    return None if shape is None else values(shape)


def sent(service: str, operation: str, meant: Mapping[str, Any]) -> HttpRequest:
    """As boto3 would send it."""
    model = service_model(service)
    serializer = botocore.serialize.create_serializer(
        model.metadata["protocol"], include_validation=False
    )
    made = serializer.serialize_to_request(dict(meant), model.operation_model(operation))
    path, _, query = made["url_path"].partition("?")
    asked = made["query_string"]
    query = "&".join(filter(None, [query, urlencode(asked, doseq=True) if asked else ""]))
    body = made["body"]
    if isinstance(body, dict):
        body = urlencode(body).encode()
    return HttpRequest(made["method"], path, query, made["headers"], body)


def received(service: str, operation: str, status: int, headers: Any, body: bytes) -> Any:
    """As boto3 would read it, without what it adds."""
    model = service_model(service)
    parser = botocore.parsers.create_parser(model.metadata["protocol"])
    lowered = {name.lower(): value for name, value in headers.items()}
    answer = {"status_code": status, "headers": lowered, "body": body}
    found = parser.parse(answer, model.operation_model(operation).output_shape)
    found.pop("ResponseMetadata", None)
    return found


@given(st.data())
def test_requests_are_read_as_they_were_meant(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = params(service, operation)
    if strategy is None:
        return
    meant = data.draw(strategy)
    spoken = load_protocol(service)
    assert spoken is not None
    incoming = sent(service, operation, meant)
    assert spoken.operation(incoming) == operation
    assert spoken.params(operation, incoming) == meant


@given(st.data())
def test_answers_are_read_as_they_were_meant(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = answers(service, operation)
    if strategy is None:
        return
    meant = data.draw(strategy)
    spoken = load_protocol(service)
    assert spoken is not None
    reply = spoken.answer(operation, meant, REQUEST_ID)
    found = received(service, operation, reply.status, reply.headers, reply.body)
    assert found == meant


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS_BY_NAME))
def test_every_protocol_is_met_by_some_operation(protocol: str) -> None:
    spoken = {service_model(service).metadata["protocol"] for service, _ in operations()}
    assert protocol in spoken


def test_a_service_that_nobody_knows_has_no_speech() -> None:
    assert load_protocol("no-such-service") is None
    assert load_protocol("s3") is None
