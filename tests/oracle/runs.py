"""One cluster through both schedulers: our planner, as any user's input, and the oracle looped like
our rounds: its claims are launched and join as nodes, until no pod gains a place.
"""

import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.oracle.client import Oracle, OracleAnswer, OracleClaim
from tests.oracle.random_catalog import Manifest, allocatable
from tests.oracle.random_cluster import ClusterManifests

from wainwright.core.launch.launch_choice import LaunchChoice, choose_offering, options_of_claim
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import HOSTNAME, INSTANCE_TYPE, REGISTERED, RESERVATION_ID
from wainwright.model.plan import PlannedLaunch, PlannedNodeClaim, RemainingOptions
from wainwright.model.requirements import RequirementEntry, Requirements
from wainwright.offline import OfflinePlan, PlanSettings, PreparedInput, make_plan, prepare_input

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class SchedulingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a world end up, whoever decides it."""

    placed: frozenset[str]
    cost: float
    """USD per hour of what is launched."""
    launched: tuple["LaunchedNode", ...] = ()
    errors: dict[str, str] = {}
    """Why a pod has no place, by its name."""
    loops: int = 1
    final: ClusterManifests | None = None
    """The cluster at the end, where somebody has kept it: nodes as launched, pods bound."""


class LaunchedNode(msgspec.Struct, frozen=True, kw_only=True):
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


def prepare_cluster(world: ClusterManifests) -> PreparedInput:
    """The world compiled; raises InvalidInput where it is no valid input."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "world.json"
        items = {"apiVersion": "v1", "kind": "List", "items": world.documents()}
        file.write_bytes(msgspec.json.encode(items))
        found = read_manifests([str(file)])
    return prepare_input(found, PlanSettings(now=NOW, options=world.options))


def run_our_planner(ready: PreparedInput) -> SchedulingOutcome:
    """What our planner makes of it."""
    return _outcome(make_plan(ready))


