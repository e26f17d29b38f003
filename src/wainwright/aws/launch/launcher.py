"""The launcher: one CreateFleet call for a batch, from preparation to the last instance assigned.

Requests that come at nearly the same time and are alike go into one call.

The order of things is what makes a crash harmless: launch templates, then the launch records on the
claims, then the request, then its instances assigned to claims. Whatever is lost on the way, the
records on the claims and the tags on the instances lead back to each other.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from wainwright.aws.api.batching import CREATE_FLEET_WINDOW, Batcher, batch_metrics
from wainwright.aws.api.error_codes import (
    CAPACITY_ERRORS,
    INSUFFICIENT_ADDRESSES,
    RESERVATION_CAPACITY_EXCEEDED,
    SPOT_ROLE_MISSING,
    fleet_shortfall_error,
    is_transient,
    to_cloud_error,
)
from wainwright.aws.api.seam import AwsResponse
from wainwright.aws.api.services import Ec2
from wainwright.aws.instances import Ec2Instance, InstanceBatcher
from wainwright.aws.instancetypes.unavailable_offerings import UnavailableOfferings
from wainwright.aws.launch.create_fleet import (
    CreateFleetResult,
    FleetBatch,
    FleetError,
    FleetResponseParser,
    build_fleet_batch,
    create_fleet_request,
)
from wainwright.aws.launch.launch_request import LaunchRequest
from wainwright.aws.launch.recovery import LaunchRecovery, launch_records
from wainwright.aws.launchtemplate.template_provider import LaunchTemplateProvider
from wainwright.aws.nodeclass.network import SubnetAddresses
from wainwright.aws.reservation_availability import ReservationAvailability, ReservationHolds
from wainwright.clock import Clock
from wainwright.cloud import LaunchLog
from wainwright.errors import (
    AwsError,
    InsufficientCapacityError,
    TemporarilyUnavailableError,
    WainError,
)
from wainwright.metrics import INSTANCE_LAUNCH_FAILURES, MetricsRegistry
from wainwright.model.labels import SPOT
from wainwright.model.node_claim import LaunchRecord, NodeClaim

NOTHING_LAUNCHED: Final = CreateFleetResult(instances=(), failures=())


class LauncherDependencies(msgspec.Struct, frozen=True, kw_only=True):
    """What all launches share."""

    ec2: Ec2
    instance_batcher: InstanceBatcher
    templates: LaunchTemplateProvider
    recovery: LaunchRecovery
    launch_log: LaunchLog
    clock: Clock
    metrics: MetricsRegistry
    unavailable_offerings: UnavailableOfferings
    addresses: SubnetAddresses
    reservation_holds: ReservationHolds
    availability: ReservationAvailability


class LaunchResult(msgspec.Struct, frozen=True, kw_only=True):
    """An instance that was bought for an order."""

    instance: Ec2Instance
    notes: tuple[str, ...] = ()


class NoLaunchRecorded(WainError):
    """Not one claim could be marked, and so nothing was asked for."""


class FleetLaunch:
    """One request, from its first preparation to the last instance dealt out."""

    def __init__(self, deps: LauncherDependencies, fleet_batch: FleetBatch) -> None:
        self._deps = deps
        self._fleet_batch = fleet_batch
        self._records: dict[str, LaunchRecord] = {}
        """By claim; once they are written down."""
        self._not_recorded: dict[str, WainError] = {}
        """Claims that could not be marked, and so are not launched."""
        self._batch = ""
        self._ended = False

    async def run(self) -> list[LaunchResult | WainError]:
        """What came of each order, in their order."""
        try:
            fleet_result = await self._held()
        except NoLaunchRecorded:
            return [self._not_recorded[request.claim.uid] for request in self._fleet_batch.requests]
        except AwsError as error:
            return await self._failed(error)
        finally:
            self._end(None)
        return await self._assign_instances(fleet_result)

    async def _held(self) -> CreateFleetResult:
        """The request, with addresses and reservations held for it meanwhile."""
        deps, made, count = self._deps, self._fleet_batch, len(self._fleet_batch.requests)
        places = deps.reservation_holds.hold(made.reservations, count)
        addresses = deps.addresses.hold(made.subnets.values(), instances=count, each=made.addresses)
        fleet_result = NOTHING_LAUNCHED
        try:
            response = await deps.templates.launch(made.templates, self._ask)
            fleet_result = self._response_parser().read(response)
            self._end(self._assign(fleet_result))
        finally:
            reserved = [
                each.reservation_id for each in fleet_result.instances if each.reservation_id
            ]
            deps.reservation_holds.release(places, reserved)
            deps.addresses.settle(
                addresses, Counter(each.subnet_id for each in fleet_result.instances)
            )
        return fleet_result

    async def _ask(self) -> AwsResponse:
        """To be repeated where a template was missing; what is written down stays."""
        if not self._batch:
            await self._record()
        request = self._fleet_batch.first
        params = create_fleet_request(
            request, self._fleet_batch.configs, self._batch, len(self._records)
        )
        return await self._deps.ec2.create_fleet(params)

    async def _record(self) -> None:
        claims = [request.claim for request in self._fleet_batch.requests]
        planned = launch_records(claims, self._deps.clock.now())
        self._batch = planned[0].batch
        named = {claim.uid: mark for claim, mark in zip(claims, planned, strict=True)}
        self._deps.recovery.begin(named)
        written = [self._deps.launch_log.record(uid, mark) for uid, mark in named.items()]
        for uid, outcome in zip(
            named, await asyncio.gather(*written, return_exceptions=True), strict=True
        ):
            if isinstance(outcome, WainError):
                self._not_recorded[uid] = outcome
            elif outcome is not None:
                raise outcome
            else:
                self._records[uid] = named[uid]
        if not self._records:
            self._end({})
            raise NoLaunchRecorded("no claim of the launch could be marked")

    def _response_parser(self) -> FleetResponseParser:
        made = self._fleet_batch
        return FleetResponseParser(
            request=made.first,
            batch=self._batch,
            configs=made.configs,
            subnets=made.subnets,
            now=self._deps.clock.now(),
        )

    def _assign(self, fleet_result: CreateFleetResult) -> dict[str, str]:
        """Instances in the order of the answer, claims in the order of the batch."""
        pairs = zip(self._records, fleet_result.instances, strict=False)
        return {uid: instance.id for uid, instance in pairs}

    def _end(self, assigned: dict[str, str] | None) -> None:
        """Said once, and whatever happens: the first word counts."""
        if self._batch and not self._ended:
            self._ended = True
            self._deps.recovery.end(self._batch, assigned)

    async def _assign_instances(
        self, fleet_result: CreateFleetResult
    ) -> list[LaunchResult | WainError]:
        self._note(fleet_result.failures)
        instances = dict(zip(self._records, fleet_result.instances, strict=False))
        going = [
            self._deps.instance_batcher.terminate(e.id)
            for e in fleet_result.instances[len(instances) :]
        ]
        await asyncio.gather(*going, return_exceptions=True)  # what stays is garbage later
        errors = [each.error for each in fleet_result.failures]
        return [
            self._outcome(request.claim, instances, errors)
            for request in self._fleet_batch.requests
        ]

    def _outcome(
        self, claim: NodeClaim, instances: dict[str, Ec2Instance], errors: list[AwsError]
    ) -> LaunchResult | WainError:
        if claim.uid in self._not_recorded:
            return self._not_recorded[claim.uid]
        if claim.uid in instances:
            return LaunchResult(instance=instances[claim.uid], notes=self._fleet_batch.notes)
        return fleet_shortfall_error(errors, f"launching {claim.name}")

    async def _failed(self, error: AwsError) -> list[LaunchResult | WainError]:
        """What the last try met says nothing about those before: their answers may have got lost.

        So instances are looked for, unless EC2 was asked for none yet, or will not be again.
        """
        self._end(None)
        if not self._batch or not is_transient(error):
            return [
                to_cloud_error(error, f"launching {each.claim.name}")
                for each in self._fleet_batch.requests
            ]
        self._deps.reservation_holds.mark_unclear(self._records, self._fleet_batch.reservations)
        return list(
            await asyncio.gather(*(self._found(each.claim) for each in self._fleet_batch.requests))
        )

    async def _found(self, claim: NodeClaim) -> LaunchResult | WainError:
        if claim.uid in self._not_recorded:
            return self._not_recorded[claim.uid]
        marked = msgspec.structs.replace(claim, launch_record=self._records[claim.uid])
        try:
            instance = await self._deps.recovery.find(marked)
        except AwsError as error:
            return to_cloud_error(error, f"looking for the machine of {claim.name}")
        except WainError as error:
            return error
        self._deps.reservation_holds.clear(claim.uid, instance.reservation_id if instance else "")
        if instance is None:
            return TemporarilyUnavailableError(
                f"launching {claim.name}: nothing came of it", reason="NotLaunched"
            )
        return LaunchResult(instance=instance, notes=self._fleet_batch.notes)

    def _note(self, failures: Sequence[FleetError]) -> None:
        """Remembers what was not to be had."""
        for each in failures:
            self._mark(each)
            zone = self._fleet_batch.subnets.get(each.zone)
            self._deps.metrics.add(
                INSTANCE_LAUNCH_FAILURES,
                zone=each.zone,
                zone_id=zone.zone_id if zone else "",
                capacity_type=self._fleet_batch.first.choice.capacity_type,
                reason=each.error.code,
            )

    def _mark(self, pool: FleetError) -> None:
        unavailable_offerings, code = self._deps.unavailable_offerings, pool.error.code
        if code == RESERVATION_CAPACITY_EXCEEDED:
            reservation = self._response_parser().reservation(pool.instance_type, pool.zone)
            self._deps.availability.exceeded(reservation)
        elif code == INSUFFICIENT_ADDRESSES and pool.subnet:
            unavailable_offerings.mark_subnet(pool.subnet)
        elif code == SPOT_ROLE_MISSING:
            unavailable_offerings.mark_capacity_type(SPOT)
        elif code in CAPACITY_ERRORS and pool.instance_type:
            unavailable_offerings.mark(
                pool.instance_type, pool.zone, self._fleet_batch.first.choice.capacity_type
            )


class Launcher:
    """Collects orders for a moment, and has those bought together that are alike."""

    def __init__(self, deps: LauncherDependencies) -> None:
        self._deps = deps
        self._batcher: Batcher[LaunchRequest, LaunchResult] = Batcher(
            deps.clock,
            CREATE_FLEET_WINDOW,
            self._buy,
            key=lambda request: request.key,
            watch=batch_metrics(deps.metrics, "create_fleet"),
        )

    async def buy(self, request: LaunchRequest) -> LaunchResult:
        return await self._batcher.add(request)

    async def _buy(self, requests: Sequence[LaunchRequest]) -> list[LaunchResult | WainError]:
        made = build_fleet_batch(requests, self._deps.addresses, self._deps.reservation_holds)
        return [
            *await FleetLaunch(self._deps, made).run(),
            *map(_reservation_full_error, made.late),
        ]


def _reservation_full_error(request: LaunchRequest) -> InsufficientCapacityError:
    message = f"{request.claim.name}: the reservations that it may use are taken by other launches"
    return InsufficientCapacityError(message, reason=RESERVATION_CAPACITY_EXCEEDED)
