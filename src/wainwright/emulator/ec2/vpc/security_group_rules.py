"""Rules of security groups: added, removed and described. Nothing here is let through or kept out.

People and tools that set up a network write them, and want to find them again as they were written.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import SECURITY_GROUP_RULE, find_by_ids
from wainwright.emulator.context import (
    AccountContext,
    EmptyState,
    OperationHandler,
    Params,
    Response,
)
from wainwright.emulator.describe_requests import FilterFields, apply_filters, paginate
from wainwright.emulator.ec2.tags import check_taggable_types, parse_tag_specifications
from wainwright.emulator.ec2.vpc.security_group_permissions import (
    RuleDefinition,
    RulePeer,
    SecurityGroup,
    SecurityGroupRule,
    parse_permissions,
    rule_definition,
    rule_view,
)
from wainwright.emulator.ec2.vpc.vpc_network import VpcNetwork
from wainwright.errors import AwsError

MAX_RESULTS: Final = 1000
MAX_RULES: Final = 60
"""Of one group in one direction."""


class SecurityGroupRules:
    """Has no state of its own: rules stand with their groups."""

    name = "ec2"

    def __init__(self, context: AccountContext, network: VpcNetwork) -> None:
        self.state = EmptyState()
        self._context = context
        self._network = network

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "AuthorizeSecurityGroupIngress": partial(self.add, egress=False),
            "AuthorizeSecurityGroupEgress": partial(self.add, egress=True),
            "RevokeSecurityGroupIngress": partial(self.remove, egress=False),
            "RevokeSecurityGroupEgress": partial(self.remove, egress=True),
            "DescribeSecurityGroupRules": self.describe,
        }

    def rules(self) -> dict[str, SecurityGroupRule]:
        """Of all groups, by id."""
        groups = self._network.state.groups.values()
        return {each.id: each for group in groups for each in group.rules.values()}

    def add(self, params: Params, *, egress: bool) -> Response:
        """All that the call asks for, or nothing of it."""
        check_taggable_types(params, SECURITY_GROUP_RULE.resource)
        group, tags = (
            self._group(params),
            parse_tag_specifications(params, SECURITY_GROUP_RULE.resource),
        )
        known = {rule_definition(each) for each in group.rules.values()}
        made: list[SecurityGroupRule] = []
        for wanted, description in parse_permissions(params, egress):
            meant = self._resolved(wanted, group.vpc_id)
            if meant in known:
                raise _duplicate_rule(meant)
            known.add(meant)
            made.append(self._rule(meant, description, tags))
        if sum(each.egress == egress for each in known) > MAX_RULES:
            message = "The maximum number of rules per security group has been reached."
            raise AwsError("RulesPerSecurityGroupLimitExceeded", message)
        group.rules.update((each.id, each) for each in made)
        return {"Return": True, "SecurityGroupRules": [self._row(group, each) for each in made]}

    def remove(self, params: Params, *, egress: bool) -> Response:
        group = self._group(params)
        gone = [each for each in self._meant(params, group, egress) if each.egress == egress]
        for each in gone:
            del group.rules[each.id]
        return {"Return": True}

    def describe(self, params: Params) -> Response:
        found = {
            each.id: (group, each)
            for group in self._network.state.groups.values()
            for each in group.rules.values()
        }
        rows = find_by_ids(found, params.get("SecurityGroupRuleIds"), SECURITY_GROUP_RULE)
        rows = apply_filters(rows, params.get("Filters"), RULE_FILTERS, lambda pair: pair[1].tags)
        shown, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"SecurityGroupRules": [self._row(*each) for each in shown], **token}

    def _group(self, params: Params) -> SecurityGroup:
        """By id, or by name in the network that is meant where none is named."""
        if params.get("GroupId") or not params.get("GroupName"):
            return self._network.group(params.get("GroupId"))
        return self._network.named_group(params["GroupName"])

    def _meant(
        self, params: Params, group: SecurityGroup, egress: bool
    ) -> Iterable[SecurityGroupRule]:
        listed = params.get("SecurityGroupRuleIds")
        if listed:
            return find_by_ids(group.rules, listed, SECURITY_GROUP_RULE)
        known = {rule_definition(each): each for each in group.rules.values()}
        wanted = [
            self._resolved(each, group.vpc_id) for each, _ in parse_permissions(params, egress)
        ]
        if any(each not in known for each in wanted):
            message = "The specified rule does not exist in this security group."
            raise AwsError("InvalidPermission.NotFound", message)
        return [known[each] for each in dict.fromkeys(wanted)]

    def _resolved(self, wanted: RuleDefinition, vpc_id: str) -> RuleDefinition:
        """With the id of the group where a group is the peer."""
        if wanted.kind is not RulePeer.GROUP:
            return wanted
        network = self._network
        if wanted.peer.startswith("sg-"):
            return wanted._replace(peer=network.group(wanted.peer).id)
        return wanted._replace(peer=network.named_group(wanted.peer, vpc_id).id)

    def _rule(
        self, meant: RuleDefinition, description: str, tags: Mapping[str, str]
    ) -> SecurityGroupRule:
        return SecurityGroupRule(
            id=api_conventions.new_resource_id(self._context, SECURITY_GROUP_RULE.prefix),
            **meant._asdict(),
            description=description,
            tags=dict(tags),
        )

    def _row(self, group: SecurityGroup, rule: SecurityGroupRule) -> Response:
        return rule_view(rule, group.id, self._context.account)


RULE_FILTERS: Final[FilterFields[tuple[SecurityGroup, SecurityGroupRule]]] = {
    "group-id": lambda pair: (pair[0].id,),
    "security-group-rule-id": lambda pair: (pair[1].id,),
}


def _duplicate_rule(rule: RuleDefinition) -> AwsError:
    ports = "" if rule.first is None else f", from port: {rule.first}, to port: {rule.last}"
    protocol = "ALL" if rule.protocol == "-1" else rule.protocol.upper()
    return AwsError(
        "InvalidPermission.Duplicate",
        f'the specified rule "peer: {rule.peer}, {protocol}{ports}, ALLOW" already exists',
    )
