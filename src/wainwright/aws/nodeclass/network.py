"""Network: the subnets and security groups that the terms of a class select."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.selectors import SecurityGroupTerm, SubnetTerm
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import (
    SECURITY_GROUPS,
    SUBNETS,
    Finding,
    Part,
    bad,
    good,
)
from wainwright.aws.nodeclass.resolved import SecurityGroup, Subnet
from wainwright.aws.remember import Remembered
from wainwright.aws.wire import Filter, Row, equals, tag_filters
from wainwright.clock import Clock

MINUTE: Final = 60.0
SUBNETS_KEPT: Final = MINUTE
GROUPS_KEPT: Final = 5 * MINUTE


class _Term(Protocol):
    @property
    def id(self) -> str | None: ...
    @property
    def tags(self) -> dict[str, str] | None: ...


class Subnets:
    """Asks EC2 at most once a minute for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: Remembered[tuple[Subnet, ...]] = Remembered(clock, SUBNETS_KEPT)

    async def find(self, node_class: EC2NodeClass) -> Part[tuple[Subnet, ...]]:
        terms = node_class.spec.subnetSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        found = await self._known.get(key, lambda: self._ask(terms))
        finding = good(SUBNETS) if found else _none(SUBNETS, "SubnetsNotFound", "subnet")
        return Part(value=found, finding=finding, again=SUBNETS_KEPT)

    async def _ask(self, terms: Sequence[SubnetTerm]) -> tuple[Subnet, ...]:
        rows: list[Row] = []
        for filters in _queries(terms, "subnet-id"):
            rows += await self._ec2.describe_subnets(filters)
        subnets = {row["SubnetId"]: _subnet(row) for row in rows}
        return tuple(sorted(subnets.values(), key=lambda each: (-each.free, each.id)))


class SecurityGroups:
    """Asks EC2 every five minutes for the same terms."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._known: Remembered[tuple[SecurityGroup, ...]] = Remembered(clock, _groups_kept)

    async def find(self, node_class: EC2NodeClass) -> Part[tuple[SecurityGroup, ...]]:
        terms = node_class.spec.securityGroupSelectorTerms
        key = msgspec.json.encode(terms, order="deterministic")
        found = await self._known.get(key, lambda: self._ask(terms))
        nothing = _none(SECURITY_GROUPS, "SecurityGroupsNotFound", "security group")
        finding = good(SECURITY_GROUPS) if found else nothing
        return Part(value=found, finding=finding, again=_groups_kept(found))

    async def _ask(self, terms: Sequence[SecurityGroupTerm]) -> tuple[SecurityGroup, ...]:
        names = sorted({term.name for term in terms if term.name is not None})
        others = [term for term in terms if term.name is None]
        rows: list[Row] = []
        for filters in [
            *_queries(others, "group-id"),
            *([[equals("group-name", *names)]] if names else []),
        ]:
            rows += await self._ec2.describe_security_groups(filters)
        groups = {row["GroupId"]: row.get("GroupName", "") for row in rows}
        return tuple(SecurityGroup(id=key, name=name) for key, name in sorted(groups.items()))


def _groups_kept(found: tuple[SecurityGroup, ...]) -> float:
    """Nothing is looked at again sooner: somebody may be creating it just now."""
    return GROUPS_KEPT if found else MINUTE


def _queries(terms: Iterable[_Term], identity: str) -> list[list[Filter]]:
    """One call for all ids together, and one for every other term: filters cannot be OR-ed."""
    ids = sorted({term.id for term in terms if term.id is not None})
    named = [[equals(identity, *ids)]] if ids else []
    return named + [tag_filters(term.tags or {}) for term in terms if term.id is None]


def _subnet(row: Row) -> Subnet:
    return Subnet(
        id=row["SubnetId"],
        zone=row["AvailabilityZone"],
        zone_id=row.get("AvailabilityZoneId", ""),
        free=row.get("AvailableIpAddressCount", 0),
    )


def _none(kind: str, reason: str, what: str) -> Finding:
    return bad(kind, reason, f"the terms of this class select no {what} in this account and region")
