"""Rows and lines of a plan's JSON object, shared by the table, Markdown and the difference.
Equal claims and equal failures are grouped: ten equal nodes are one row.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from wainwright.core.launch.launch_choice import options_of_claim, without_exotic_types
from wainwright.messages.formatting import (
    MODELLED_PRICES,
    RESERVED_PRICES,
    format_count,
    format_hourly,
    join_first,
)
from wainwright.messages.unschedulable import MAX_DESCRIBED_PREFERENCES
from wainwright.messages.unschedulable_answer import UnschedulableAnswer
from wainwright.model.plan import Plan
from wainwright.report.plan_input import PlanInput

Document = dict[str, Any]

MIN_SHOWN_PRICE: Final = 0.0005  # USD per hour; less is printed as 0


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """Claims of one pool that would be launched from the same offering."""

    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    reservation: str
    price: float
    modelled: bool
    claims: tuple[Document, ...]

    @property
    def each(self) -> str:
        """The price of one of them."""
        return format_hourly(self.price, modelled=self.modelled)

    @property
    def total(self) -> str:
        return format_hourly(self.price * self.count, modelled=self.modelled)

    def utilization(self, resource: str) -> str:
        """94%, or 73-94% where the nodes differ."""
        known = [each["utilization"].get(resource) for each in self.claims]
        shares = sorted({round(each * 100) for each in known if each is not None})
        if not shares:
            return "-"
        return f"{shares[0]}%" if len(shares) == 1 else f"{shares[0]}-{shares[-1]}%"

    @property
    def count(self) -> int:
        return len(self.claims)

    @property
    def pods(self) -> int:
        return sum(len(claim["pods"]) for claim in self.claims)


class UnschedulableRow(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that are unschedulable for the same reasons."""

    pods: tuple[str, ...]
    answer: UnschedulableAnswer
    pools: tuple[Document, ...] = ()
    nodes: tuple[str, ...] = ()
    """Why the existing nodes do not take them."""

    @property
    def title(self) -> str:
        """3 pods are unschedulable: shop/web-0, shop/web-1, shop/web-2"""
        return format_unschedulable(self.pods)

    @property
    def details(self) -> list[str]:
        """The reason of every NodePool, with the types left after each check, and of every node."""
        pools = [
            f"NodePool {pool['nodePool']}: {pool['reason']} [{_format_funnel(pool['funnel'])}]"
            for pool in self.pools
        ]
        return [*pools, *self.nodes]

    @property
    def details_with_legend(self) -> list[str]:
        """For a block that is read without the others."""
        return [*funnel_legend([self]), *self.details]


FUNNEL_LEGEND: Final = (
    "[instance types in the catalogue → left after taints and requirements → resources, host ports "
    "and volumes → available offerings → minValues → limits]"
)


def funnel_legend(rows: Iterable[UnschedulableRow]) -> list[str]:
    """What the numbers of the details mean; nothing where there are none."""
    return [FUNNEL_LEGEND] if any(row.pools for row in rows) else []


def format_unschedulable(pods: Sequence[str]) -> str:
    """1 pod is unschedulable: shop/web-0"""
    are = "is" if len(pods) == 1 else "are"
    return f"{format_count(len(pods), 'pod')} {are} unschedulable: {join_first(pods)}"


def _format_funnel(funnel: Document) -> str:
    return " → ".join(f"{count:,}" for count in funnel.values())


def node_rows(claims: Iterable[Document]) -> list[NodeRow]:
    """Grouped claims, in order of the first claim of each group."""
    groups: dict[tuple[Any, ...], list[Document]] = {}
    for claim in claims:
        key = tuple(claim[field] for field in ROW_FIELDS)
        groups.setdefault(key, []).append(claim)
    return [_node_row(group) for group in groups.values()]


ROW_FIELDS = (
    "nodePool",
    "instanceType",
    "zone",
    "capacityType",
    "reservationID",
    "pricePerHour",
    "modelledPrice",
)


def _node_row(group: list[Document]) -> NodeRow:
    first = group[0]
    return NodeRow(
        pool=first["nodePool"],
        instance_type=first["instanceType"],
        zone=first["zone"] or "any",
        capacity_type=first["capacityType"],
        reservation=first["reservationID"] or "",
        price=first["pricePerHour"],
        modelled=first["modelledPrice"],
        claims=tuple(group),
    )


def price_notes(plan: Document) -> list[str]:
    """What prices in the plan, or in a fix, mean that are no list prices."""
    fixes = (row[key] or "" for row in plan["unschedulable"] for key in FIX_FIELDS)
    has_estimates = plan["summary"]["modelledPrices"] or any("~$" in fix for fix in fixes)
    is_reserved = any(claim["reservationID"] for claim in plan["nodeClaims"])
    return [
        *([MODELLED_PRICES] if has_estimates else []),
        *([RESERVED_PRICES] if is_reserved else []),
    ]


