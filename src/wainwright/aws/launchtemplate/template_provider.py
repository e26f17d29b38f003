"""Launch templates are there when a launch needs them, and are deleted when none does any more.

A template is created at its first use, without asking first: that another has made it already is as
good, since the name says all that is in it. It is then known for a while; whoever finds it gone
has it made again. It stays for an hour after its last use, as the next launch of the pool is
likely to want the same one, and goes with its class at the latest. Those of an earlier process are
adopted at the start, so that none is forgotten.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from wainwright.aws.api.seam import Filter, tag_filters
from wainwright.aws.api.services import Ec2
from wainwright.aws.cluster_config import CLUSTER_NAME_TAG
from wainwright.aws.launchtemplate.template_data import TEMPLATE_NAME_PREFIX, LaunchTemplate
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.model.labels import EC2NODECLASS

Result = TypeVar("Result")

TEMPLATE_TTL: Final = 600.0
"""Seconds that a template counts as there without being asked for."""
UNUSED_TEMPLATE_AGE: Final = 3600.0
"""Seconds after which a template that nobody uses goes."""
MANAGED_BY_TAG: Final = "wainwright.dev/managed-by"
"""The tag by which ours are told from those of another controller of the same cluster."""

TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
TEMPLATE_NOT_FOUND_CODES: Final = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


class _TemplateEntry(msgspec.Struct):
    """What is known of one template."""

    until: float = 0.0
    """Till when it counts as there."""
    used: float = 0.0
    users: int = 0
    """Launches under way; while there are any it stays."""


class LaunchTemplateProvider:
    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._entries: dict[str, _TemplateEntry] = {}
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._created = 0

    async def ensure(self, template: LaunchTemplate) -> str:
        """Its name, once it is there. Those who ask at the same time wait for one creation."""
        while template.name in self._deleting:
            await asyncio.wait([self._deleting[template.name]])
        entry = self._entry(template.name)
        entry.used = self._clock.now()
        if entry.until <= entry.used:
            # Whoever goes away while waiting must not take the template from the others.
            await asyncio.shield(self._creation(template))
        return template.name

    async def launch(
        self, wanted: Sequence[LaunchTemplate], action: Callable[[], Awaitable[Result]]
    ) -> Result:
        """The action with its templates at hand; again, once, if EC2 finds one of them missing."""
        self._count(wanted, 1)
        try:
            await self._all(wanted)
            try:
                return await action()
            except AwsError as error:
                if error.code not in TEMPLATE_NOT_FOUND_CODES:
                    raise
            self.forget(each.name for each in wanted)
            await self._all(wanted)
            return await action()
        finally:
            self._count(wanted, -1)

    def forget(self, names: Iterable[str]) -> None:
        """They may be gone: whoever needs them next has them made."""
        for name in names:
            self._entry(name).until = 0.0

    async def adopt(self, cluster: str) -> int:
        """Takes over what an earlier process has left; how many there were."""
        wanted = tag_filters({CLUSTER_NAME_TAG: cluster, MANAGED_BY_TAG: "*"})
        names = await self._names(wanted)
        for name in names:
            entry = self._entry(name)
            entry.used = max(entry.used, self._clock.now())
            entry.until = max(entry.until, self._clock.now() + TEMPLATE_TTL)
        return len(names)

    async def sweep(self) -> tuple[str, ...]:
        """Deletes what nobody has used for long; their names. To be called now and then."""
        latest = self._clock.now() - UNUSED_TEMPLATE_AGE
        idle = [
            name
            for name, entry in sorted(self._entries.items())
            if not entry.users and entry.used <= latest and name not in self._creating
        ]
        await self._delete_all(idle)
        return tuple(idle)

    async def delete_class(self, cluster: str, node_class: str) -> tuple[str, ...]:
        """Deletes all templates of a class that is going; their names."""
        wanted = tag_filters({CLUSTER_NAME_TAG: cluster, EC2NODECLASS: node_class})
        names = tuple(
            name for name in await self._names(wanted) if name.startswith(TEMPLATE_NAME_PREFIX)
        )
        await self._delete_all(names)
        return names

    def _entry(self, name: str) -> _TemplateEntry:
        return self._entries.setdefault(name, _TemplateEntry(used=self._clock.now()))

    def _count(self, templates: Sequence[LaunchTemplate], change: int) -> None:
        for each in templates:
            entry = self._entry(each.name)
            entry.users += change
            entry.used = self._clock.now()

    async def _all(self, templates: Sequence[LaunchTemplate]) -> None:
        await asyncio.gather(*map(self.ensure, templates))

    def _creation(self, template: LaunchTemplate) -> "asyncio.Task[None]":
        found = self._creating.get(template.name)
        if found is None:
            found = self._creating[template.name] = _start_detached(self._create(template))
        return found

    async def _create(self, template: LaunchTemplate) -> None:
        try:
            token = self._token(template.name)
            tags = {**template.tags, MANAGED_BY_TAG: "wainwright"}
            await self._ec2.create_launch_template(template.name, template.data, tags, token)
        except AwsError as error:
            if error.code != TEMPLATE_EXISTS:
                raise
        finally:
            del self._creating[template.name]
        self._entry(template.name).until = self._clock.now() + TEMPLATE_TTL

    def _token(self, name: str) -> str:
        """Another one each time: to a token that it knows EC2 answers with what it made then."""
        self._created += 1
        return f"{name.removeprefix(TEMPLATE_NAME_PREFIX)}-{self._clock.now():.3f}-{self._created}"

    async def _names(self, wanted: Sequence[Filter]) -> list[str]:
        rows = await self._ec2.describe_launch_templates(filters=wanted)
        return sorted(row["LaunchTemplateName"] for row in rows)

    async def _delete_all(self, names: Sequence[str]) -> None:
        going = [self._deletion(name) for name in names]
        for outcome in await asyncio.gather(*going, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _deletion(self, name: str) -> "asyncio.Task[None]":
        found = self._deleting.get(name)
        if found is None:
            found = self._deleting[name] = _start_detached(self._delete(name))
        return found

    async def _delete(self, name: str) -> None:
        """A use that begins meanwhile waits for the end of this, and has it made anew."""
        self.forget([name])
        try:
            await self._ec2.delete_launch_template(name=name)
            if not self._entry(name).users:
                self._entries.pop(name, None)
        finally:
            del self._deleting[name]


def _start_detached(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Work that goes on even if all who wait for it go away; nobody may be left to be told."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
