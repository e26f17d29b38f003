"""Where a launch puts its machines: the subnet that it names, or one of the default network."""

from collections.abc import Mapping
from typing import Any

from wainwright.emulator.ec2.goods import Goods
from wainwright.emulator.ec2.network import Network
from wainwright.emulator.ec2.state import Subnet
from wainwright.errors import AwsError


class Places:
    def __init__(self, goods: Goods, network: Network) -> None:
        self._goods = goods
        self._network = network

    def subnet(self, *said: Mapping[str, Any]) -> Subnet:
        """By what the request says first and its template after that."""
        zone = self._zone(said)
        for each in said:
            named = each.get("SubnetId") or _of_interfaces(each)
            if named:
                return _agreeing(self._network.subnet(named), zone)
        return self._default(zone)

    def _zone(self, said: tuple[Mapping[str, Any], ...]) -> str | None:
        for each in said:
            placement = each.get("Placement") or {}
            for where in (each, placement):
                zone, identity = where.get("AvailabilityZone"), where.get("AvailabilityZoneId")
                if zone or identity:
                    return self._known(zone or self._goods.zone_names.get(identity or ""), identity)
        return None

    def _known(self, zone: str | None, identity: str | None) -> str:
        if zone is None or zone not in self._goods.zones:
            raise AwsError(
                "InvalidParameterValue", f"Invalid availability zone: [{zone or identity}]"
            )
        return zone

    def _default(self, zone: str | None) -> Subnet:
        state = self._network.state
        homes = {each.id for each in state.vpcs.values() if each.default}
        if not homes:
            raise AwsError("VPCIdNotSpecified", "No default VPC for this user. Name a subnet.")
        for each in state.subnets.values():
            if each.vpc_id in homes and zone in (None, each.zone):
                return each
        where = "" if zone is None else f" in Availability Zone {zone}"
        raise AwsError("MissingInput", f"No subnets found for the default VPC{where}.")


def _of_interfaces(said: Mapping[str, Any]) -> str | None:
    for each in said.get("NetworkInterfaces") or ():
        if each.get("SubnetId"):
            return str(each["SubnetId"])
    return None


def _agreeing(subnet: Subnet, zone: str | None) -> Subnet:
    if zone not in (None, subnet.zone):
        raise AwsError(
            "InvalidParameterValue",
            f"The subnet '{subnet.id}' is not in the Availability Zone {zone}.",
        )
    return subnet
