"""Resource groups of capacity reservations: created, filled, listed; and EC2's view of them.

Only groups with a configuration are emulated, whose resources are added one by one. A Cloud states
in which groups its reservations are; such a group exists from then on.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import CloudReservation
from wainwright.emulator.api_conventions import (
    CAPACITY_RESERVATION,
    get_by_id,
    make_arn,
    require_text,
)
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination, paginate
from wainwright.emulator.ec2.capacity_reservations.reservation_capacity import CapacityReservation
from wainwright.errors import AwsError

BAD_REQUEST: Final = "BadRequestException"
GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,300}", re.ASCII)
RESERVATION_TYPE: Final = "AWS::EC2::CapacityReservation"
RESOURCE_TYPE_FILTER: Final = "resource-type"
MAX_ARNS: Final = 10
"""In one request that changes a group."""
MAX_GROUPS: Final = 500
"""In one page of EC2's list."""
PAGINATION: Final = ServicePagination(
    size_param="MaxResults",
    token_param="NextToken",
    max_size=50,
    default_size=50,
    invalid_size_code=BAD_REQUEST,
    invalid_token_code=BAD_REQUEST,
)


class ResourceGroup(msgspec.Struct, kw_only=True):
    arn: str
    name: str
    description: str = ""
    configuration: list[dict[str, Any]] = []
    tags: dict[str, str] = {}
    resources: list[str] = []
    """ARNs in the order in which they were added."""


class ResourceGroupsState(msgspec.Struct, kw_only=True):
    groups: dict[str, ResourceGroup] = {}
    """By ARN."""


class ResourceGroups:
    """`find_reservations` returns the capacity reservations of the account, by id."""

    name = "resource-groups"

    def __init__(
        self,
        context: AccountContext,
        find_reservations: Callable[[], Mapping[str, CapacityReservation]],
    ) -> None:
        self.state = ResourceGroupsState()
        self._context = context
        self._find_reservations = find_reservations

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateGroup": self.create_group,
            "DeleteGroup": self.delete_group,
            "GetGroup": self.get_group,
            "GroupResources": self.group_resources,
            "ListGroupResources": self.list_group_resources,
            "ListGroups": self.list_groups,
            "UngroupResources": self.ungroup_resources,
        }

    def seed(self, entries: Iterable[CloudReservation]) -> None:
        """Puts reservations of a Cloud into exactly the groups that it states, if it states any."""
        for entry in entries:
            reservation = self._find_reservations().get(entry.id)
            if reservation is None or entry.groups is None:
                continue
            self.set_groups(reservation, entry.groups)

    def set_groups(self, reservation: CapacityReservation, groups: Iterable[str]) -> None:
        """Puts the reservation into exactly these groups."""
        arn = reservation_arn(reservation, self._context.region)
        for group in self.state.groups.values():
            group.resources = [each for each in group.resources if each != arn]
        for group_arn in groups:
            self._add_group(group_arn).resources.append(arn)

    def groups_of(self, reservation: CapacityReservation) -> list[str]:
        """The ARNs of the groups that the reservation is in."""
        arn = reservation_arn(reservation, self._context.region)
        return [each.arn for each in self.state.groups.values() if arn in each.resources]

    def _add_group(self, arn: str) -> ResourceGroup:
        name = arn.partition(":group/")[2]
        return self.state.groups.setdefault(arn, ResourceGroup(arn=arn, name=name))

    def create_group(self, params: Params) -> Response:
        name = require_text(params, "Name", error_code=BAD_REQUEST)
        if not GROUP_NAME.fullmatch(name) or name.lower().startswith("aws"):
            raise AwsError(BAD_REQUEST, f"{name!r} is not a name for a group.")
        if params.get("ResourceQuery"):
            raise AwsError(BAD_REQUEST, "Groups with a query are not emulated.")
        arn = make_arn(self.name, self._context.region, self._context.account, f"group/{name}")
        if arn in self.state.groups:
            raise AwsError(BAD_REQUEST, f"A group with the name {name} already exists.")
        self.state.groups[arn] = group = ResourceGroup(
            arn=arn,
            name=name,
            description=params.get("Description") or "",
            configuration=list(params.get("Configuration") or ()),
            tags=dict(params.get("Tags") or {}),
        )
        return {
            "Group": _group_view(group),
            "Tags": group.tags,
            "GroupConfiguration": {
                "Configuration": group.configuration,
                "Status": "UPDATE_COMPLETE",
            },
        }

    def get_group(self, params: Params) -> Response:
        return {"Group": _group_view(self._get(params))}

    def delete_group(self, params: Params) -> Response:
        group = self._get(params)
        del self.state.groups[group.arn]
        return {"Group": _group_view(group)}

    def list_groups(self, params: Params) -> Response:
        groups = sorted(self.state.groups.values(), key=lambda each: each.name)
        rows, token = PAGINATION.paginate(groups, params)
        response: Response = {
            "GroupIdentifiers": [{"GroupName": each.name, "GroupArn": each.arn} for each in rows],
            "Groups": [_group_view(each) for each in rows],
        }
        return response if token is None else response | {"NextToken": token}

    def group_resources(self, params: Params) -> Response:
        group = self._get(params)
        known = {
            reservation_arn(each, self._context.region)
            for each in self._find_reservations().values()
        }
        arns = _requested_arns(params)
        added = [arn for arn in arns if arn in known]
        group.resources += [arn for arn in added if arn not in group.resources]
        failed = [
            {"ResourceArn": arn, "ErrorMessage": "Not found", "ErrorCode": "RESOURCE_NOT_FOUND"}
            for arn in arns
            if arn not in known
        ]
        return {"Succeeded": added, "Failed": failed, "Pending": []}

    def ungroup_resources(self, params: Params) -> Response:
        group, arns = self._get(params), _requested_arns(params)
        group.resources = [each for each in group.resources if each not in arns]
        return {"Succeeded": arns, "Failed": [], "Pending": []}

    def list_group_resources(self, params: Params) -> Response:
        arns = self._get(params).resources if _includes_reservations(params) else []
        rows, token = PAGINATION.paginate(arns, params)
        identifiers = [{"ResourceArn": each, "ResourceType": RESERVATION_TYPE} for each in rows]
        response: Response = {
            "Resources": [{"Identifier": each} for each in identifiers],
            "ResourceIdentifiers": identifiers,
            "QueryErrors": [],
        }
        return response if token is None else response | {"NextToken": token}

    def _get(self, params: Params) -> ResourceGroup:
        """The group by name or ARN."""
        identity = params.get("Group") or params.get("GroupName")
        if not identity:
            raise AwsError(BAD_REQUEST, "The request must contain the parameter Group.")
        for group in self.state.groups.values():
            if identity in (group.arn, group.name):
                return group
        raise AwsError("NotFoundException", f"Cannot find the group {identity}.", 404)


