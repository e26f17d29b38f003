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
"""Numeric attributes: default, minimum and maximum."""
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
"""Attributes that are stored and returned without effect."""


class MessageAttribute(msgspec.Struct, kw_only=True, frozen=True):
    """An attribute that the sender set on a message."""

    type: str
    text: str | None = None
    binary: bytes | None = None


class SqsMessage(msgspec.Struct, kw_only=True):
    id: str
    body: str
    sent: float
    visible_from: float = msgspec.field(name="visible")
    """Since when it can be received."""
    attributes: dict[str, MessageAttribute] = {}
    receive_count: int = msgspec.field(default=0, name="received")
    first_received: float | None = None


class SqsQueue(msgspec.Struct, kw_only=True):
    name: str
    created: float
    modified: float
    attributes: dict[str, str] = msgspec.field(default_factory=dict, name="settings")
    """Only attributes that were set."""
    tags: dict[str, str] = {}
    messages: dict[str, SqsMessage] = {}
    """By id, in the order of arrival."""

    def number_attribute(self, name: str) -> int:
        return int(self.attributes.get(name, NUMBER_ATTRIBUTES[name][0]))

    def drop_expired(self, now: float) -> None:
        """Drops messages beyond the retention period; they are in order of age, so the first young
        one ends the scan."""
        cutoff = now - self.number_attribute("MessageRetentionPeriod")
        while self.messages:
            first = next(iter(self.messages.values()))
            if first.sent > cutoff:
                return
            del self.messages[first.id]


class SqsState(msgspec.Struct, kw_only=True):
    queues: dict[str, SqsQueue] = {}


def check_queue_name(name: str) -> str:
    if name.endswith(".fifo"):
        raise AwsError(
            "AWS.SimpleQueueService.UnsupportedOperation", "There are no FIFO queues here."
        )
    if not QUEUE_NAME.fullmatch(name):
        raise AwsError(
            INVALID_VALUE,
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return name


def parse_queue_attributes(attributes: Mapping[str, Any] | None) -> dict[str, str]:
    """Validated queue attributes of a request."""
    checked: dict[str, str] = {}
    for name, value in (attributes or {}).items():
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
    if not text.isdecimal() or len(text) > 18 or not minimum <= int(text) <= maximum:
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
    """`base` is the beginning of queue URLs."""

    def __init__(self, context: AccountContext, owner: QueueOwner, base: str | None = None) -> None:
        self._context = context
        self._owner = owner
        self._base = base or f"https://sqs.{context.region}.amazonaws.com"

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateQueue": self.create,
            "GetQueueUrl": self.get_url,
            "ListQueues": self.list_queues,
            "GetQueueAttributes": self.get_attributes,
            "SetQueueAttributes": self.set_attributes,
            "TagQueue": self.tag,
            "ListQueueTags": self.list_tags,
            "PurgeQueue": self.purge,
            "DeleteQueue": self.delete,
        }

    def create(self, params: Params) -> Response:
        """Creating an existing queue is an error only if attributes differ."""
        name = check_queue_name(require_text(params, "QueueName", error_code=MISSING_PARAMETER))
        requested, now = parse_queue_attributes(params.get("Attributes")), self._context.now()
        queue = self._owner.state.queues.get(name)
        if queue is None:
            self._owner.state.queues[name] = SqsQueue(
                name=name,
                created=now,
                modified=now,
                attributes=requested,
                tags=dict(params.get("tags") or {}),
            )
        elif any(_effective_attribute(queue, each) != value for each, value in requested.items()):
            raise AwsError(
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute",
            )
        return {"QueueUrl": self._url(name)}

    def get_url(self, params: Params) -> Response:
        return {
            "QueueUrl": self._url(
                self.get(require_text(params, "QueueName", error_code=MISSING_PARAMETER)).name
            )
        }

    def list_queues(self, params: Params) -> Response:
        prefix = params.get("QueueNamePrefix") or ""
        names = sorted(name for name in self._owner.state.queues if name.startswith(prefix))
        rows, token = QUEUE_PAGINATION.paginate(names, params)
        response: Response = {"QueueUrls": [self._url(name) for name in rows]} if rows else {}
        return response if token is None else response | {"NextToken": token}

    def get_attributes(self, params: Params) -> Response:
        """Only the requested attributes; none by default."""
        queue = self.find_by_url(params)
        names = params.get("AttributeNames") or ()
        attributes = self._effective_attributes(queue)
        for name in names:
            if name not in attributes and name not in TEXT_ATTRIBUTES and name != "All":
                raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        selected = {
            name: attributes[name] for name in attributes if "All" in names or name in names
        }
        return {"Attributes": selected} if selected else {}

    def _effective_attributes(self, queue: SqsQueue) -> dict[str, str]:
        now = self._context.now()
        queue.drop_expired(now)
        messages = queue.messages.values()
        visible = sum(message.visible_from <= now for message in messages)
        delayed = sum(
            message.visible_from > now and not message.receive_count for message in messages
        )
        return {
            **{name: str(queue.number_attribute(name)) for name in NUMBER_ATTRIBUTES},
            **queue.attributes,
            "QueueArn": make_arn("sqs", self._context.region, self._context.account, queue.name),
            "CreatedTimestamp": str(int(queue.created)),
            "LastModifiedTimestamp": str(int(queue.modified)),
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
            "ApproximateNumberOfMessagesNotVisible": str(len(messages) - visible - delayed),
        }

    def set_attributes(self, params: Params) -> Response:
        queue = self.find_by_url(params)
        queue.attributes |= parse_queue_attributes(params.get("Attributes"))
        queue.modified = self._context.now()
        return {}

    def tag(self, params: Params) -> Response:
        self.find_by_url(params).tags |= params.get("Tags") or {}
        return {}

    def list_tags(self, params: Params) -> Response:
        tags = self.find_by_url(params).tags
        return {"Tags": dict(tags)} if tags else {}

    def purge(self, params: Params) -> Response:
        self.find_by_url(params).messages.clear()
        return {}

    def delete(self, params: Params) -> Response:
        del self._owner.state.queues[self.find_by_url(params).name]
        return {}

    def find_by_url(self, params: Params) -> SqsQueue:
        """The queue of a URL, by its last segment: the host may differ between clients."""
        return self.get(
            require_text(params, "QueueUrl", error_code=MISSING_PARAMETER).rpartition("/")[2]
        )

    def get(self, name: str) -> SqsQueue:
        queue = self._owner.state.queues.get(name)
        if queue is None:
            raise AwsError(QUEUE_NOT_FOUND, "The specified queue does not exist.")
        return queue

    def _url(self, name: str) -> str:
        return f"{self._base}/{self._context.account}/{name}"


def _effective_attribute(queue: SqsQueue, name: str) -> str | None:
    return (
        str(queue.number_attribute(name))
        if name in NUMBER_ATTRIBUTES
        else queue.attributes.get(name)
    )