def _outcome(made: OfflinePlan) -> SchedulingOutcome:
    plan = made.plan
    launched = tuple(
        LaunchedNode(
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
    return SchedulingOutcome(
        placed=frozenset(placed), cost=plan.price, launched=launched, errors=errors
    )


def node_for_claim(claim: Manifest) -> Manifest:
    """The node of a claim, when it has joined and is not ready yet."""
    name, spec, status = claim["metadata"]["name"], claim["spec"], claim["status"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": claim["metadata"]["labels"] | {HOSTNAME: name, REGISTERED: "true"},
        },
        "spec": {
            "providerID": status["providerID"],
            "taints": [*spec.get("taints", ()), *spec.get("startupTaints", ())],
        },
        "status": {key: status[key] for key in ("capacity", "allocatable")},
    }


def to_planned_claim(claim: OracleClaim) -> PlannedNodeClaim:
    """The claim as ours would be written, for the launch choice to look at."""
    assert claim.nodeClaim is not None
    written = claim.nodeClaim["spec"]["requirements"]
    asked = Requirements.from_entries([_requirement_entry(each) for each in written])
    ids = tuple(sorted({each.reservationID for each in claim.offerings if each.reservationID}))
    return PlannedNodeClaim(
        name="",
        pool=claim.nodePool,
        round=1,
        requirements=asked,
        choices=RemainingOptions(
            instance_types=claim.instanceTypes,
            zones=(),
            capacity_types=(),
            reservation_ids=ids if _is_reserved_claim(written) else (),
        ),
        launch=PlannedLaunch(instance_type="", zone=None, capacity_type="", price=0.0),
        fees=0.0,
        requests={},
        pods=claim.pods,
    )


def _requirement_entry(written: Manifest) -> RequirementEntry:
    values, least = tuple(written.get("values") or ()), written.get("minValues")
    return written["key"], written["operator"], values, least


def _is_reserved_claim(written: list[Manifest]) -> bool:
    """Whether the claim holds reservations: only then does it name them."""
    return any(each["key"] == RESERVATION_ID and each["operator"] == "In" for each in written)


def node_labels(claim: Manifest, kind: Manifest, buy: LaunchChoice) -> dict[str, str]:
    """What the node is labelled with: its claim's, its type's and its offering's labels."""
    of_type = {
        each["key"]: each["values"][0]
        for each in kind["requirements"]
        if each["operator"] == "In" and len(each["values"]) == 1
    }
    asked = buy.offering.requirements
    bought = {key: value for key in asked if (value := asked.single_value(key)) is not None}
    found: dict[str, str] = claim["metadata"]["labels"] | of_type | bought
    found[INSTANCE_TYPE] = kind["name"]
    if buy.offering.reservation_id is not None:
        found[RESERVATION_ID] = buy.offering.reservation_id
    return found


def take_reserved_instance(kind: Manifest, reservation: str | None) -> Manifest:
    if reservation is None:
        return kind
    offerings = [
        each | {"available": each["available"] - 1}
        if each["reservationID"] == reservation
        else each
        for each in kind["offerings"]
    ]
    return kind | {"offerings": offerings}


def bind_pod(item: Manifest, homes: Mapping[str, str]) -> Manifest:
    """A pod that has found a place, running there; anything else as it is."""
    if item["kind"] != "Pod":
        return item
    home = homes.get(f"{item['metadata']['namespace']}/{item['metadata']['name']}")
    if home is None:
        return item
    spec: dict[str, Any] = item["spec"] | {"nodeName": home}
    return item | {"spec": spec, "status": {"phase": "Running"}}


MAX_LOOPS: Final = 60  # loops; each places a pod, and worlds have hardly more of them that wait


class CatalogMismatch(RuntimeError):
    """The two sides do not even agree on what can be bought."""


def run_oracle(
    oracle: Oracle, world: ClusterManifests, indexes: Mapping[str, InstanceTypeIndex]
) -> SchedulingOutcome:
    """What the reference comes to; `indexes` are the catalogues that its claims are bought from."""
    loop = _OracleLoop(world, indexes)
    for number in range(1, MAX_LOOPS + 1):
        answer = oracle.ask(loop.world.question())
        if not loop.took(answer):
            return loop.outcome(answer, number)
    raise CatalogMismatch(f"{world.profile}/{world.seed}: still at work after {MAX_LOOPS} loops")


class _OracleLoop:
    """The world as it is by now, and what has been launched."""

    def __init__(self, world: ClusterManifests, indexes: Mapping[str, InstanceTypeIndex]) -> None:
        self.world = world
        self._indexes = indexes
        self._launched: list[LaunchedNode] = []
        self._placed: set[str] = set()
        self._homes: dict[str, int] = {}
        """Which of the launched machines has this provider id."""

    def took(self, answer: OracleAnswer) -> bool:
        """Lets the answer come true; False where there is nothing in it."""
        joining = {pod: home.providerID for home in answer.existing for pod in home.pods}
        opening: dict[str, str] = {}
        for claim in answer.claims:
            opening |= dict.fromkeys(claim.pods, self._launch(claim))
        self._bind(opening | joining)
        for pod in opening.keys() | joining.keys():
            self._enter(pod, opening.get(pod) or joining[pod], joined=pod in joining)
        return bool(opening or joining)

    def outcome(self, last: OracleAnswer, loops: int) -> SchedulingOutcome:
        return SchedulingOutcome(
            placed=frozenset(self._placed),
            cost=fsum(each.price for each in self._launched),
            launched=tuple(self._launched),
            errors={each.pod: each.message for each in last.errors},
            loops=loops,
            final=self.world,
        )

    def _launch(self, claim: OracleClaim) -> str:
        """Buys it; gives the provider id of the new machine."""
        index = self._indexes[claim.nodePool]
        buy = self._bought(claim, index)
        number, kind = len(self._launched), index.types[buy.type_number].name
        provider = f"aws:///{buy.offering.zone}/i-launched-{number:03}"
        self._homes[provider] = number
        self._launched.append(
            LaunchedNode(
                pool=claim.nodePool,
                instance_type=kind,
                zone=buy.offering.zone,
                capacity_type=buy.offering.capacity_type or "",
                price=buy.offering.price,
                pods=(),
                reservation_id=buy.offering.reservation_id,
                instance_types=claim.instanceTypes,
                zones=tuple(sorted({each.zone for each in claim.offerings})),
                capacity_types=tuple(sorted({each.capacityType for each in claim.offerings})),
            )
        )
        self._stand_up(f"launched-{number:03}", provider, claim, buy, kind)
        return provider

    def _bought(self, claim: OracleClaim, index: InstanceTypeIndex) -> LaunchChoice:
        """What our launch choice takes of what was left to the claim."""
        slots = {each["reservationID"]: each["available"] for each in self._offerings()}
        try:
            buy = choose_offering(
                options_of_claim(to_planned_claim(claim), index), lambda name: int(slots[name])
            )
        except AssertionError:
            raise CatalogMismatch(f"nothing that {claim} may buy is sold") from None
        name, bought = index.types[buy.type_number].name, buy.offering
        wanted = (name, bought.zone, bought.capacity_type, bought.reservation_id)
        left = {
            (each.instanceType, each.zone, each.capacityType, each.reservationID)
            for each in claim.offerings
        }
        if wanted not in left:
            raise CatalogMismatch(f"we would buy {wanted}, which was not left to {claim}")
        return buy

    def _offerings(self) -> list[Manifest]:
        return [each for kind in self.world.types for each in kind["offerings"]]

    def _stand_up(
        self, name: str, provider: str, claim: OracleClaim, buy: LaunchChoice, kind: str
    ) -> None:
        """Adds the claim and its node to the world, and takes its slot from the reservation."""
        sold = next(each for each in self.world.types if each["name"] == kind)
        assert claim.nodeClaim is not None
        made, bought = claim.nodeClaim, buy.offering
        labels = node_labels(made, sold, buy)
        status = {"capacity": sold["capacity"], "allocatable": allocatable(sold)}
        claimed = {
            **made,
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": labels},
            "status": {**status, "nodeName": name, "providerID": provider},
        }
        types = [take_reserved_instance(each, bought.reservation_id) for each in self.world.types]
        objects = (*self.world.objects, claimed, node_for_claim(claimed))
        self.world = replace(self.world, objects=objects, types=tuple(types))

    def _bind(self, bound: Mapping[str, str]) -> None:
        """Puts pods on nodes, which are known by their provider id or, if foreign, by name."""
        self._join(set(bound.values()))
        names = {
            each["spec"].get("providerID") or each["metadata"]["name"]: each["metadata"]["name"]
            for each in self.world.kinds("Node")
        }
        homes = {pod: names[provider] for pod, provider in bound.items()}
        objects = tuple(bind_pod(each, homes) for each in self.world.objects)
        self.world = replace(self.world, objects=objects)

    def _join(self, providers: set[str]) -> None:
        """Gives claims that receive pods their node, if the world began before it had joined."""
        joined = {each["spec"].get("providerID") for each in self.world.kinds("Node")}
        nodes = tuple(
            node_for_claim(claim)
            for claim in self.world.kinds("NodeClaim")
            if claim["status"]["providerID"] in providers - joined
        )
        self.world = replace(self.world, objects=(*self.world.objects, *nodes))

    def _enter(self, pod: str, provider: str, *, joined: bool) -> None:
        """Remembers where the pod went, if that was launched here."""
        self._placed.add(pod)
        number = self._homes.get(provider)
        if number is not None:
            old = self._launched[number]
            came = (*old.joined, pod) if joined else old.joined
            self._launched[number] = replace(old, pods=(*old.pods, pod), joined=came)


RUNS = 3  # the reference is not repeatable, so it is asked several times


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A world and what came of it."""

    world: ClusterManifests
    ours: SchedulingOutcome
    runs: tuple[SchedulingOutcome, ...]

    @property
    def missing(self) -> frozenset[str]:
        """What every run of theirs places, and we do not."""
        return always_placed(self.runs) - self.ours.placed

    @property
    def extra(self) -> frozenset[str]:
        """What we place, and no run of theirs."""
        return self.ours.placed - frozenset.union(*(run.placed for run in self.runs))

    @property
    def costs(self) -> tuple[float, float] | None:
        """Ours and the median of theirs, of the runs that place the very same pods."""
        same = [run.cost for run in self.runs if run.placed == self.ours.placed]
        return (self.ours.cost, median(same)) if same else None


def always_placed(runs: Iterable[SchedulingOutcome]) -> frozenset[str]:
    """The pods that every run places."""
    return frozenset.intersection(*(run.placed for run in runs))


def compare_schedulers(oracle: Oracle, world: ClusterManifests, runs: int = RUNS) -> Comparison:
    """Both, the reference several times."""
    ready = prepare_cluster(world)
    indexes = {name: built.index for name, built in ready.built.items()}
    return Comparison(
        world=world,
        ours=run_our_planner(ready),
        runs=tuple(run_oracle(oracle, world, indexes) for _ in range(runs)),
    )