def reservation_arn(reservation: CapacityReservation, region: str) -> str:
    return CAPACITY_RESERVATION.arn(region, reservation.owner, reservation.id)


def _group_view(group: ResourceGroup) -> dict[str, Any]:
    return {"GroupArn": group.arn, "Name": group.name, "Description": group.description}


def _requested_arns(params: Params) -> list[str]:
    arns = list(params.get("ResourceArns") or ())
    if not 1 <= len(arns) <= MAX_ARNS:
        raise AwsError(BAD_REQUEST, f"ResourceArns must have between 1 and {MAX_ARNS} members.")
    return arns


def _includes_reservations(params: Params) -> bool:
    filters = params.get("Filters") or ()
    unknown = [each["Name"] for each in filters if each["Name"] != RESOURCE_TYPE_FILTER]
    if unknown:
        raise AwsError(BAD_REQUEST, f"There is no filter {unknown[0]}.")
    return all(RESERVATION_TYPE in each["Values"] for each in filters)


class ReservationGroupsState(msgspec.Struct, kw_only=True):
    """Empty: the data is in the state of resource groups."""


class ReservationGroups:
    """What EC2 says about the groups of a capacity reservation."""

    name = "ec2"

    def __init__(
        self,
        context: AccountContext,
        resource_groups: ResourceGroups,
        find_reservations: Callable[[], Mapping[str, CapacityReservation]],
    ) -> None:
        self.state = ReservationGroupsState()
        self._context = context
        self._resource_groups = resource_groups
        self._find_reservations = find_reservations

    def operations(self) -> Mapping[str, OperationHandler]:
        return {"GetGroupsForCapacityReservation": self.groups_of_reservation}

    def groups_of_reservation(self, params: Params) -> Response:
        """Also of a shared reservation only groups of this account, as there are no others."""
        reservation = get_by_id(
            self._find_reservations(), params.get("CapacityReservationId"), CAPACITY_RESERVATION
        )
        arn = reservation_arn(reservation, self._context.region)
        groups = [
            {"GroupArn": each.arn, "OwnerId": self._context.account}
            for each in self._resource_groups.state.groups.values()
            if arn in each.resources
        ]
        rows, token = paginate(groups, params, maximum=MAX_GROUPS, minimum=1)
        return {"CapacityReservationGroups": rows, **token}
