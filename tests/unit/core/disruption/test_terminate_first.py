"""Row H12: a node is ended before its replacement comes only where that cannot be staged."""

from typing import Any

import msgspec
import pytest
from tests.support.model_builders import instance_type, offering
from tests.unit.core.disruption.test_commands import WEB, drifted_claim, node, types

from wainwright.core.disruption.commands import Command
from wainwright.core.disruption.disruption_input import DisruptionInput, DisruptionOptions, Method
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.model.disruption import Condition, RepairPolicy
from wainwright.model.instance_type import Offering
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, RESERVATION_ID, ZONE
from wainwright.model.plan import PlanOptions
from wainwright.model.snapshot import STATIC_POOL, Node, Pool, Snapshot

NOW = 100_000.0
NOT_READY = RepairPolicy(condition="Ready", status="False", toleration=600.0)
BOTH_GATES: dict[str, Any] = {"terminate_first_drift": True, "terminate_first_repair": True}
LABELS = {
    INSTANCE_TYPE: "large",
    ZONE: "zone-a",
    CAPACITY_TYPE: "reserved",
    RESERVATION_ID: "cr-1",
    HOSTNAME: "a",
}


def reserved(identity: str = "cr-1", available: int = 0) -> Offering:
    return offering(
        capacity_type="reserved", price=0.001, available=available, reservation_id=identity
    )


def in_reservation(method: Method, cpu: int = 900, **fields: Any) -> Node:
    """A node of the reservation cr-1 that is to be repaired, or has drifted."""
    if method is Method.DRIFT:
        fields["claim"] = drifted_claim("a")
    else:
        broken = Condition(status="False", since=NOW - 900.0, reason="Broken")
        fields["conditions"] = {"Ready": broken}
    return node("a", "large", cpu, labels=LABELS, reservation_id="cr-1", **fields)


def look(
    method: Method,
    *nodes: Node,
    offerings: tuple[Offering, ...],
    pools: tuple[Pool, ...] = (WEB,),
    others: tuple[Offering, ...] = (offering(price=0.5),),
    **options: Any,
) -> Command | None:
    """`offerings` are those of the NodePool web, `others` those of all others."""

    def index(sold: tuple[Offering, ...]) -> InstanceTypeIndex:
        capacity = {"cpu": 4000, "memory": 2**36, "pods": 50}
        labels = {INSTANCE_TYPE: "large"}
        kind = instance_type(name="large", capacity=capacity, labels=labels, offerings=sold)
        return InstanceTypeIndex([kind])

    given = DisruptionInput(
        snapshot=Snapshot(nodes=nodes, pools=pools, now=NOW),
        catalogs={each.name: index(offerings if each is WEB else others) for each in pools},
        repair_policies=(NOT_READY,),
    )
    return DisruptionPass(given, DisruptionOptions(methods=(method,), **options)).find_command()


@pytest.mark.parametrize("method", [Method.DRIFT, Method.REPAIR])
def test_h12_a_node_of_a_full_reservation_goes_first_with_the_gate_of_its_method(
    method: Method,
) -> None:
    own = "terminate_first_drift" if method is Method.DRIFT else "terminate_first_repair"
    broken = in_reservation(method)
    assert look(method, broken, offerings=(reserved(),)) is None
    other_gate: dict[str, Any] = {key: key != own for key in BOTH_GATES}
    assert look(method, broken, offerings=(reserved(),), **other_gate) is None
    gate: dict[str, Any] = {own: True}
    command = look(method, broken, offerings=(reserved(),), **gate)
    assert command is not None
    assert command.terminate_first
    assert [each.launch.reservation_id for each in command.replacements] == ["cr-1"]


@pytest.mark.parametrize("method", [Method.DRIFT, Method.REPAIR])
@pytest.mark.parametrize(
    ("offerings", "pools"),
    [
        ((reserved(), reserved("cr-2", available=1)), (WEB,)),
        ((reserved(available=1),), (WEB,)),
        ((reserved(), offering(price=0.5)), (WEB,)),
        ((reserved(),), (WEB, Pool(name="other"))),
    ],
    ids=["another-reservation", "room-in-its-own", "on-demand", "another-pool"],
)
def test_h12_the_replacement_comes_first_where_something_else_takes_the_pods(
    method: Method, offerings: tuple[Offering, ...], pools: tuple[Pool, ...]
) -> None:
    command = look(method, in_reservation(method), offerings=offerings, pools=pools, **BOTH_GATES)
    assert command is not None
    assert (command.terminate_first, len(command.replacements)) == (False, 1)


@pytest.mark.parametrize("method", [Method.DRIFT, Method.REPAIR])
def test_h12_a_node_stays_where_its_own_instance_would_be_no_help(method: Method) -> None:
    full = (reserved(),)
    gone = (reserved("cr-2"),)  # its reservation has ended, or is selected no longer
    unusable = msgspec.structs.replace(WEB, unusable="not ready")
    assert look(method, in_reservation(method), offerings=gone, **BOTH_GATES) is None
    too_large = in_reservation(method, cpu=5000)
    assert look(method, too_large, offerings=full, **BOTH_GATES) is None
    pools = (unusable,)
    broken = in_reservation(method)
    assert look(method, broken, offerings=full, pools=pools, others=full, **BOTH_GATES) is None


@pytest.mark.parametrize(
    ("limit", "gate", "expected"), [(3, False, (1, False)), (2, False, None), (2, True, (0, True))]
)
def test_h12_a_drifted_node_of_a_static_pool_at_its_limit_goes_first_with_the_gate(
    limit: int, gate: bool, expected: tuple[int, bool] | None
) -> None:
    pool = msgspec.structs.replace(
        WEB, replicas=2, limits={"nodes": limit}, unusable=STATIC_POOL, in_use={}
    )
    nodes = (node("a", "medium", claim=drifted_claim("a")), node("b", "medium"))
    given = DisruptionInput(
        snapshot=Snapshot(nodes=nodes, pools=(pool,), now=NOW),
        catalogs={"web": InstanceTypeIndex(types())},
    )
    options = DisruptionOptions(
        methods=(Method.STATIC_DRIFT,),
        plan=PlanOptions(static_capacity=True),
        terminate_first_drift=gate,
    )
    command = DisruptionPass(given, options).find_command()
    found = None if command is None else (len(command.replacements), command.terminate_first)
    assert found == expected
