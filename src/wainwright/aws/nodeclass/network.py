"""Subnets, security groups and the placement group of a class; and the free addresses of subnets.

A launch uses the subnet with most free addresses of each zone, minus those of launches in flight.
EC2 is polled once a minute for the free addresses, and the network plugin of a new node uses many
more of them than the instance itself. So every launch is counted with the addresses of its smallest
instance type, until EC2's own number has changed, or for five minutes at most. Addresses of
instances that were not launched are released at once.
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
from wainwright.aws.api.services import Ec2, Filter, Row, filter_equals, tag_filters
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
    """Describes subnets at most once a minute for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._cache: TtlCache[tuple[ResolvedSubnet, ...]] = TtlCache(clock, SUBNETS_TTL)

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[tuple[ResolvedSubnet, ...]]:
        terms = node_class.spec.subnetSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        subnets = await self._cache.get(key, lambda: self._fetch(terms))
        condition = (
            condition_true(SUBNETS_READY)
            if subnets
            else _none_selected(SUBNETS_READY, "SubnetsNotFound", "subnet")
        )
        return ResolvedPart(value=subnets, condition=condition, requeue_after=SUBNETS_TTL)

    async def _fetch(self, terms: Sequence[SubnetSelectorTerm]) -> tuple[ResolvedSubnet, ...]:
        rows: list[Row] = []
        for filters in _selector_filters(terms, "subnet-id"):
            rows += await self._ec2.describe_subnets(filters)
        subnets = {row["SubnetId"]: _parse_subnet(row) for row in rows}
        return tuple(sorted(subnets.values(), key=lambda each: (-each.free_addresses, each.id)))


class SecurityGroupProvider:
    """Describes security groups every five minutes for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._cache: TtlCache[tuple[ResolvedSecurityGroup, ...]] = TtlCache(
            clock, _security_groups_ttl
        )

    async def find(
        self, node_class: EC2NodeClass
    ) -> ResolvedPart[tuple[ResolvedSecurityGroup, ...]]:
        terms = node_class.spec.securityGroupSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        groups = await self._cache.get(key, lambda: self._fetch(terms))
        condition = (
            condition_true(SECURITY_GROUPS_READY)
            if groups
            else _none_selected(SECURITY_GROUPS_READY, "SecurityGroupsNotFound", "security group")
        )
        return ResolvedPart(
            value=groups, condition=condition, requeue_after=_security_groups_ttl(groups)
        )

    async def _fetch(
        self, terms: Sequence[SecurityGroupSelectorTerm]
    ) -> tuple[ResolvedSecurityGroup, ...]:
        by_name = [term for term in terms if term.name is not None and term.id is None]
        names = sorted({term.name for term in by_name if term.name is not None})
        others = [term for term in terms if term.name is None or term.id is not None]
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


def _security_groups_ttl(groups: tuple[ResolvedSecurityGroup, ...]) -> float:
    """An empty result expires sooner: the groups may just be being created."""
    return SECURITY_GROUPS_TTL if groups else MINUTE


def _selector_filters(terms: Iterable[_SelectorTerm], id_filter: str) -> list[list[Filter]]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed."""
    ids = sorted({term.id for term in terms if term.id is not None})
    by_id = [[filter_equals(id_filter, *ids)]] if ids else []
    return by_id + [tag_filters(term.tags or {}) for term in terms if term.id is None]


def _parse_subnet(row: Row) -> ResolvedSubnet:
    return ResolvedSubnet(
        id=row["SubnetId"],
        zone=row["AvailabilityZone"],
        zone_id=row.get("AvailabilityZoneId", ""),
        free_addresses=row.get("AvailableIpAddressCount", 0),
    )


def _none_selected(condition_type: str, reason: str, what: str) -> ConditionState:
    return condition_false(
        condition_type,
        reason,
        f"the terms of this class select no {what} in this account and region",
    )


PLACEMENT_GROUP_TTL: Final = 24 * 3600.0  # seconds
NO_PLACEMENT_GROUP_TTL: Final = 60.0


