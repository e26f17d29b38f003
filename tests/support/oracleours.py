"""Our side of the comparison: a world's manifests read, prepared and planned as any user's are."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from tests.support.oracleworlds import World

from wainwright.manifests.world import read
from wainwright.offline import Conditions, Planned, Prepared, planned, prepare

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a world end up, whoever decides it."""

    placed: frozenset[str]
    cost: float
    """USD per hour of what is launched."""
    launched: tuple["Launched", ...] = ()
    errors: dict[str, str] = {}
    """Why a pod has no place, by its name."""
    loops: int = 1
    final: World | None = None
    """The cluster at the end, where somebody has kept it: nodes as launched, pods bound."""


class Launched(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was bought, and the pods that it was bought for or that joined it."""

    pool: str
    instance_type: str
    zone: str | None
    capacity_type: str
    price: float
    pods: tuple[str, ...]
    reservation_id: str | None = None
    instance_types: tuple[str, ...] = ()
    """All that were left to choose from; the same for what follows."""
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    """Those of the pods that came when it was under way already."""


def prepared(world: World) -> Prepared:
    """The world compiled; raises InputRefused where it is no valid input."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "world.json"
        items = {"apiVersion": "v1", "kind": "List", "items": world.documents()}
        file.write_bytes(msgspec.json.encode(items))
        found = read([str(file)])
    return prepare(found, Conditions(now=NOW, options=world.options))


def ours(ready: Prepared) -> Outcome:
    """What our planner makes of it."""
    return _outcome(planned(ready))


def _outcome(made: Planned) -> Outcome:
    plan = made.plan
    launched = tuple(
        Launched(
            pool=claim.pool,
            instance_type=claim.launch.instance_type,
            zone=claim.launch.zone,
            capacity_type=claim.launch.capacity_type,
            price=claim.launch.price,
            pods=claim.pods,
            reservation_id=claim.launch.reservation_id,
            instance_types=claim.choices.instance_types,
            zones=claim.choices.zones,
            capacity_types=claim.choices.capacity_types,
        )
        for claim in plan.claims
    )
    placed = {pod for claim in plan.claims for pod in claim.pods}
    placed |= {pod for home in plan.placements for pod in home.pods}
    errors = {pod: str(group.reason) for group in plan.unschedulable for pod in group.pods}
    return Outcome(placed=frozenset(placed), cost=plan.price, launched=launched, errors=errors)
