"""Rules of security groups on the wire: permissions as they are asked for, and as they are shown.

A permission is a protocol with ports and any number of peers; a rule has exactly one.
"""

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final, NamedTuple, TypeAlias

from wainwright.emulator.ec2.state import GroupRule, Peer, SecurityGroup
from wainwright.emulator.tags import to_list
from wainwright.emulator.world import Answer, Params
from wainwright.errors import AwsError

Permission: TypeAlias = Mapping[str, Any]

ALL: Final = "-1"
PROTOCOLS: Final = {"all": ALL, "1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6"}
PORTED: Final = ("tcp", "udp")
PEERS: Final = {
    Peer.IPV4: ("IpRanges", "CidrIp"),
    Peer.IPV6: ("Ipv6Ranges", "CidrIpv6"),
    Peer.PREFIXES: ("PrefixListIds", "PrefixListId"),
    Peer.GROUP: ("UserIdGroupPairs", "GroupId"),
}
"""Where a permission lists its peers, and what it calls one."""
SIMPLE: Final = ("IpProtocol", "FromPort", "ToPort")


class Said(NamedTuple):
    """A rule without its id: two that say the same are one."""

    egress: bool
    protocol: str
    first: int | None
    last: int | None
    kind: Peer
    peer: str


def first_rules(group: SecurityGroup) -> dict[str, GroupRule]:
    """What a new group allows before anybody says anything; ids follow from its own."""
    peers = [(True, Peer.IPV4, "0.0.0.0/0")]
    if group.name == "default":
        peers.append((False, Peer.GROUP, group.id))
    digits, made = group.id.removeprefix("sg-"), {}
    for turn, (egress, kind, peer) in enumerate(peers):
        identity = f"sgr-{digits[turn:]}{digits[:turn]}"
        made[identity] = GroupRule(id=identity, egress=egress, protocol=ALL, kind=kind, peer=peer)
    return made


def said(rule: GroupRule) -> Said:
    return Said(rule.egress, rule.protocol, rule.first, rule.last, rule.kind, rule.peer)


def asked(params: Params, egress: bool) -> Iterator[tuple[Said, str]]:
    """What a call names, with the description of each."""
    for permission in _permissions(params):
        protocol = _protocol(permission.get("IpProtocol"))
        first, last = _ports(permission, protocol)
        for kind, (field, member) in PEERS.items():
            for each in permission.get(field) or ():
                peer = _peer(kind, each.get(member) or each.get("GroupName") or "")
                made = Said(egress, protocol, first, last, kind, peer)
                yield made, each.get("Description") or ""


def _permissions(params: Params) -> list[Permission]:
    """In full, or one in short."""
    listed = params.get("IpPermissions")
    if listed:
        return list(listed)
    if not params.get("IpProtocol") and not params.get("SourceSecurityGroupName"):
        raise AwsError("MissingParameter", "The request must contain the parameter ipPermissions")
    made: dict[str, Any] = {name: params[name] for name in SIMPLE if name in params}
    made.setdefault("IpProtocol", ALL)
    if params.get("CidrIp"):
        made["IpRanges"] = [{"CidrIp": params["CidrIp"]}]
    if params.get("SourceSecurityGroupName"):
        made["UserIdGroupPairs"] = [{"GroupName": params["SourceSecurityGroupName"]}]
    return [made]


def _protocol(text: str | None) -> str:
    word = (text or "").lower()
    found = PROTOCOLS.get(word, word)
    if found in (ALL, *PROTOCOLS.values()) or (found.isdecimal() and int(found) < 256):
        return found
    raise AwsError(
        "InvalidPermission.Malformed",
        f'Unsupported IP protocol "{text}" - supported: [tcp, udp, icmp, icmpv6, all] or a number',
    )


def _ports(permission: Permission, protocol: str) -> tuple[int | None, int | None]:
    if protocol not in (*PORTED, "icmp", "icmpv6"):
        return None, None
    first, last = permission.get("FromPort"), permission.get("ToPort")
    if protocol not in PORTED:
        return -1 if first is None else first, -1 if last is None else last
    if first is None or last is None:
        raise AwsError("MissingParameter", "Invalid value 'null' for portRange: give both ports")
    if not 0 <= first <= last <= 65535:
        raise AwsError("InvalidParameterValue", f"Invalid TCP/UDP port range ({first}:{last})")
    return first, last


def _peer(kind: Peer, text: str) -> str:
    """Blocks of addresses in their shortest form."""
    if not text:
        raise AwsError("MissingParameter", f"A rule needs a {kind.value}")
    if kind not in (Peer.IPV4, Peer.IPV6):
        return text
    try:
        block = ip_network(text, strict=False)
    except ValueError:
        block = None
    if block is None or block.version != (4 if kind is Peer.IPV4 else 6):
        raise AwsError("InvalidParameterValue", f"CIDR block {text} is malformed")
    return str(block)


def permissions(rules: Iterable[GroupRule], account: str) -> list[Answer]:
    """Rules as a group shows them: those of the same ports together."""
    found: dict[tuple[Any, ...], Answer] = {}
    for rule in rules:
        key = (rule.protocol, rule.first, rule.last)
        if key not in found:
            found[key] = {"IpProtocol": rule.protocol, **_range(rule), **_nobody()}
        field, member = PEERS[rule.kind]
        peer = {member: rule.peer}
        if rule.kind is Peer.GROUP:
            peer["UserId"] = account
        if rule.description:
            peer["Description"] = rule.description
        found[key][field].append(peer)
    return list(found.values())


def _nobody() -> Answer:
    """EC2 shows what there is none of as well."""
    return {field: [] for field, _ in PEERS.values()}


def row(rule: GroupRule, group: str, account: str) -> Answer:
    """A rule by itself."""
    return {
        "SecurityGroupRuleId": rule.id,
        "GroupId": group,
        "GroupOwnerId": account,
        "IsEgress": rule.egress,
        "IpProtocol": rule.protocol,
        "FromPort": -1 if rule.first is None else rule.first,
        "ToPort": -1 if rule.last is None else rule.last,
        **_shown_peer(rule, account),
        **({"Description": rule.description} if rule.description else {}),
        "Tags": to_list(rule.tags),
    }


def _range(rule: GroupRule) -> Answer:
    return {} if rule.first is None else {"FromPort": rule.first, "ToPort": rule.last}


def _shown_peer(rule: GroupRule, account: str) -> Answer:
    match rule.kind:
        case Peer.IPV4:
            return {"CidrIpv4": rule.peer}
        case Peer.IPV6:
            return {"CidrIpv6": rule.peer}
        case Peer.PREFIXES:
            return {"PrefixListId": rule.peer}
        case Peer.GROUP:
            return {"ReferencedGroupInfo": {"GroupId": rule.peer, "UserId": account}}
