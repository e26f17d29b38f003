"""Security groups as data, and their rules in the API: permissions in requests and in responses.

A permission is a protocol with ports and any number of peers; a rule has exactly one.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from ipaddress import ip_network
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.emulator.context import Params, Response
from wainwright.emulator.ec2.tags import to_tag_list
from wainwright.errors import AwsError


class RulePeer(Enum):
    """What a rule allows traffic from or to."""

    IPV4 = "block of addresses"
    IPV6 = "block of IPv6 addresses"
    PREFIXES = "prefix list"
    GROUP = "security group"


class SecurityGroupRule(msgspec.Struct, kw_only=True):
    id: str
    egress: bool
    protocol: str
    """-1: all protocols."""
    first: int | None = None
    last: int | None = None
    """First and last port; None where the protocol has no ports."""
    kind: RulePeer
    peer: str
    description: str = ""
    tags: dict[str, str] = {}


class SecurityGroup(msgspec.Struct, kw_only=True):
    id: str
    name: str
    description: str
    vpc_id: str
    rules: dict[str, SecurityGroupRule] = {}
    tags: dict[str, str] = {}


Permission: TypeAlias = Mapping[str, Any]

ALL_PROTOCOLS: Final = "-1"
PROTOCOL_NAMES: Final = {"all": ALL_PROTOCOLS, "1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6"}
PROTOCOLS_WITH_PORTS: Final = ("tcp", "udp")
PEER_FIELDS: Final = {
    RulePeer.IPV4: ("IpRanges", "CidrIp"),
    RulePeer.IPV6: ("Ipv6Ranges", "CidrIpv6"),
    RulePeer.PREFIXES: ("PrefixListIds", "PrefixListId"),
    RulePeer.GROUP: ("UserIdGroupPairs", "GroupId"),
}
"""By peer type, the list field of a permission and the field of each entry."""
SHORT_FORM_FIELDS: Final = ("IpProtocol", "FromPort", "ToPort")


class RuleDefinition(NamedTuple):
    """A rule without its id; equal definitions are duplicates."""

    egress: bool
    protocol: str
    first: int | None
    last: int | None
    kind: RulePeer
    peer: str


def default_rules(group: SecurityGroup) -> dict[str, SecurityGroupRule]:
    """The rules of a new group; their ids are derived from the group id."""
    peers = [(True, RulePeer.IPV4, "0.0.0.0/0")]
    if group.name == "default":
        peers.append((False, RulePeer.GROUP, group.id))
    digits, rules = group.id.removeprefix("sg-"), {}
    for rotation, (egress, kind, peer) in enumerate(peers):
        identity = f"sgr-{digits[rotation:]}{digits[:rotation]}"
        rules[identity] = SecurityGroupRule(
            id=identity, egress=egress, protocol=ALL_PROTOCOLS, kind=kind, peer=peer
        )
    return rules


def rule_definition(rule: SecurityGroupRule) -> RuleDefinition:
    return RuleDefinition(rule.egress, rule.protocol, rule.first, rule.last, rule.kind, rule.peer)


def parse_permissions(params: Params, egress: bool) -> Iterator[tuple[RuleDefinition, str]]:
    """The rule definitions of a request, with their descriptions."""
    for permission in _listed_permissions(params):
        protocol = _parse_protocol(permission.get("IpProtocol"))
        first, last = _parse_ports(permission, protocol)
        for kind, (field, member) in PEER_FIELDS.items():
            for each in permission.get(field) or ():
                peer = _parse_peer(kind, each.get(member) or each.get("GroupName") or "")
                definition = RuleDefinition(egress, protocol, first, last, kind, peer)
                yield definition, each.get("Description") or ""


def _listed_permissions(params: Params) -> list[Permission]:
    """The permissions of the request: a list, or one in the short form."""
    listed = params.get("IpPermissions")
    if listed:
        return list(listed)
    if not params.get("IpProtocol") and not params.get("SourceSecurityGroupName"):
        raise AwsError("MissingParameter", "The request must contain the parameter ipPermissions")
    permission: dict[str, Any] = {
        name: params[name] for name in SHORT_FORM_FIELDS if name in params
    }
    permission.setdefault("IpProtocol", ALL_PROTOCOLS)
    if params.get("CidrIp"):
        permission["IpRanges"] = [{"CidrIp": params["CidrIp"]}]
    if params.get("SourceSecurityGroupName"):
        permission["UserIdGroupPairs"] = [{"GroupName": params["SourceSecurityGroupName"]}]
    return [permission]


def _parse_protocol(text: str | None) -> str:
    name = (text or "").lower()
    protocol = PROTOCOL_NAMES.get(name, name)
    if protocol in (ALL_PROTOCOLS, *PROTOCOL_NAMES.values()) or (
        protocol.isdecimal() and len(protocol) <= 3 and int(protocol) < 256
    ):
        return protocol
    raise AwsError(
        "InvalidPermission.Malformed",
        f'Unsupported IP protocol "{text}" - supported: [tcp, udp, icmp, icmpv6, all] or a number',
    )


def _parse_ports(permission: Permission, protocol: str) -> tuple[int | None, int | None]:
    if protocol not in (*PROTOCOLS_WITH_PORTS, "icmp", "icmpv6"):
        return None, None
    first, last = permission.get("FromPort"), permission.get("ToPort")
    if protocol not in PROTOCOLS_WITH_PORTS:
        return -1 if first is None else first, -1 if last is None else last
    if first is None or last is None:
        raise AwsError("MissingParameter", "Invalid value 'null' for portRange: give both ports")
    if not 0 <= first <= last <= 65535:
        raise AwsError("InvalidParameterValue", f"Invalid TCP/UDP port range ({first}:{last})")
    return first, last


def _parse_peer(kind: RulePeer, text: str) -> str:
    """The peer, with CIDR blocks in canonical form."""
    if not text:
        raise AwsError("MissingParameter", f"A rule needs a {kind.value}")
    if kind not in (RulePeer.IPV4, RulePeer.IPV6):
        return text
    try:
        block = ip_network(text, strict=False)
    except ValueError:
        block = None
    if block is None or block.version != (4 if kind is RulePeer.IPV4 else 6):
        raise AwsError("InvalidParameterValue", f"CIDR block {text} is malformed")
    return str(block)


def permission_views(rules: Iterable[SecurityGroupRule], account: str) -> list[Response]:
    """Rules as DescribeSecurityGroups returns them: grouped by protocol and ports."""
    views: dict[tuple[Any, ...], Response] = {}
    for rule in rules:
        key = (rule.protocol, rule.first, rule.last)
        if key not in views:
            views[key] = {"IpProtocol": rule.protocol, **_port_range_view(rule), **_empty_peers()}
        field, member = PEER_FIELDS[rule.kind]
        peer = {member: rule.peer}
        if rule.kind is RulePeer.GROUP:
            peer["UserId"] = account
        if rule.description:
            peer["Description"] = rule.description
        views[key][field].append(peer)
    return list(views.values())


def _empty_peers() -> Response:
    """EC2 returns empty lists too."""
    return {field: [] for field, _ in PEER_FIELDS.values()}


def rule_view(rule: SecurityGroupRule, group: str, account: str) -> Response:
    """A rule as DescribeSecurityGroupRules returns it."""
    return {
        "SecurityGroupRuleId": rule.id,
        "GroupId": group,
        "GroupOwnerId": account,
        "IsEgress": rule.egress,
        "IpProtocol": rule.protocol,
        "FromPort": -1 if rule.first is None else rule.first,
        "ToPort": -1 if rule.last is None else rule.last,
        **_peer_view(rule, account),
        **({"Description": rule.description} if rule.description else {}),
        "Tags": to_tag_list(rule.tags),
    }


def _port_range_view(rule: SecurityGroupRule) -> Response:
    return {} if rule.first is None else {"FromPort": rule.first, "ToPort": rule.last}


def _peer_view(rule: SecurityGroupRule, account: str) -> Response:
    match rule.kind:
        case RulePeer.IPV4:
            return {"CidrIpv4": rule.peer}
        case RulePeer.IPV6:
            return {"CidrIpv6": rule.peer}
        case RulePeer.PREFIXES:
            return {"PrefixListId": rule.peer}
        case RulePeer.GROUP:
            return {"ReferencedGroupInfo": {"GroupId": rule.peer, "UserId": account}}
