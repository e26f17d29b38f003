"""Rules of security groups: added, removed and described. Nothing here is let through or kept out.

People and tools that set up a network write them, and want to find them again as they were written.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from wainwright.emulator import ids
from wainwright.emulator.ec2.catalogue import NoState
from wainwright.emulator.ec2.lookup import RULE, named
from wainwright.emulator.ec2.network import Network
from wainwright.emulator.ec2.rule_words import Said, asked, row, said
from wainwright.emulator.ec2.state import GroupRule, Peer, SecurityGroup
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.paging import page
from wainwright.emulator.tags import from_specifications, only_for
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

MOST: Final = 1000
MOST_RULES: Final = 60
"""Of one group in one direction."""


class GroupRules:
    """Has no state of its own: rules stand with their groups."""

    name = "ec2"

    def __init__(self, world: World, network: Network) -> None:
        self.state = NoState()
        self._world = world
        self._network = network

    def operations(self) -> Mapping[str, Handler]:
        return {
            "AuthorizeSecurityGroupIngress": partial(self.add, egress=False),
            "AuthorizeSecurityGroupEgress": partial(self.add, egress=True),
            "RevokeSecurityGroupIngress": partial(self.remove, egress=False),
            "RevokeSecurityGroupEgress": partial(self.remove, egress=True),
            "DescribeSecurityGroupRules": self.describe,
        }

    def rules(self) -> dict[str, GroupRule]:
        """Of all groups, by id."""
        groups = self._network.state.groups.values()
        return {each.id: each for group in groups for each in group.rules.values()}

    def add(self, params: Params, *, egress: bool) -> Answer:
        """All that the call asks for, or nothing of it."""
        only_for(params, RULE.resource)
        group, tags = self._group(params), from_specifications(params, RULE.resource)
        known = {said(each) for each in group.rules.values()}
        made: list[GroupRule] = []
        for wanted, description in asked(params, egress):
            meant = self._resolved(wanted, group.vpc_id)
            if meant in known:
                raise _duplicate(meant)
            known.add(meant)
            made.append(self._rule(meant, description, tags))
        if sum(each.egress == egress for each in known) > MOST_RULES:
            message = "The maximum number of rules per security group has been reached."
            raise AwsError("RulesPerSecurityGroupLimitExceeded", message)
        group.rules.update((each.id, each) for each in made)
        return {"Return": True, "SecurityGroupRules": [self._row(group, each) for each in made]}

    def remove(self, params: Params, *, egress: bool) -> Answer:
        group = self._group(params)
        gone = [each for each in self._meant(params, group, egress) if each.egress == egress]
        for each in gone:
            del group.rules[each.id]
        return {"Return": True}

    def describe(self, params: Params) -> Answer:
        found = {
            each.id: (group, each)
            for group in self._network.state.groups.values()
            for each in group.rules.values()
        }
        rows = named(found, params.get("SecurityGroupRuleIds"), RULE)
        rows = matching(rows, params.get("Filters"), FIELDS, lambda pair: pair[1].tags)
        shown, token = page(rows, params, most=MOST)
        return {"SecurityGroupRules": [self._row(*each) for each in shown], **token}

    def _group(self, params: Params) -> SecurityGroup:
        """By id, or by name in the network that is meant where none is named."""
        if params.get("GroupId") or not params.get("GroupName"):
            return self._network.group(params.get("GroupId"))
        return self._network.named_group(params["GroupName"])

    def _meant(self, params: Params, group: SecurityGroup, egress: bool) -> Iterable[GroupRule]:
        listed = params.get("SecurityGroupRuleIds")
        if listed:
            return named(group.rules, listed, RULE)
        known = {said(each): each for each in group.rules.values()}
        wanted = [self._resolved(each, group.vpc_id) for each, _ in asked(params, egress)]
        if any(each not in known for each in wanted):
            message = "The specified rule does not exist in this security group."
            raise AwsError("InvalidPermission.NotFound", message)
        return [known[each] for each in dict.fromkeys(wanted)]

    def _resolved(self, wanted: Said, vpc_id: str) -> Said:
        """With the id of the group where a group is the peer."""
        if wanted.kind is not Peer.GROUP:
            return wanted
        network = self._network
        if wanted.peer.startswith("sg-"):
            return wanted._replace(peer=network.group(wanted.peer).id)
        return wanted._replace(peer=network.named_group(wanted.peer, vpc_id).id)

    def _rule(self, meant: Said, description: str, tags: Mapping[str, str]) -> GroupRule:
        return GroupRule(
            id=ids.new(self._world, RULE.prefix),
            **meant._asdict(),
            description=description,
            tags=dict(tags),
        )

    def _row(self, group: SecurityGroup, rule: GroupRule) -> Answer:
        return row(rule, group.id, self._world.account)


FIELDS: Final[Fields[tuple[SecurityGroup, GroupRule]]] = {
    "group-id": lambda pair: (pair[0].id,),
    "security-group-rule-id": lambda pair: (pair[1].id,),
}


def _duplicate(rule: Said) -> AwsError:
    ports = "" if rule.first is None else f", from port: {rule.first}, to port: {rule.last}"
    protocol = "ALL" if rule.protocol == "-1" else rule.protocol.upper()
    return AwsError(
        "InvalidPermission.Duplicate",
        f'the specified rule "peer: {rule.peer}, {protocol}{ports}, ALLOW" already exists',
    )
