"""Queues themselves: made, found, described, changed, emptied and deleted."""

from collections.abc import Mapping
from typing import Final, Protocol

from wainwright.emulator.services.arns import arn
from wainwright.emulator.services.pages import Paging
from wainwright.emulator.services.requests import text
from wainwright.emulator.services.sqs_state import (
    INVALID,
    NUMBERS,
    TEXTS,
    Queue,
    SqsState,
    queue_name,
    settings,
)
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

MISSING: Final = "MissingParameter"
NO_QUEUE: Final = "AWS.SimpleQueueService.NonExistentQueue"
PAGING: Final = Paging(
    size="MaxResults",
    token="NextToken",
    most=1000,
    otherwise=1000,
    bad_size=INVALID,
    bad_token=INVALID,
)


class Owner(Protocol):
    state: SqsState


class Queues:
    """`base` is what the address of a queue begins with."""

    def __init__(self, world: World, owner: Owner, base: str | None = None) -> None:
        self._world = world
        self._owner = owner
        self._base = base or f"https://sqs.{world.region}.amazonaws.com"

    def operations(self) -> Mapping[str, Handler]:
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

    def create(self, params: Params) -> Answer:
        """The same queue again is no error, unless it should be another."""
        name = queue_name(text(params, "QueueName", refused=MISSING))
        wanted, now = settings(params.get("Attributes")), self._world.now()
        known = self._owner.state.queues.get(name)
        if known is None:
            self._owner.state.queues[name] = Queue(
                name=name,
                created=now,
                modified=now,
                settings=wanted,
                tags=dict(params.get("tags") or {}),
            )
        elif any(_in_force(known, each) != value for each, value in wanted.items()):
            raise AwsError(
                "QueueAlreadyExists",
                "A queue already exists with the same name and a different value for an attribute",
            )
        return {"QueueUrl": self._url(name)}

    def url(self, params: Params) -> Answer:
        return {"QueueUrl": self._url(self.named(text(params, "QueueName", refused=MISSING)).name)}

    def listed(self, params: Params) -> Answer:
        prefix = params.get("QueueNamePrefix") or ""
        names = sorted(name for name in self._owner.state.queues if name.startswith(prefix))
        rows, token = PAGING.cut(names, params)
        answer: Answer = {"QueueUrls": [self._url(name) for name in rows]} if rows else {}
        return answer if token is None else answer | {"NextToken": token}

    def attributes(self, params: Params) -> Answer:
        """Only those asked for; none where nobody asks."""
        queue = self.at(params)
        asked = params.get("AttributeNames") or ()
        known = self._known(queue)
        for name in asked:
            if name not in known and name not in TEXTS and name != "All":
                raise AwsError("InvalidAttributeName", f"Unknown Attribute {name}.")
        chosen = {name: known[name] for name in known if "All" in asked or name in asked}
        return {"Attributes": chosen} if chosen else {}

    def _known(self, queue: Queue) -> dict[str, str]:
        now = self._world.now()
        queue.forget(now)
        waiting = queue.messages.values()
        visible = sum(message.visible <= now for message in waiting)
        delayed = sum(message.visible > now and not message.received for message in waiting)
        return {
            **{name: str(queue.number(name)) for name in NUMBERS},
            **queue.settings,
            "QueueArn": arn("sqs", self._world.region, self._world.account, queue.name),
            "CreatedTimestamp": str(int(queue.created)),
            "LastModifiedTimestamp": str(int(queue.modified)),
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
            "ApproximateNumberOfMessagesNotVisible": str(len(waiting) - visible - delayed),
        }

    def change(self, params: Params) -> Answer:
        queue = self.at(params)
        queue.settings |= settings(params.get("Attributes"))
        queue.modified = self._world.now()
        return {}

    def tag(self, params: Params) -> Answer:
        self.at(params).tags |= params.get("Tags") or {}
        return {}

    def tags(self, params: Params) -> Answer:
        tags = self.at(params).tags
        return {"Tags": dict(tags)} if tags else {}

    def purge(self, params: Params) -> Answer:
        self.at(params).messages.clear()
        return {}

    def delete(self, params: Params) -> Answer:
        del self._owner.state.queues[self.at(params).name]
        return {}

    def at(self, params: Params) -> Queue:
        """The queue of an address. Only the end of it counts: whoever asks has found us already."""
        return self.named(text(params, "QueueUrl", refused=MISSING).rpartition("/")[2])

    def named(self, name: str) -> Queue:
        known = self._owner.state.queues.get(name)
        if known is None:
            raise AwsError(NO_QUEUE, "The specified queue does not exist.")
        return known

    def _url(self, name: str) -> str:
        return f"{self._base}/{self._world.account}/{name}"


def _in_force(queue: Queue, setting: str) -> str | None:
    return str(queue.number(setting)) if setting in NUMBERS else queue.settings.get(setting)