FIX_FIELDS: Final = ("suggestion", "alternative")


def unschedulable_rows(unschedulable: Iterable[Document]) -> list[UnschedulableRow]:
    groups: dict[object, list[Document]] = {}
    texts: dict[int, bytes] = {}
    rows = list(unschedulable)
    for row in rows:
        # Equal pods share these lists: each is written once, not once for every pod.
        shared = [
            texts.get(id(each)) or texts.setdefault(id(each), msgspec.json.encode(each))
            for each in (row["pools"], row["nodes"])
        ]
        groups.setdefault((row_answer(row), *shared), []).append(row)
    return [_unschedulable_row(group) for group in groups.values()]


def _unschedulable_row(group: list[Document]) -> UnschedulableRow:
    return UnschedulableRow(
        pods=tuple(row["pod"] for row in group),
        answer=row_answer(group[0]),
        pools=tuple(group[0]["pools"]),
        nodes=tuple(map(format_node_reason, group[0]["nodes"])),
    )


def row_answer(row: Document) -> UnschedulableAnswer:
    """The answer that a row of the document has."""
    return UnschedulableAnswer(
        cause=row["reason"],
        fix=row["suggestion"],
        alternative=row["alternative"],
        other_pools=row["otherPools"],
        nodes=row["existingNodes"],
    )


def format_node_pods(node: Document, name: str) -> str:
    """2 pods are scheduled on node-1: shop/web-0, shop/web-1; `name` may carry markup."""
    pods = node["pods"]
    subject = "1 pod is scheduled" if len(pods) == 1 else f"{len(pods):,} pods are scheduled"
    return f"{subject} on {name}: {join_first(pods)}"


def format_node_reason(verdict: Document) -> str:
    """312 nodes: too little memory, best 1.2Gi short."""
    count = verdict["nodes"]
    return f"{count:,} {'node' if count == 1 else 'nodes'}: {verdict['reason']}"


def format_packing(summary: Document) -> str:
    """packed by cost: $3.752/h less than first-fit, 1.6 % above the bound."""
    packing = summary["packing"]
    saved, above = packing["savedPerHour"], packing["aboveBound"]
    comparison = "no cheaper than"
    if saved >= MIN_SHOWN_PRICE:
        comparison = f"{format_hourly(saved, modelled=summary['modelledPrices'])} less than"
    bound_note = "" if above is None else f", {above * 100:.1f} % above the bound"
    return f"packed by cost: {comparison} first-fit{bound_note}"


def format_relaxation(relaxed: Document, *, modelled: bool = False) -> str:
    """Which pods had which preferences relaxed, and the price of a node that keeps them."""
    given_up, most = relaxed["givenUp"], MAX_DESCRIBED_PREFERENCES
    rest = len(given_up) - most
    more = [f"and {format_count(rest, 'more preference')}"] if rest > 0 else []
    preferences = "; ".join([*given_up[:most], *more])
    price = relaxed["keptPricePerHour"]
    cost = (
        f"a node that meets them costs {format_hourly(price, modelled=modelled)}"
        if price is not None
        else "no node meets them"
    )
    return f"preferences relaxed for {join_first(relaxed['pods'])}: {preferences} ({cost})"


def launchable_type_count(given: PlanInput, plan: Plan) -> Callable[[str], int]:
    """The number of instance types by claim name; with a reservation only those it covers."""
    claims = {claim.name: claim for claim in plan.claims}

    def count(name: str) -> int:
        claim = claims[name]
        return without_exotic_types(options_of_claim(claim, given.indexes[claim.pool])).bit_count()

    return count


ReservationUse = dict[str, Any]


def usable_reservations(uses: Iterable[ReservationUse]) -> list[ReservationUse]:
    """Without the unusable ones, which a note explains."""
    return [use for use in uses if use["unusable"] is None]


RESERVATION_HEADINGS: Final = ("RESERVATION", "TOTAL", "IN USE", "FREE", "PLAN TAKES", "IDLE")


def reservation_counts(use: ReservationUse) -> tuple[str, ...]:
    """Reserved instances, those in use or being launched into, free ones, those that the plan takes
    and those that stay idle.
    """
    free = max(use["available"] - use["promised"], 0)
    idle = use.get("idle", free - use["used"])
    counts = (use["total"], use["total"] - free, free, use["used"], idle)
    return tuple(f"{count:,}" for count in counts)


def format_reservation_use(use: ReservationUse) -> str:
    """10 instances: 7 in use, 3 free, 3 taken by the plan, 0 idle"""
    total, in_use, free, taken, idle = reservation_counts(use)
    return (
        f"{total} instances: {in_use} in use, {free} free, {taken} taken by the plan, {idle} idle"
    )
