"""Rules of security groups: added, removed and described. They are stored, and filter no traffic:
tools that set up a network write rules and read them back.
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
"""Per security group and direction."""


class SecurityGroupRules:
    """Without state: rules are part of their security groups."""

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
        """The rules of all groups, by id."""
        groups = self._network.state.groups.values()
        return {each.id: each for group in groups for each in group.rules.values()}

    def add(self, params: Params, *, egress: bool) -> Response:
        """Adds all rules of the request or, on an error, none."""
        check_taggable_types(params, SECURITY_GROUP_RULE.resource)
        group, tags = (
            self._group(params),
            parse_tag_specifications(params, SECURITY_GROUP_RULE.resource),
        )
        known = {rule_definition(each) for each in group.rules.values()}
        rules: list[SecurityGroupRule] = []
        for requested, description in parse_permissions(params, egress):
            definition = self._resolve_peer(requested, group.vpc_id)
            if definition in known:
                raise _duplicate_rule(definition)
            known.add(definition)
            rules.append(self._create_rule(definition, description, tags))
        if sum(each.egress == egress for each in known) > MAX_RULES:
            message = "The maximum number of rules per security group has been reached."
            raise AwsError("RulesPerSecurityGroupLimitExceeded", message)
        group.rules.update((each.id, each) for each in rules)
        return {"Return": True, "SecurityGroupRules": [self._view(group, each) for each in rules]}

    def remove(self, params: Params, *, egress: bool) -> Response:
        group = self._group(params)
        removed = [
            each for each in self._rules_to_remove(params, group, egress) if each.egress == egress
        ]
        for each in removed:
            del group.rules[each.id]
        return {"Return": True}

    def describe(self, params: Params) -> Response:
        rules_by_id = {
            each.id: (group, each)
            for group in self._network.state.groups.values()
            for each in group.rules.values()
        }
        rows = find_by_ids(rules_by_id, params.get("SecurityGroupRuleIds"), SECURITY_GROUP_RULE)
        rows = apply_filters(rows, params.get("Filters"), RULE_FILTERS, lambda pair: pair[1].tags)
        page, token = paginate(rows, params, maximum=MAX_RESULTS)
        return {"SecurityGroupRules": [self._view(*each) for each in page], **token}

    def _group(self, params: Params) -> SecurityGroup:
        """The group of the request, by id, or by name in the default VPC."""
        if params.get("GroupId") or not params.get("GroupName"):
            return self._network.group(params.get("GroupId"))
        return self._network.named_group(params["GroupName"])

    def _rules_to_remove(
        self, params: Params, group: SecurityGroup, egress: bool
    ) -> Iterable[SecurityGroupRule]:
        rule_ids = params.get("SecurityGroupRuleIds")
        if rule_ids:
            return find_by_ids(group.rules, rule_ids, SECURITY_GROUP_RULE)
        known = {rule_definition(each): each for each in group.rules.values()}
        definitions = [
            self._resolve_peer(each, group.vpc_id) for each, _ in parse_permissions(params, egress)
        ]
        if any(each not in known for each in definitions):
            message = "The specified rule does not exist in this security group."
            raise AwsError("InvalidPermission.NotFound", message)
        return [known[each] for each in dict.fromkeys(definitions)]

    def _resolve_peer(self, definition: RuleDefinition, vpc_id: str) -> RuleDefinition:
        """The definition with the id of the peer group in place of its name."""
        if definition.kind is not RulePeer.GROUP:
            return definition
        network = self._network
        if definition.peer.startswith("sg-"):
            return definition._replace(peer=network.group(definition.peer).id)
        return definition._replace(peer=network.named_group(definition.peer, vpc_id).id)

    def _create_rule(
        self, definition: RuleDefinition, description: str, tags: Mapping[str, str]
    ) -> SecurityGroupRule:
        return SecurityGroupRule(
            id=api_conventions.new_resource_id(self._context, SECURITY_GROUP_RULE.prefix),
            **definition._asdict(),
            description=description,
            tags=dict(tags),
        )

    def _view(self, group: SecurityGroup, rule: SecurityGroupRule) -> Response:
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
