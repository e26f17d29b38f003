"""Errors in the shape of each protocol. None of them is ever a page for people."""

from collections.abc import Mapping

import msgspec

from wainwright.emulator.http.wire import Reply
from wainwright.emulator.http.xml import DECLARATION, element, escaped
from wainwright.emulator.services.sqs import JSON_NAMES
from wainwright.errors import AwsError

REQUEST_ID = "x-amzn-RequestId"
ERROR_TYPE = "x-amzn-ErrorType"
QUERY_ERROR = "x-amzn-query-error"
XML = "text/xml;charset=UTF-8"


def ec2(error: AwsError, request_id: str) -> Reply:
    said = element("Code", escaped(error.code)) + element("Message", escaped(error.text))
    inner = element("Errors", element("Error", said)) + element("RequestID", request_id)
    return xml(error.status, element("Response", inner), request_id)


def query(error: AwsError, request_id: str, namespace: str = "") -> Reply:
    said = (
        element("Type", _blame(error))
        + element("Code", escaped(error.code))
        + element("Message", escaped(error.text))
    )
    inner = element("Error", said) + element("RequestId", request_id)
    opening = f'<ErrorResponse xmlns="{namespace}">' if namespace else "<ErrorResponse>"
    return xml(error.status, f"{opening}{inner}</ErrorResponse>", request_id)


def json(error: AwsError, request_id: str, version: str, *, compatible: bool = False) -> Reply:
    """`compatible`: of a service that used to speak the query protocol, and still has its codes."""
    name = JSON_NAMES.get(error.code, error.code) if compatible else error.code
    headers = {"Content-Type": f"application/x-amz-json-{version}", REQUEST_ID: request_id}
    headers[ERROR_TYPE] = name
    if compatible:
        headers[QUERY_ERROR] = f"{error.code};{_blame(error)}"
    return Reply(error.status, _said(error, {"__type": name}), headers)


def rest(error: AwsError, request_id: str) -> Reply:
    headers = {
        "Content-Type": "application/json",
        REQUEST_ID: request_id,
        ERROR_TYPE: error.code,
    }
    return Reply(error.status, _said(error, {}), headers)


def xml(status: int, text: str, request_id: str) -> Reply:
    headers = {"Content-Type": XML, REQUEST_ID: request_id}
    return Reply(status, (DECLARATION + text).encode(), headers)


def _said(error: AwsError, more: Mapping[str, str]) -> bytes:
    return msgspec.json.encode({**more, "message": error.text})


def _blame(error: AwsError) -> str:
    return "Sender" if error.status < 500 else "Receiver"
