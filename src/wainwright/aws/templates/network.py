"""Network: the interfaces that a machine is launched with."""

from collections.abc import Sequence
from typing import Any

from wainwright.api.ec2nodeclass import ConnectionTracking, EC2NodeClassSpec
from wainwright.aws.wire import Row


def interfaces(
    spec: EC2NodeClassSpec, groups: Sequence[str], *, efa: int = 0, ipv6: bool = False
) -> list[Row]:
    """Those that the class lists; else as many for EFA as wanted; else one.

    Security groups stand here and not beside: EC2 takes them in one place only.
    """
    made = [each | {"Groups": sorted(groups)} for each in _places(spec, efa)]
    for number, each in enumerate(made):
        if each.get("InterfaceType") != "efa-only":  # such a one has no address
            each.update(_addresses(spec, ipv6, primary=number == 0), **_tracking(spec))
    if len(made) == 1 and spec.associatePublicIPAddress is not None:
        # EC2 gives no public address to a machine that is launched with several interfaces.
        made[0]["AssociatePublicIpAddress"] = spec.associatePublicIPAddress
    return made


def _places(spec: EC2NodeClassSpec, efa: int) -> list[Row]:
    """The primary one first. On further cards device 0 is left free: it would be primary too."""
    if spec.networkInterfaces:
        listed = sorted(spec.networkInterfaces, key=lambda i: (i.networkCardIndex, i.deviceIndex))
        return [
            {
                "NetworkCardIndex": each.networkCardIndex,
                "DeviceIndex": each.deviceIndex,
                "InterfaceType": each.interfaceType,
            }
            for each in listed
        ]
    return [
        {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"}
        for card in range(efa)
    ] or [{"DeviceIndex": 0}]


def _addresses(spec: EC2NodeClassSpec, ipv6: bool, *, primary: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if ipv6 and primary:
        made |= {"Ipv6AddressCount": 1, "PrimaryIpv6": True}
    if spec.ipPrefixCount is not None:
        made["Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount"] = spec.ipPrefixCount
    return made


def _tracking(spec: EC2NodeClassSpec) -> dict[str, Any]:
    given = spec.connectionTracking or ConnectionTracking()
    stated = {
        "TcpEstablishedTimeout": given.tcpEstablishedTimeout,
        "UdpStreamTimeout": given.udpStreamTimeout,
        "UdpTimeout": given.udpTimeout,
    }
    found = {name: value for name, value in stated.items() if value is not None}
    return {"ConnectionTrackingSpecification": found} if found else {}
