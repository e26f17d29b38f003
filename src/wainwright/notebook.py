"""`import wainwright`: read, plan and explain, for notebooks and scripts."""

from datetime import UTC, datetime
from pathlib import Path

from wainwright.manifests import world as worlds
from wainwright.manifests.world import World
from wainwright.model.options import DEFAULT_OPTIONS, Options
from wainwright.model.plan import Plan
from wainwright.offline import Conditions, Planned, planned, prepare
from wainwright.report.pod import full_story


def read(*paths: str | Path, scheduler_config: str | Path | None = None) -> World:
    """Every object of these files and folders; raises InputRefused with all that is wrong.

    `scheduler_config` is the file whose default constraints the cluster's scheduler applies.
    """
    config = None if scheduler_config is None else str(scheduler_config)
    return worlds.read([str(path) for path in paths], scheduler_config=config)


def plan(world: World, *, now: datetime | None = None, options: Options = DEFAULT_OPTIONS) -> Plan:
    """Which nodes for which pods. Only reservations with a start or end depend on the time."""
    return _planned(world, now, options).plan


def explain(
    world: World,
    pod: str,
    *,
    now: datetime | None = None,
    options: Options = DEFAULT_OPTIONS,
) -> str:
    """Where a pod goes and what decided, or why it goes nowhere."""
    made = _planned(world, now, options, advise=False)
    at = made.prepared.conditions.now.isoformat()
    return "\n".join(full_story(made, pod, now=at).lines)


def _planned(
    world: World, now: datetime | None, options: Options, *, advise: bool = True
) -> Planned:
    at = datetime.now(UTC) if now is None else now
    return planned(prepare(world, Conditions(now=at, options=options)), advise=advise)
