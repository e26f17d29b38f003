"""Security groups as data, and their rules on the wire: permissions as they are requested, and as
they are described.

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
    """With whom a security group lets machines talk."""

    IPV4 = "block of addresses"
    IPV6 = "block of IPv6 addresses"
    PREFIXES = "prefix list"
    GROUP = "security group"


class SecurityGroupRule(msgspec.Struct, kw_only=True):
    id: str
    egress: bool
    protocol: str
    """-1: all of them."""
    first: int | None = None
    last: int | None = None
    """Ports; none where the protocol has none."""
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
"""Where a permission lists its peers, and what it calls one."""
SHORT_FORM_FIELDS: Final = ("IpProtocol", "FromPort", "ToPort")


class RuleDefinition(NamedTuple):
    """A rule without its id: two that say the same are one."""

    egress: bool
    protocol: str
    first: int | None
    last: int | None
    kind: RulePeer
    peer: str


def default_rules(group: SecurityGroup) -> dict[str, SecurityGroupRule]:
    """What a new group allows before anybody says anything; ids follow from its own."""
    peers = [(True, RulePeer.IPV4, "0.0.0.0/0")]
    if group.name == "default":
        peers.append((False, RulePeer.GROUP, group.id))
    digits, made = group.id.removeprefix("sg-"), {}
    for turn, (egress, kind, peer) in enumerate(peers):
        identity = f"sgr-{digits[turn:]}{digits[:turn]}"
        made[identity] = SecurityGroupRule(
            id=identity, egress=egress, protocol=ALL_PROTOCOLS, kind=kind, peer=peer
        )
    return made


def rule_definition(rule: SecurityGroupRule) -> RuleDefinition:
    return RuleDefinition(rule.egress, rule.protocol, rule.first, rule.last, rule.kind, rule.peer)


def parse_permissions(params: Params, egress: bool) -> Iterator[tuple[RuleDefinition, str]]:
    """What a call names, with the description of each."""
    for permission in _listed_permissions(params):
        protocol = _parse_protocol(permission.get("IpProtocol"))
        first, last = _parse_ports(permission, protocol)
        for kind, (field, member) in PEER_FIELDS.items():
            for each in permission.get(field) or ():
                peer = _parse_peer(kind, each.get(member) or each.get("GroupName") or "")
                made = RuleDefinition(egress, protocol, first, last, kind, peer)
                yield made, each.get("Description") or ""


def _listed_permissions(params: Params) -> list[Permission]:
    """In full, or one in short."""
    listed = params.get("IpPermissions")
    if listed:
        return list(listed)
    if not params.get("IpProtocol") and not params.get("SourceSecurityGroupName"):
        raise AwsError("MissingParameter", "The request must contain the parameter ipPermissions")
    made: dict[str, Any] = {name: params[name] for name in SHORT_FORM_FIELDS if name in params}
    made.setdefault("IpProtocol", ALL_PROTOCOLS)
    if params.get("CidrIp"):
        made["IpRanges"] = [{"CidrIp": params["CidrIp"]}]
    if params.get("SourceSecurityGroupName"):
        made["UserIdGroupPairs"] = [{"GroupName": params["SourceSecurityGroupName"]}]
    return [made]


def _parse_protocol(text: str | None) -> str:
    word = (text or "").lower()
    found = PROTOCOL_NAMES.get(word, word)
    if found in (ALL_PROTOCOLS, *PROTOCOL_NAMES.values()) or (
        found.isdecimal() and int(found) < 256
    ):
        return found
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
    """Blocks of addresses in their shortest form."""
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
    """Rules as a group shows them: those of the same ports together."""
    found: dict[tuple[Any, ...], Response] = {}
    for rule in rules:
        key = (rule.protocol, rule.first, rule.last)
        if key not in found:
            found[key] = {"IpProtocol": rule.protocol, **_port_range_view(rule), **_empty_peers()}
        field, member = PEER_FIELDS[rule.kind]
        peer = {member: rule.peer}
        if rule.kind is RulePeer.GROUP:
            peer["UserId"] = account
        if rule.description:
            peer["Description"] = rule.description
        found[key][field].append(peer)
    return list(found.values())


def _empty_peers() -> Response:
    """EC2 shows what there is none of as well."""
    return {field: [] for field, _ in PEER_FIELDS.values()}


def rule_view(rule: SecurityGroupRule, group: str, account: str) -> Response:
    """A rule by itself."""
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
