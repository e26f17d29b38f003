"""Messages as they are sent and received: sums, attributes, receipts."""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any

from wainwright.emulator.services.sqs_state import INVALID, Attribute, Message
from wainwright.errors import AwsError


def attributes(given: Mapping[str, Any] | None) -> dict[str, Attribute]:
    """Message attributes of a request."""
    return {name: _attribute(name, value) for name, value in (given or {}).items()}


def _attribute(name: str, value: Mapping[str, Any]) -> Attribute:
    kind = value.get("DataType") or ""
    text, binary = value.get("StringValue"), value.get("BinaryValue")
    if kind.partition(".")[0] not in ("String", "Number", "Binary"):
        raise AwsError(
            INVALID,
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String.",
        )
    if (binary if kind.startswith("Binary") else text) in (None, "", b""):
        raise AwsError(INVALID, f"Message (user) attribute '{name}' must contain a non-empty value")
    return Attribute(type=kind, text=text, binary=binary)


def sum_of(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def sum_of_attributes(given: Mapping[str, Attribute]) -> str:
    """As clients check it: name, type and value of each in the order of names, with lengths."""
    total = md5(usedforsecurity=False)
    for name in sorted(given):
        attribute = given[name]
        binary = attribute.type.startswith("Binary")
        value = (attribute.binary or b"") if binary else (attribute.text or "").encode()
        total.update(_measured(name.encode()) + _measured(attribute.type.encode()))
        total.update((b"\2" if binary else b"\1") + _measured(value))
    return total.hexdigest()


def _measured(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def view(message: Message, params: Mapping[str, Any], sender: str) -> dict[str, Any]:
    """The message as a receiver gets it, with those attributes that it asked for."""
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": receipt(message),
        "MD5OfBody": sum_of(message.body),
        "Body": message.body,
    }
    asked = params.get("MessageSystemAttributeNames") or params.get("AttributeNames") or ()
    system = {
        name: value
        for name, value in _system(message, sender).items()
        if name in asked or "All" in asked
    }
    own = _chosen(message.attributes, params.get("MessageAttributeNames") or ())
    if system:
        shown["Attributes"] = system
    if own:
        shown["MessageAttributes"] = {name: _shown(own[name]) for name in own}
        shown["MD5OfMessageAttributes"] = sum_of_attributes(own)
    return shown


def _system(message: Message, sender: str) -> dict[str, str]:
    first = message.sent if message.first_received is None else message.first_received
    return {
        "SenderId": sender,
        "SentTimestamp": milliseconds(message.sent),
        "ApproximateReceiveCount": str(message.received),
        "ApproximateFirstReceiveTimestamp": milliseconds(first),
    }


def milliseconds(moment: float) -> str:
    return str(round(moment * 1000))


def _chosen(given: Mapping[str, Attribute], asked: Sequence[str]) -> dict[str, Attribute]:
    """By name, by the beginning of a name (`a.*`), or all."""
    beginnings = tuple(name.removesuffix(".*") for name in asked if name.endswith(".*"))
    return {
        name: attribute
        for name, attribute in given.items()
        if "All" in asked or name in asked or (beginnings and name.startswith(beginnings))
    }


def _shown(attribute: Attribute) -> dict[str, Any]:
    value = (
        {"StringValue": attribute.text}
        if attribute.binary is None
        else {"BinaryValue": attribute.binary}
    )
    return {"DataType": attribute.type, **value}


def receipt(message: Message) -> str:
    """Good for this reception only: the next one gets another."""
    return urlsafe_b64encode(f"{message.id} {message.received}".encode()).decode()


def received(handle: str) -> tuple[str, int]:
    """The id of the message, and which reception of it the receipt is for."""
    try:
        identity, _, count = urlsafe_b64decode(handle.encode()).decode().partition(" ")
        return identity, int(count)
    except (binascii.Error, UnicodeError, ValueError):
        raise AwsError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not valid.'
        ) from None
