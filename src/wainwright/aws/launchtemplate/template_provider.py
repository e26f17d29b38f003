"""Launch templates: created when a launch needs them, deleted when they are no longer used.

A template is created at its first use, without checking first: if it exists already that is as
good, since the name is a hash of its content. It is then assumed to exist for a while; a launch
that finds it missing creates it again. It is kept for an hour after its last use, as the next
launch of the NodePool is likely to use the same one, and is deleted with its class at the latest.
Templates of an earlier process are adopted at the start, so that they are deleted one day too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from wainwright.aws.api.services import Ec2, Filter, tag_filters
from wainwright.aws.cluster_config import CLUSTER_NAME_TAG
from wainwright.aws.launchtemplate.template_data import TEMPLATE_NAME_PREFIX, LaunchTemplate
from wainwright.clock import Clock
from wainwright.errors import AwsError
from wainwright.model.labels import EC2NODECLASS

Result = TypeVar("Result")

TEMPLATE_TTL: Final = 600.0
"""Seconds for which a template is assumed to exist; saves a CreateLaunchTemplate per launch."""
UNUSED_TEMPLATE_AGE: Final = 3600.0
"""Seconds after its last use after which a template is deleted."""
MANAGED_BY_TAG: Final = "wainwright.dev/managed-by"
"""Distinguishes our templates from those of another controller of the same cluster."""

TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
TEMPLATE_NOT_FOUND_CODES: Final = frozenset(
    {
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidLaunchTemplateId.NotFoundException",
    }
)


class _TemplateEntry(msgspec.Struct):
    """The state of one template."""

    valid_until: float = 0.0
    """Until when it is assumed to exist."""
    last_used: float = 0.0
    users: int = 0
    """Launches in flight; it is not deleted meanwhile."""


class LaunchTemplateProvider:
    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._entries: dict[str, _TemplateEntry] = {}
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._created = 0

    async def ensure(self, template: LaunchTemplate) -> str:
        """Its name, once it exists. Concurrent callers share one creation."""
        while template.name in self._deleting:
            await asyncio.wait([self._deleting[template.name]])
        entry = self._entry(template.name)
        entry.last_used = self._clock.now()
        if entry.valid_until <= entry.last_used:
            # Shielded: a caller that is cancelled must not cancel the creation that others share.
            await asyncio.shield(self._creation(template))
        return template.name

    async def call_with_templates(
        self, templates: Sequence[LaunchTemplate], action: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Runs the action once its templates exist; again, once, if EC2 reports one missing."""
        self._change_users(templates, 1)
        try:
            await self._ensure_all(templates)
            try:
                return await action()
            except AwsError as error:
                if error.code not in TEMPLATE_NOT_FOUND_CODES:
                    raise
            self.forget(each.name for each in templates)
            await self._ensure_all(templates)
            return await action()
        finally:
            self._change_users(templates, -1)

    def forget(self, names: Iterable[str]) -> None:
        """They may be gone: the next use creates them again."""
        for name in names:
            self._entry(name).valid_until = 0.0

    async def adopt(self, cluster: str) -> int:
        """Takes over the templates of an earlier process; returns their number."""
        names = await self._names(tag_filters({CLUSTER_NAME_TAG: cluster, MANAGED_BY_TAG: "*"}))
        for name in names:
            entry = self._entry(name)
            entry.last_used = max(entry.last_used, self._clock.now())
            entry.valid_until = max(entry.valid_until, self._clock.now() + TEMPLATE_TTL)
        return len(names)

    async def delete_unused(self) -> tuple[str, ...]:
        """Deletes templates unused for long; returns their names. To be called periodically."""
        latest = self._clock.now() - UNUSED_TEMPLATE_AGE
        idle = [
            name
            for name, entry in sorted(self._entries.items())
            if not entry.users and entry.last_used <= latest and name not in self._creating
        ]
        await self._delete_all(idle)
        return tuple(idle)

    async def delete_class(self, cluster: str, node_class: str) -> tuple[str, ...]:
        """Deletes all templates of a class that is being deleted; returns their names."""
        filters = tag_filters({CLUSTER_NAME_TAG: cluster, EC2NODECLASS: node_class})
        names = tuple(
            name for name in await self._names(filters) if name.startswith(TEMPLATE_NAME_PREFIX)
        )
        await self._delete_all(names)
        return names

    def _entry(self, name: str) -> _TemplateEntry:
        return self._entries.setdefault(name, _TemplateEntry(last_used=self._clock.now()))

    def _change_users(self, templates: Sequence[LaunchTemplate], change: int) -> None:
        for each in templates:
            entry = self._entry(each.name)
            entry.users += change
            entry.last_used = self._clock.now()

    async def _ensure_all(self, templates: Sequence[LaunchTemplate]) -> None:
        await asyncio.gather(*map(self.ensure, templates))

    def _creation(self, template: LaunchTemplate) -> "asyncio.Task[None]":
        task = self._creating.get(template.name)
        if task is None:
            task = self._creating[template.name] = _start_detached(self._create(template))
        return task

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
        self._entry(template.name).valid_until = self._clock.now() + TEMPLATE_TTL

    def _token(self, name: str) -> str:
        """Unique for each call: for a known token EC2 returns the template created earlier."""
        self._created += 1
        return f"{name.removeprefix(TEMPLATE_NAME_PREFIX)}-{self._clock.now():.3f}-{self._created}"

    async def _names(self, filters: Sequence[Filter]) -> list[str]:
        rows = await self._ec2.describe_launch_templates(filters)
        return sorted(row["LaunchTemplateName"] for row in rows)

    async def _delete_all(self, names: Sequence[str]) -> None:
        deletions = [self._deletion(name) for name in names]
        for outcome in await asyncio.gather(*deletions, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _deletion(self, name: str) -> "asyncio.Task[None]":
        task = self._deleting.get(name)
        if task is None:
            task = self._deleting[name] = _start_detached(self._delete(name))
        return task

    async def _delete(self, name: str) -> None:
        """A use that begins meanwhile waits for the deletion, and creates the template again."""
        self.forget([name])
        try:
            await self._ec2.delete_launch_template(name)
            if not self._entry(name).users:
                self._entries.pop(name, None)
        finally:
            del self._deleting[name]


def _start_detached(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """A task that continues if all its waiters are cancelled; its error may then go unseen."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
