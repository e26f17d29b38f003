"""A plan's claims and failures, put together where they are alike: ten equal nodes are one row."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from wainwright.report.money import hourly

Document = dict[str, Any]

LEAST_TOLD: Final = 0.0005  # USD per hour; less is nothing when it is written down


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


class FailureRow(msgspec.Struct, frozen=True, kw_only=True):
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


def failure_rows(unschedulable: Iterable[Document]) -> list[FailureRow]:
    groups: dict[bytes, list[Document]] = {}
    for row in unschedulable:
        key = msgspec.json.encode({**row, "pod": None})
        groups.setdefault(key, []).append(row)
    return [_failure_row(group) for group in groups.values()]


def _failure_row(group: list[Document]) -> FailureRow:
    return FailureRow(
        pods=tuple(row["pod"] for row in group),
        reason=group[0]["reason"],
        suggestion=group[0]["suggestion"],
        pools=tuple(group[0]["pools"]),
        nodes=tuple(map(nodes_said, group[0]["nodes"])),
    )


def some(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def arrivals(node: Document, name: str) -> str:
    """2 pods go to node-1: shop/web-0, shop/web-1; the name as it is to be written."""
    pods = node["pods"]
    go = "1 pod goes" if len(pods) == 1 else f"{len(pods):,} pods go"
    return f"{go} to {name}: {some(pods)}"


def nodes_said(verdict: Document) -> str:
    """312 nodes: too little memory, best 1.2Gi short."""
    count = verdict["nodes"]
    return f"{count:,} {'node' if count == 1 else 'nodes'}: {verdict['reason']}"


def packing_said(packing: Document) -> str:
    """packed by cost: $3.752/h less than first-fit, 1.6 % above the bound."""
    saved, above = packing["savedPerHour"], packing["aboveBound"]
    less = f"{hourly(saved)} less than" if saved >= LEAST_TOLD else "no cheaper than"
    far = "" if above is None else f", {above * 100:.1f} % above the bound"
    return f"packed by cost: {less} first-fit{far}"


def relaxed_said(relaxed: Document) -> str:
    """Who gave up what, and what it would have taken to keep it."""
    given = "; ".join(relaxed["givenUp"])
    price = relaxed["keptPricePerHour"]
    cost = (
        f"a node that keeps it costs {hourly(price)}" if price is not None else "none could be had"
    )
    return f"given up by {some(relaxed['pods'])}: {given} ({cost})"
