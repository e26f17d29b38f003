"""SQS queues, their attributes and messages: created, found, changed, purged and deleted."""

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from wainwright.emulator.api_conventions import make_arn, require_text
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination
from wainwright.errors import AwsError

INVALID_VALUE: Final = "InvalidParameterValue"
QUEUE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)

NUMBER_ATTRIBUTES: Final = {
    "DelaySeconds": (0, 0, 900),
    "MaximumMessageSize": (1_048_576, 1024, 1_048_576),
    "MessageRetentionPeriod": (345_600, 60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 0, 20),
    "VisibilityTimeout": (30, 0, 43_200),
}
"""Settings that are numbers: what they are when nobody sets them, least and most."""
TEXT_ATTRIBUTES: Final = frozenset(
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


class MessageAttribute(msgspec.Struct, kw_only=True, frozen=True):
    """An attribute that the sender gave a message."""

    type: str
    text: str | None = None
    binary: bytes | None = None


class SqsMessage(msgspec.Struct, kw_only=True):
    id: str
    body: str
    sent: float
    visible_from: float = msgspec.field(name="visible")
    """From when on it can be received."""
    attributes: dict[str, MessageAttribute] = {}
    receive_count: int = msgspec.field(default=0, name="received")
    first_received: float | None = None


class SqsQueue(msgspec.Struct, kw_only=True):
    name: str
    created: float
    modified: float
    attributes: dict[str, str] = msgspec.field(default_factory=dict, name="settings")
    """Only those that somebody set."""
    tags: dict[str, str] = {}
    messages: dict[str, SqsMessage] = {}
    """By id, in the order in which they came."""

    def number(self, setting: str) -> int:
        return int(self.settings.get(setting, NUMBER_ATTRIBUTES[setting][0]))

    def forget(self, now: float) -> None:
        """Drops what has been kept for long enough; the oldest come first."""
        oldest = now - self.number("MessageRetentionPeriod")
        while self.messages:
            first = next(iter(self.messages.values()))
            if first.sent > oldest:
                return
            del self.messages[first.id]


class SqsState(msgspec.Struct, kw_only=True):
    queues: dict[str, SqsQueue] = {}


def check_queue_name(given: str) -> str:
    if given.endswith(".fifo"):
        raise AwsError(
            "AWS.SimpleQueueService.UnsupportedOperation", "There are no FIFO queues here."
        )
    if not QUEUE_NAME.fullmatch(given):
        raise AwsError(
            INVALID_VALUE,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return given


def parse_queue_attributes(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Settings of a queue as a request has them, checked."""
    checked: dict[str, str] = {}
    for name, value in (given or {}).items():
        if name in NUMBER_ATTRIBUTES:
            checked[name] = str(_parse_number_attribute(name, value))
        elif name in TEXT_ATTRIBUTES:
            checked[name] = str(value)
        else:
            raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    return checked


def _parse_number_attribute(name: str, value: Any) -> int:
    _, minimum, maximum = NUMBER_ATTRIBUTES[name]
    text = str(value)
    if not text.isdecimal() or not minimum <= int(text) <= maximum:
        raise AwsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
    return int(text)


MISSING_PARAMETER: Final = "MissingParameter"
QUEUE_NOT_FOUND: Final = "AWS.SimpleQueueService.NonExistentQueue"
QUEUE_PAGINATION: Final = ServicePagination(
    size_param="MaxResults",
    token_param="NextToken",
    max_size=1000,
    default_size=1000,
    invalid_size_code=INVALID_VALUE,
    invalid_token_code=INVALID_VALUE,
)


class QueueOwner(Protocol):
    state: SqsState


class SqsQueues:
    """`base` is what the address of a queue begins with."""

    def __init__(self, context: AccountContext, owner: QueueOwner, base: str | None = None) -> None:
        self._context = context
        self._owner = owner
        self._base = base or f"https://sqs.{context.region}.amazonaws.com"

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateQueue": self.create,
            "GetQueueUrl": self.url,
            "ListQueues": self.listed,
            "GetQueueAttributes": self.attributes,
            "SetQueueAttributes": self.change,
            "TagQueue": self.tag,
            "ListQueueTags": self.tags,
            "PurgeQueue": self.purge,
            "DeleteQueue": self.delete,
        }

    def create(self, params: Params) -> Response:
        """The same queue again is no error, unless it should be another."""
        name = check_queue_name(require_text(params, "QueueName", error_code=MISSING_PARAMETER))
        wanted, now = parse_queue_attributes(params.get("Attributes")), self._context.now()
        known = self._owner.state.queues.get(name)
        if known is None:
            self._owner.state.queues[name] = SqsQueue(
                name=name,
                created=now,
                modified=now,
                settings=wanted,
                tags=dict(params.get("tags") or {}),
            )
        elif any(_effective_attribute(known, each) != value for each, value in wanted.items()):
            raise AwsError(
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute",
            )
        return {"QueueUrl": self._url(name)}

    def url(self, params: Params) -> Response:
        return {
            "QueueUrl": self._url(
                self.named(require_text(params, "QueueName", error_code=MISSING_PARAMETER)).name
            )
        }

    def listed(self, params: Params) -> Response:
        prefix = params.get("QueueNamePrefix") or ""
        names = sorted(name for name in self._owner.state.queues if name.startswith(prefix))
        rows, token = QUEUE_PAGINATION.paginate(names, params)
        answer: Response = {"QueueUrls": [self._url(name) for name in rows]} if rows else {}
        return answer if token is None else answer | {"NextToken": token}

    def attributes(self, params: Params) -> Response:
        """Only those asked for; none where nobody asks."""
        queue = self.at(params)
        asked = params.get("AttributeNames") or ()
        known = self._known(queue)
        for name in asked:
            if name not in known and name not in TEXT_ATTRIBUTES and name != "All":
                raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        chosen = {name: known[name] for name in known if "All" in asked or name in asked}
        return {"Attributes": chosen} if chosen else {}

    def _known(self, queue: SqsQueue) -> dict[str, str]:
        now = self._context.now()
        queue.forget(now)
        waiting = queue.messages.values()
        visible = sum(message.visible <= now for message in waiting)
        delayed = sum(message.visible > now and not message.received for message in waiting)
        return {
            **{name: str(queue.number(name)) for name in NUMBER_ATTRIBUTES},
            **queue.settings,
            "QueueArn": make_arn("sqs", self._context.region, self._context.account, queue.name),
            "CreatedTimestamp": str(int(queue.created)),
            "LastModifiedTimestamp": str(int(queue.modified)),
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
            "ApproximateNumberOfMessagesNotVisible": str(len(waiting) - visible - delayed),
        }

    def change(self, params: Params) -> Response:
        queue = self.at(params)
        queue.settings |= parse_queue_attributes(params.get("Attributes"))
        queue.modified = self._context.now()
        return {}

    def tag(self, params: Params) -> Response:
        self.at(params).tags |= params.get("Tags") or {}
        return {}

    def tags(self, params: Params) -> Response:
        tags = self.at(params).tags
        return {"Tags": dict(tags)} if tags else {}

    def purge(self, params: Params) -> Response:
        self.at(params).messages.clear()
        return {}

    def delete(self, params: Params) -> Response:
        del self._owner.state.queues[self.at(params).name]
        return {}

    def at(self, params: Params) -> SqsQueue:
        """The queue of an address. Only the end of it counts: whoever asks has found us already."""
        return self.named(
            require_text(params, "QueueUrl", error_code=MISSING_PARAMETER).rpartition("/")[2]
        )

    def named(self, name: str) -> SqsQueue:
        known = self._owner.state.queues.get(name)
        if known is None:
            raise AwsError(QUEUE_NOT_FOUND, "The specified queue does not exist.")
        return known

    def _url(self, name: str) -> str:
        return f"{self._base}/{self._context.account}/{name}"


def _effective_attribute(queue: SqsQueue, setting: str) -> str | None:
    return (
        str(queue.number(setting)) if setting in NUMBER_ATTRIBUTES else queue.settings.get(setting)
    )
