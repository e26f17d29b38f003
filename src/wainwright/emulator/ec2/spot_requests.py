"""Requests for spot capacity: each machine that was bought as spot shows the one it came with."""

from collections.abc import Mapping
from typing import Final

from wainwright.emulator.ec2.catalogue import NoState
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.lifecycle import BY_USER
from wainwright.emulator.ec2.lookup import SPOT_REQUEST, named
from wainwright.emulator.ec2.machines import ON_DEMAND, Instance
from wainwright.emulator.ec2.prices import Shop
from wainwright.emulator.filters import Fields, matching
from wainwright.emulator.paging import page
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, Handler, Params

MOST: Final = 1000
FULFILLED: Final = "fulfilled"
ENDED: Final = {BY_USER: "instance-terminated-by-user"}
TAKEN_BACK: Final = "instance-terminated-no-capacity"

FIELDS: Final[Fields[Instance]] = {
    "instance-id": lambda each: (each.id,),
    "launch.instance-type": lambda each: (each.type,),
    "launched-availability-zone": lambda each: (each.zone,),
    "spot-instance-request-id": lambda each: (each.spot_request or "",),
    "state": lambda each: (_state(each),),
    "status-code": lambda each: (_status(each),),
    "type": lambda _: ("one-time",),
}


class SpotRequests:
    """Has no state of its own: a request lives as long as its machine is remembered."""

    name = "ec2"

    def __init__(self, instances: Instances, shop: Shop) -> None:
        self.state = NoState()
        self._instances = instances
        self._shop = shop

    def operations(self) -> Mapping[str, Handler]:
        return {"DescribeSpotInstanceRequests": self.describe}

    def describe(self, params: Params) -> Answer:
        known = {
            each.spot_request: each
            for each in self._instances.visible()
            if each.spot_request is not None
        }
        rows = named(known, params.get("SpotInstanceRequestIds"), SPOT_REQUEST)
        found = matching(rows, params.get("Filters"), FIELDS)
        shown, token = page(found, params, most=MOST)
        return {"SpotInstanceRequests": [self._shown(each) for each in shown], **token}

    def _shown(self, each: Instance) -> Answer:
        """Nobody pays more than on demand, which is also what is offered where nothing is said."""
        build, launched = self._instances.build_of(each), moment(int(each.launched))
        most = self._shop.price(each.type, each.zone, ON_DEMAND)
        return {
            "SpotInstanceRequestId": each.spot_request,
            "InstanceId": each.id,
            "State": _state(each),
            "Status": {"Code": _status(each), "Message": "", "UpdateTime": launched},
            "Type": "one-time",
            "CreateTime": launched,
            "InstanceInterruptionBehavior": "terminate",
            "LaunchedAvailabilityZone": each.zone,
            "LaunchedAvailabilityZoneId": each.zone_id,
            "ProductDescription": build.platform,
            "LaunchSpecification": {
                "ImageId": build.image,
                "InstanceType": each.type,
                "SubnetId": each.subnet,
                "Placement": {"AvailabilityZone": each.zone, "Tenancy": build.tenancy},
            },
            **({} if most is None else {"SpotPrice": f"{most:.6f}"}),
        }


def _state(instance: Instance) -> str:
    return "active" if instance.alive else "closed"


def _status(instance: Instance) -> str:
    return FULFILLED if instance.alive else ENDED.get(instance.reason, TAKEN_BACK)
