"""How a capacity reservation is shown, and what the filters of its call look at."""

from typing import Final

from wainwright.emulator import tags
from wainwright.emulator.ec2.lookup import RESERVATION
from wainwright.emulator.ec2.machines import CapacityReservation
from wainwright.emulator.filters import Fields
from wainwright.emulator.times import iso, moment
from wainwright.emulator.world import Answer

FIELDS: Final[Fields[CapacityReservation]] = {
    "availability-zone": lambda each: (each.zone,),
    "availability-zone-id": lambda each: (each.zone_id,),
    "end-date": lambda each: () if each.end is None else (iso(each.end),),
    "end-date-type": lambda each: (_end_type(each),),
    "instance-match-criteria": lambda each: (each.criteria,),
    "instance-platform": lambda each: (each.platform,),
    "instance-type": lambda each: (each.type,),
    "owner-id": lambda each: (each.owner,),
    "start-date": lambda each: (iso(each.start),),
    "state": lambda each: (each.state,),
    "tenancy": lambda each: (each.tenancy,),
}


def shown(reservation: CapacityReservation, region: str) -> Answer:
    answer: Answer = {
        "CapacityReservationId": reservation.id,
        "CapacityReservationArn": RESERVATION.arn(region, reservation.owner, reservation.id),
        "OwnerId": reservation.owner,
        "InstanceType": reservation.type,
        "InstancePlatform": reservation.platform,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": reservation.zone_id,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.total,
        "AvailableInstanceCount": reservation.free if reservation.active else 0,
        "EbsOptimized": reservation.ebs_optimized,
        "EphemeralStorage": False,
        "State": reservation.state,
        "CreateDate": moment(int(reservation.created)),
        "StartDate": moment(int(reservation.start)),
        "EndDateType": _end_type(reservation),
        "InstanceMatchCriteria": reservation.criteria,
        "ReservationType": reservation.kind,
        "Interruptible": reservation.interruptible,
        "Tags": tags.to_list(reservation.tags),
    }
    if reservation.end is not None:
        answer["EndDate"] = moment(int(reservation.end))
    return answer


def _end_type(reservation: CapacityReservation) -> str:
    return "unlimited" if reservation.end is None else "limited"
