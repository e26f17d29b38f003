"""What the emulated SQS remembers: queues, their settings, and messages with their visibility."""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.errors import AwsError

INVALID: Final = "InvalidParameterValue"
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)

NUMBERS: Final = {
    "DelaySeconds": (0, 0, 900),
    "MaximumMessageSize": (1_048_576, 1024, 1_048_576),
    "MessageRetentionPeriod": (345_600, 60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 0, 20),
    "VisibilityTimeout": (30, 0, 43_200),
}
"""Settings that are numbers: what they are when nobody sets them, least and most."""
TEXTS: Final = frozenset(
    {
        "KmsDataKeyReusePeriodSeconds",
        "KmsMasterKeyId",
        "Policy",
        "RedriveAllowPolicy",
        "RedrivePolicy",
        "SqsManagedSseEnabled",
    }
)
"""Settings that are kept and given back, and change nothing here."""


class Attribute(msgspec.Struct, kw_only=True, frozen=True):
    """An attribute that the sender gave a message."""

    type: str
    text: str | None = None
    binary: bytes | None = None


class Message(msgspec.Struct, kw_only=True):
    id: str
    body: str
    sent: float
    visible: float
    """From when on it can be received."""
    attributes: dict[str, Attribute] = {}
    received: int = 0
    first_received: float | None = None


class Queue(msgspec.Struct, kw_only=True):
    name: str
    created: float
    modified: float
    settings: dict[str, str] = {}
    """Only those that somebody set."""
    tags: dict[str, str] = {}
    messages: dict[str, Message] = {}
    """By id, in the order in which they came."""

    def number(self, setting: str) -> int:
        return int(self.settings.get(setting, NUMBERS[setting][0]))

    def forget(self, now: float) -> None:
        """Drops what has been kept for long enough; the oldest come first."""
        oldest = now - self.number("MessageRetentionPeriod")
        while self.messages:
            first = next(iter(self.messages.values()))
            if first.sent > oldest:
                return
            del self.messages[first.id]


class SqsState(msgspec.Struct, kw_only=True):
    queues: dict[str, Queue] = {}


def queue_name(given: str) -> str:
    if given.endswith(".fifo"):
        raise AwsError(
            "AWS.SimpleQueueService.UnsupportedOperation", "There are no FIFO queues here."
        )
    if not NAME.fullmatch(given):
        raise AwsError(
            INVALID,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return given


def settings(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings of a queue as a request has them, checked."""
    checked: dict[str, str] = {}
    for name, value in (given or {}).items():
        if name in NUMBERS:
            checked[name] = str(_number(name, value))
        elif name in TEXTS:
            checked[name] = str(value)
        else:
            raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    return checked


def _number(name: str, value: Any) -> int:
    _, least, most = NUMBERS[name]
    text = str(value)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise AwsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
    return int(text)
