"""Requests of boto3 are decoded and responses are decoded by boto3, for every operation."""

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
from wainwright.emulator.http.server import PROTOCOLS_BY_NAME, load_protocol

REQUEST_ID = "00000000-0000-4000-8000-000000000000"


@cache
def operations() -> list[tuple[str, str]]:
    """All operations of the emulator, and those of a service that is not emulated."""
    parts = EmulatedAwsAccount(clock=ManualClock()).services
    served = {(part.name, name) for part in parts.all() for name in part.operations()}
    return sorted(served | {("sts", "AssumeRole"), ("arc-zonal-shift", "ListZonalShifts")})


@cache
def request_params(service: str, operation: str) -> st.SearchStrategy[dict[str, Any]] | None:
    shape = service_model(service).operation_model(operation).input_shape
    return None if shape is None else values(shape, non_empty=True)


@cache
def responses(service: str, operation: str) -> st.SearchStrategy[dict[str, Any]] | None:
    shape = service_model(service).operation_model(operation).output_shape
    return None if shape is None else values(shape)


def encode_request(service: str, operation: str, expected: Mapping[str, Any]) -> HttpRequest:
    """The request as boto3 sends it."""
    model = service_model(service)
    serializer = botocore.serialize.create_serializer(
        model.metadata["protocol"], include_validation=False
    )
    created = serializer.serialize_to_request(dict(expected), model.operation_model(operation))
    path, _, query = created["url_path"].partition("?")
    request = created["query_string"]
    query = "&".join(filter(None, [query, urlencode(request, doseq=True) if request else ""]))
    body = created["body"]
    if isinstance(body, dict):
        body = urlencode(body).encode()
    return HttpRequest(created["method"], path, query, created["headers"], body)


def decode_response(service: str, operation: str, status: int, headers: Any, body: bytes) -> Any:
    """The response as boto3 parses it, without its metadata."""
    model = service_model(service)
    parser = botocore.parsers.create_parser(model.metadata["protocol"])
    lowered = {name.lower(): value for name, value in headers.items()}
    response = {"status_code": status, "headers": lowered, "body": body}
    found = parser.parse(response, model.operation_model(operation).output_shape)
    found.pop("ResponseMetadata", None)
    return found


@given(st.data())
def test_requests_of_boto3_are_decoded(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = request_params(service, operation)
    if strategy is None:
        return
    expected = data.draw(strategy)
    spoken = load_protocol(service)
    assert spoken is not None
    incoming = encode_request(service, operation, expected)
    assert spoken.operation(incoming) == operation
    assert spoken.params(operation, incoming) == expected


@given(st.data())
def test_responses_are_decoded_by_boto3(data: st.DataObject) -> None:
    service, operation = data.draw(st.sampled_from(operations()))
    strategy = responses(service, operation)
    if strategy is None:
        return
    expected = data.draw(strategy)
    spoken = load_protocol(service)
    assert spoken is not None
    reply = spoken.answer(operation, expected, REQUEST_ID)
    found = decode_response(service, operation, reply.status, reply.headers, reply.body)
    assert found == expected


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS_BY_NAME))
def test_every_protocol_is_covered(protocol: str) -> None:
    spoken = {service_model(service).metadata["protocol"] for service, _ in operations()}
    assert protocol in spoken


def test_an_unknown_service_has_no_protocol() -> None:
    assert load_protocol("no-such-service") is None
    assert load_protocol("s3") is None
