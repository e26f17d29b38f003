"""From flags and files to a plan: the road that plan, diff, explain pod and reservations share."""

from collections.abc import Sequence

import msgspec

from wainwright.catalogue.remarks import Refused, Remark
from wainwright.cli.inputs import progress
from wainwright.cli.places import problems
from wainwright.cli.planning.timings import Timings
from wainwright.cli.problems import show
from wainwright.cli.supplies import Asked, gates, moment, rules
from wainwright.errors import Usage
from wainwright.manifests.load import Progress
from wainwright.manifests.problem import Problem, Report
from wainwright.manifests.refused import InputRefused
from wainwright.manifests.world import World, read
from wainwright.model.options import MinValuesPolicy, Options, Packing, PreferencePolicy
from wainwright.offline import Conditions, Planned, Prepared, planned, prepare


class Wish(Asked, frozen=True, kw_only=True):
    """The flags and files of a command that plans."""

    min_values_policy: str = "Strict"
    preference_policy: str = "Respect"
    packing: str = "first-fit"
    strict_weights: bool = False
    scheduler_config: str | None = None

    @property
    def by_flag(self) -> list[str]:
        config = self.scheduler_config
        return [*super().by_flag, *([] if config is None else [config])]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and the time it is made for."""

    planned: Planned
    now: str


def planned_by(wish: Wish, clock: Timings, *, quietly: bool = False, advise: bool = True) -> Run:
    """Read, compile and plan; notes go to standard error, refusals name file and line."""
    if not wish.arguments:
        raise Usage("no files were named", hint="name a file or a folder, or - for standard input")
    conditions = _conditions(wish)
    with clock.spent("read"), progress() as report:
        world = _read(wish, report)
    with clock.spent("compile"):
        prepared = _prepared(world, conditions, wish)
    with clock.spent("plan"):
        made = planned(prepared, advise=advise)
    if not quietly:
        show([*world.notes, *_placed(prepared.remarks, wish)], word="note", colour="yellow")
    return Run(planned=made, now=conditions.now.isoformat())


def _read(wish: Wish, report: Progress) -> World:
    return read(
        wish.arguments,
        cloud=wish.cloud,
        catalog=wish.catalog,
        scheduler_config=wish.scheduler_config,
        progress=report,
    )


def _conditions(wish: Wish) -> Conditions:
    switched = gates(wish.gates)
    return Conditions(
        now=moment(wish.now),
        region=wish.region,
        gates=switched,
        rules=rules(wish),
        options=Options(
            min_values_policy=MinValuesPolicy(wish.min_values_policy),
            preference_policy=PreferencePolicy(wish.preference_policy),
            packing=Packing(wish.packing),
            strict_weights=wish.strict_weights,
            capacity_reservations=switched.capacity_reservations,
        ),
    )


def _prepared(world: World, conditions: Conditions, wish: Wish) -> Prepared:
    try:
        return prepare(world, conditions)
    except Refused as refused:
        errors = _placed(refused.remarks, wish)
        raise InputRefused(Report(errors=errors, warnings=world.notes)) from refused


def _placed(remarks: Sequence[Remark], wish: Wish) -> list[Problem]:
    return problems(remarks, [*wish.by_flag, *wish.arguments])