class PlacementGroupProvider:
    """Describes an existing group once a day, a missing one every minute."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._cache: TtlCache[ResolvedPlacementGroup | None] = TtlCache(
            clock, lambda found: NO_PLACEMENT_GROUP_TTL if found is None else PLACEMENT_GROUP_TTL
        )

    async def find(self, node_class: EC2NodeClass) -> ResolvedPart[ResolvedPlacementGroup | None]:
        selector = node_class.spec.placementGroupSelector
        if selector is None:
            return ResolvedPart(
                value=None,
                condition=condition_true(PLACEMENT_GROUP_READY),
                requeue_after=PLACEMENT_GROUP_TTL,
            )
        key = (selector.id, selector.name)
        group = await self._cache.get(key, lambda: self._fetch(selector))
        if group is not None:
            return ResolvedPart(
                value=group,
                condition=condition_true(PLACEMENT_GROUP_READY),
                requeue_after=PLACEMENT_GROUP_TTL,
            )
        message = f"there is no placement group {selector.id or selector.name} that can be used"
        condition = condition_false(PLACEMENT_GROUP_READY, "PlacementGroupNotFound", message)
        return ResolvedPart(value=None, condition=condition, requeue_after=NO_PLACEMENT_GROUP_TTL)

    async def _fetch(self, selector: PlacementGroupSelector) -> ResolvedPlacementGroup | None:
        try:
            rows = await self._ec2.describe_placement_groups(
                name=selector.name or "", group_id=selector.id or ""
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
    """Addresses of a launch that EC2's count of free addresses may not include yet."""

    subnet: str
    amount: int
    at: float


class AddressHold(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses that one launch holds while it is in flight."""

    number: int
    uses: tuple[AddressUse, ...]
    addresses_per_instance: int


class SubnetAddresses:
    """Counts the addresses of launches; one for all classes, as they share subnets."""

    def __init__(self, clock: Clock, unavailable_offerings: UnavailableOfferings) -> None:
        self._clock = clock
        self._unavailable_offerings = unavailable_offerings
        self._holds: dict[int, AddressHold] = {}
        self._last_number = 0
        self._used: list[AddressUse] = []
        self._last_counts: dict[str, int] = {}

    def usable_subnets(self, subnets: Iterable[ResolvedSubnet]) -> list[ResolvedSubnet]:
        """Subnets that have free addresses as far as is known."""
        return [
            each
            for each in subnets
            if each.free_addresses > 0 and not self._unavailable_offerings.is_subnet_full(each.id)
        ]

    def choose_by_zone(self, subnets: Iterable[ResolvedSubnet]) -> dict[str, ResolvedSubnet]:
        """The subnet to launch in by zone; zones without free addresses are left out."""
        usable = self.usable_subnets(subnets)
        self._drop_counted_uses(usable)
        best: dict[str, ResolvedSubnet] = {}
        for subnet in sorted(usable, key=lambda each: (-self.free_addresses(each), each.id)):
            best.setdefault(subnet.zone, subnet)
        return best

    def free_addresses(self, subnet: ResolvedSubnet) -> int:
        """Negative if launches in flight may need more than there is; EC2 then decides."""
        oldest = self._clock.now() - IN_FLIGHT_TTL
        self._used = [use for use in self._used if use.at > oldest]
        in_flight = [use for hold in self._holds.values() for use in hold.uses]
        taken = sum(use.amount for use in [*self._used, *in_flight] if use.subnet == subnet.id)
        return subnet.free_addresses - taken

    def hold(
        self, subnets: Iterable[ResolvedSubnet], *, instances: int, addresses_per_instance: int
    ) -> AddressHold:
        """Any subnet may get all the instances; `settle` must follow in any case."""
        now, amount = self._clock.now(), instances * addresses_per_instance
        self._last_number += 1
        hold = AddressHold(
            number=self._last_number,
            uses=tuple(AddressUse(subnet=each.id, amount=amount, at=now) for each in subnets),
            addresses_per_instance=addresses_per_instance,
        )
        self._holds[hold.number] = hold
        return hold

    def settle(self, hold: AddressHold, launched: Mapping[str, int]) -> None:
        """Ends the hold; keeps counting the instances that were launched, by subnet."""
        del self._holds[hold.number]
        now = self._clock.now()
        self._used += [
            AddressUse(subnet=subnet, amount=count * hold.addresses_per_instance, at=now)
            for subnet, count in launched.items()
        ]

    def _drop_counted_uses(self, subnets: Iterable[ResolvedSubnet]) -> None:
        """If EC2's number has changed, it includes the launches: they are not counted twice."""
        for subnet in subnets:
            if self._last_counts.get(subnet.id, subnet.free_addresses) != subnet.free_addresses:
                self._used = [use for use in self._used if use.subnet != subnet.id]
            self._last_counts[subnet.id] = subnet.free_addresses
