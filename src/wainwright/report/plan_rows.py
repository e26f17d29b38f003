"""A plan's JSON object as rows and lines that the table, Markdown and differences share.

Claims and failures that are alike are put together: ten equal nodes are one row.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from wainwright.core.launch.launch_choice import options_of_claim, without_exotic_types
from wainwright.messages.formatting import format_hourly, join_first
from wainwright.offline import OfflinePlan

Document = dict[str, Any]

MIN_SHOWN_PRICE: Final = 0.0005  # USD per hour; less is nothing when it is written down


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Claims of one pool that would be bought in the same way."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    reservation: str
    price: float
    claims: tuple[Document, ...]

    @property
    def count(self) -> int:
        return len(self.claims)

    @property
    def pods(self) -> int:
        return sum(len(claim["pods"]) for claim in self.claims)


class UnschedulableRow(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that have no place for the same reasons."""

    pods: tuple[str, ...]
    reason: str
    suggestion: str | None
    pools: tuple[Document, ...]
    nodes: tuple[str, ...] = ()
    """Why nodes of the input do not take them."""


def node_rows(claims: Iterable[Document]) -> list[NodeRow]:
    """In the order in which the first of each was made."""
    groups: dict[tuple[Any, ...], list[Document]] = {}
    for claim in claims:
        key = tuple(claim[field] for field in ROW_FIELDS)
        groups.setdefault(key, []).append(claim)
    return [_node_row(group) for group in groups.values()]


ROW_FIELDS = ("nodePool", "instanceType", "zone", "capacityType", "reservationID", "pricePerHour")


def _node_row(group: list[Document]) -> NodeRow:
    first = group[0]
    return NodeRow(
        pool=first["nodePool"],
        instance_type=first["instanceType"],
        zone=first["zone"] or "any",
        capacity_type=first["capacityType"],
        reservation=first["reservationID"] or "",
        price=first["pricePerHour"],
        claims=tuple(group),
    )


def unschedulable_rows(unschedulable: Iterable[Document]) -> list[UnschedulableRow]:
    groups: dict[bytes, list[Document]] = {}
    for row in unschedulable:
        key = msgspec.json.encode({**row, "pod": None})
        groups.setdefault(key, []).append(row)
    return [_unschedulable_row(group) for group in groups.values()]


def _unschedulable_row(group: list[Document]) -> UnschedulableRow:
    return UnschedulableRow(
        pods=tuple(row["pod"] for row in group),
        reason=group[0]["reason"],
        suggestion=group[0]["suggestion"],
        pools=tuple(group[0]["pools"]),
        nodes=tuple(map(format_node_reason, group[0]["nodes"])),
    )


def format_node_pods(node: Document, name: str) -> str:
    """2 pods go to node-1: shop/web-0, shop/web-1; the name as it is to be written."""
    pods = node["pods"]
    go = "1 pod goes" if len(pods) == 1 else f"{len(pods):,} pods go"
    return f"{go} to {name}: {join_first(pods)}"


def format_node_reason(verdict: Document) -> str:
    """312 nodes: too little memory, best 1.2Gi short."""
    count = verdict["nodes"]
    return f"{count:,} {'node' if count == 1 else 'nodes'}: {verdict['reason']}"


def format_packing(packing: Document) -> str:
    """packed by cost: $3.752/h less than first-fit, 1.6 % above the bound."""
    saved, above = packing["savedPerHour"], packing["aboveBound"]
    less = f"{format_hourly(saved)} less than" if saved >= MIN_SHOWN_PRICE else "no cheaper than"
    far = "" if above is None else f", {above * 100:.1f} % above the bound"
    return f"packed by cost: {less} first-fit{far}"


def format_relaxation(relaxed: Document) -> str:
    """Who gave up what, and what it would have taken to keep it."""
    given = "; ".join(relaxed["givenUp"])
    price = relaxed["keptPricePerHour"]
    cost = (
        f"a node that keeps it costs {format_hourly(price)}"
        if price is not None
        else "none could be had"
    )
    return f"given up by {join_first(relaxed['pods'])}: {given} ({cost})"


def launchable_type_count(planned: OfflinePlan) -> Callable[[str], int]:
    """As how many types a claim could be launched, by its name: with a slot those that have one."""
    claims = {claim.name: claim for claim in planned.plan.claims}

    def count(name: str) -> int:
        claim = claims[name]
        return without_exotic_types(
            options_of_claim(claim, planned.prepared.built[claim.pool].index)
        ).bit_count()

    return count


ReservationUse = dict[str, Any]


def usable_reservations(uses: Iterable[ReservationUse]) -> list[ReservationUse]:
    """Of the others a note says why nobody can use them."""
    return [use for use in uses if use["unusable"] is None]


def format_reservation_use(use: ReservationUse) -> str:
    """3 of 5 free slots used, 1 promised to claims under way."""
    if not use["available"]:
        return f"none of {use['total']:,} slots is free"
    under_way = f"{use['promised']:,} promised to claims under way"
    promised = f", {under_way}" if use["promised"] else ""
    return f"{use['used']:,} of {use['available']:,} free slots used{promised}"
