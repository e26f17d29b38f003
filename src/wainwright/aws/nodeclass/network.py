"""Subnets, security groups and the placement group of a class; and the free addresses of subnets.

A launch goes to the subnet with most free addresses of each zone, counting what is under way. EC2
says once a minute how many addresses are free, and the network plugin of a new node takes many more
of them than the instance itself. So every launch is counted with what its smallest instance will
take, until EC2's own number has changed, or for five minutes at most. What was not launched after
all is taken back at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from wainwright.api.karpenter.ec2nodeclass import (
    EC2NodeClass,
    PlacementGroupSelector,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.seam import Filter, Row, filter_equals, tag_filters
from wainwright.aws.api.services import Ec2
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.nodeclass.status import (
    PLACEMENT_GROUP_READY,
    SECURITY_GROUPS_READY,
    SUBNETS_READY,
    ConditionState,
    ResolvedPart,
    ResolvedPlacementGroup,
    ResolvedSecurityGroup,
    ResolvedSubnet,
    condition_false,
    condition_true,
)
from wainwright.clock import Clock
from wainwright.errors import AwsError

MINUTE: Final = 60.0
SUBNETS_TTL: Final = MINUTE
SECURITY_GROUPS_TTL: Final = 5 * MINUTE


class _SelectorTerm(Protocol):
    @property
    def id(self) -> str | None: ...
    @property
    def tags(self) -> dict[str, str] | None: ...


class SubnetProvider:
    """Asks EC2 at most once a minute for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: TtlCache[tuple[ResolvedSubnet, ...]] = TtlCache(clock, SUBNETS_TTL)

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[ResolvedSubnet, ...]]:
        terms = node_class.spec.subnetSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        found = await self._known.get(key, lambda: self._ask(terms))
        finding = (
            condition_true(SUBNETS_READY)
            if found
            else _none_selected(SUBNETS_READY, "SubnetsNotFound", "subnet")
        )
        return ResolvedPart(value=found, finding=finding, requeue_after=SUBNETS_TTL)

    async def _ask(self, terms: Sequence[SubnetSelectorTerm]) -> tuple[ResolvedSubnet, ...]:
        rows: list[Row] = []
        for filters in _selector_filters(terms, "subnet-id"):
            rows += await self._ec2.describe_subnets(filters)
        subnets = {row["SubnetId"]: _parse_subnet(row) for row in rows}
        return tuple(sorted(subnets.values(), key=lambda each: (-each.free, each.id)))


class SecurityGroupProvider:
    """Asks EC2 every five minutes for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: TtlCache[tuple[ResolvedSecurityGroup, ...]] = TtlCache(
            clock, _security_groups_ttl
        )

    async def find(
        self, node_class: EC2NodeClass
    ) -> ResolvedPart[tuple[ResolvedSecurityGroup, ...]]:
        terms = node_class.spec.securityGroupSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        found = await self._known.get(key, lambda: self._ask(terms))
        nothing = _none_selected(SECURITY_GROUPS_READY, "SecurityGroupsNotFound", "security group")
        finding = condition_true(SECURITY_GROUPS_READY) if found else nothing
        return ResolvedPart(value=found, finding=finding, requeue_after=_security_groups_ttl(found))

    async def _ask(
        self, terms: Sequence[SecurityGroupSelectorTerm]
    ) -> tuple[ResolvedSecurityGroup, ...]:
        names = sorted({term.name for term in terms if term.name is not None})
        others = [term for term in terms if term.name is None]
        rows: list[Row] = []
        for filters in [
            *_selector_filters(others, "group-id"),
            *([[filter_equals("group-name", *names)]] if names else []),
        ]:
            rows += await self._ec2.describe_security_groups(filters)
        groups = {row["GroupId"]: row.get("GroupName", "") for row in rows}
        return tuple(
            ResolvedSecurityGroup(id=key, name=name) for key, name in sorted(groups.items())
        )


def _security_groups_ttl(found: tuple[ResolvedSecurityGroup, ...]) -> float:
    """Nothing is looked at again sooner: somebody may be creating it just now."""
    return SECURITY_GROUPS_TTL if found else MINUTE


def _selector_filters(terms: Iterable[_SelectorTerm], identity: str) -> list[list[Filter]]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed."""
    ids = sorted({term.id for term in terms if term.id is not None})
    named = [[filter_equals(identity, *ids)]] if ids else []
    return named + [tag_filters(term.tags or {}) for term in terms if term.id is None]


def _parse_subnet(row: Row) -> ResolvedSubnet:
    return ResolvedSubnet(
        id=row["SubnetId"],
        zone=row["AvailabilityZone"],
        zone_id=row.get("AvailabilityZoneId", ""),
        free=row.get("AvailableIpAddressCount", 0),
    )


def _none_selected(kind: str, reason: str, what: str) -> ConditionState:
    return condition_false(
        kind, reason, f"the terms of this class select no {what} in this account and region"
    )


PLACEMENT_GROUP_TTL: Final = 24 * 3600.0  # seconds
NO_PLACEMENT_GROUP_TTL: Final = 60.0


class PlacementGroupProvider:
    """Asks EC2 once a day for a group that is there, each minute for one that is not."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: TtlCache[ResolvedPlacementGroup | None] = TtlCache(
            clock, lambda found: NO_PLACEMENT_GROUP_TTL if found is None else PLACEMENT_GROUP_TTL
        )

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[ResolvedPlacementGroup | None]:
        selector = node_class.spec.placementGroupSelector
        if selector is None:
            return ResolvedPart(
                value=None,
                finding=condition_true(PLACEMENT_GROUP_READY),
                requeue_after=PLACEMENT_GROUP_TTL,
            )
        key = (selector.id, selector.name)
        found = await self._known.get(key, lambda: self._ask(selector))
        if found is not None:
            return ResolvedPart(
                value=found,
                finding=condition_true(PLACEMENT_GROUP_READY),
                requeue_after=PLACEMENT_GROUP_TTL,
            )
        message = f"there is no placement group {selector.id or selector.name} that can be used"
        finding = condition_false(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", message)
        return ResolvedPart(value=None, finding=finding, requeue_after=NO_PLACEMENT_GROUP_TTL)

    async def _ask(self, selector: PlacementGroupSelector) -> ResolvedPlacementGroup | None:
        try:
            rows = await self._ec2.describe_placement_groups(
                name=selector.name or "", identity=selector.id or ""
            )
        except AwsError as error:
            if error.code.startswith("InvalidPlacementGroup"):
                return None
            raise
        usable = [row for row in rows if row.get("State", "available") == "available"]
        return _parse_placement_group(usable[0]) if usable else None


def _parse_placement_group(row: Row) -> ResolvedPlacementGroup:
    return ResolvedPlacementGroup(
        id=row["GroupId"],
        name=row.get("GroupName", ""),
        strategy=row.get("Strategy", ""),
        partitions=row.get("PartitionCount") or 0,
    )


IN_FLIGHT_TTL: Final = 300.0  # seconds


class AddressUse(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that a launch will take, or has taken since EC2 last counted."""

    subnet: str
    amount: int
    at: float


class AddressHold(msgspec.Struct, frozen=True, kw_only=True):
    """What one launch holds while it is under way."""

    number: int
    uses: tuple[AddressUse, ...]
    each: int
    """Addresses of one instance."""


class SubnetAddresses:
    """Who takes how many; one for all classes, as they share subnets."""

    def __init__(self, clock: Clock, unavailable_offerings: UnavailableOfferings) -> None:
        self._clock = clock
        self._unavailable_offerings = unavailable_offerings
        self._held: dict[int, AddressHold] = {}
        self._holds = 0
        self._used: list[AddressUse] = []
        self._seen: dict[str, int] = {}

    def usable(self, subnets: Iterable[ResolvedSubnet]) -> list[ResolvedSubnet]:
        """Those that have addresses as far as anybody knows."""
        return [
            each
            for each in subnets
            if each.free > 0 and not self._unavailable_offerings.full(each.id)
        ]

    def choose(self, subnets: Iterable[ResolvedSubnet]) -> dict[str, ResolvedSubnet]:
        """By zone the subnet to launch in; a zone without any address is not there."""
        usable = self.usable(subnets)
        self._notice(usable)
        best: dict[str, ResolvedSubnet] = {}
        for subnet in sorted(usable, key=lambda each: (-self.free(each), each.id)):
            best.setdefault(subnet.zone, subnet)
        return best

    def free(self, subnet: ResolvedSubnet) -> int:
        """Below zero where more is under way than there is: EC2 may still have room for it."""
        oldest = self._clock.now() - IN_FLIGHT_TTL
        self._used = [use for use in self._used if use.at > oldest]
        under_way = [use for hold in self._held.values() for use in hold.uses]
        taken = sum(use.amount for use in [*self._used, *under_way] if use.subnet == subnet.id)
        return subnet.free - taken

    def hold(self, subnets: Iterable[ResolvedSubnet], *, instances: int, each: int) -> AddressHold:
        """Any of them may get all the instances; `settle` must follow, whatever happens."""
        now, amount = self._clock.now(), instances * each
        uses = tuple(AddressUse(subnet=one.id, amount=amount, at=now) for one in subnets)
        self._holds += 1
        hold = self._held[self._holds] = AddressHold(number=self._holds, uses=uses, each=each)
        return hold

    def settle(self, hold: AddressHold, launched: Mapping[str, int]) -> None:
        """Keeps what the instances take that were launched, by subnet, and lets go of the rest."""
        del self._held[hold.number]
        now = self._clock.now()
        self._used += [
            AddressUse(subnet=subnet, amount=count * hold.each, at=now)
            for subnet, count in launched.items()
        ]

    def _notice(self, subnets: Iterable[ResolvedSubnet]) -> None:
        """EC2 has counted anew where its number is another one."""
        for subnet in subnets:
            if self._seen.get(subnet.id, subnet.free) != subnet.free:
                self._used = [use for use in self._used if use.subnet != subnet.id]
            self._seen[subnet.id] = subnet.free
