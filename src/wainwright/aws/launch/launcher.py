"""The launcher: one CreateFleet call for a batch, from preparation to the last instance assigned.

Compatible requests that arrive at nearly the same time go into one call.

The order of steps is what makes a crash harmless: first the launch templates, then the launch
records on the claims, then the CreateFleet request, then the assignment of its instances to claims.
Whatever is lost on the way, the records on the claims and the tags on the instances lead back to
each other.
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
    FailureKind,
    classify_failure,
    fleet_shortfall_error,
    is_transient,
    to_cloud_error,
)
from wainwright.aws.api.services import AwsResponse, Ec2
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
from wainwright.aws.launch.recovery import LaunchRecovery
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
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
from wainwright.metrics import INSTANCE_LAUNCH_FAILURES, USER_DATA_BYTES, MetricsRegistry
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
    """The instance that was launched for a request."""

    instance: Ec2Instance
    notes: tuple[str, ...] = ()
    """About the selection, and about the request."""


class NoLaunchRecorded(WainError):
    """No claim of the batch got its launch record, so no CreateFleet request was sent."""


class FleetLaunch:
    """One CreateFleet call, from its preparation to the last instance assigned."""

    def __init__(self, deps: LauncherDependencies, fleet_batch: FleetBatch) -> None:
        self._deps = deps
        self._fleet_batch = fleet_batch
        self._records: dict[str, LaunchRecord] = {}
        """By claim, once they are stored; in the order in which instances are assigned."""
        self._not_recorded: dict[str, WainError] = {}
        """Claims whose launch record could not be stored; they are not launched."""
        self._batch = ""
        self._finished = False

    async def run(self) -> list[LaunchResult | WainError]:
        """The outcome of each request, in their order."""
        try:
            fleet_result = await self._launch_with_holds()
        except NoLaunchRecorded:
            return [self._not_recorded[request.claim.uid] for request in self._fleet_batch.requests]
        except AwsError as error:
            return await self._recover_all(error)
        finally:
            self._finish(None)
        return await self._assign_instances(fleet_result)

    async def _launch_with_holds(self) -> CreateFleetResult:
        """Sends the request; addresses and reserved capacity are held for it meanwhile.

        The instances are assigned in `recovery` before the holds end, without an await in between:
        another task never sees the batch as answered but its capacity as still available.
        """
        deps, batch, count = self._deps, self._fleet_batch, len(self._fleet_batch.requests)
        reservation_hold = deps.reservation_holds.hold(batch.reservations, count)
        address_hold = deps.addresses.hold(
            batch.subnets.values(),
            instances=count,
            addresses_per_instance=batch.addresses_per_instance,
        )
        fleet_result = NOTHING_LAUNCHED
        try:
            response = await deps.templates.call_with_templates(batch.templates, self._create_fleet)
            fleet_result = self._response_parser().parse(response)
            self._finish(self._assign(fleet_result))
        finally:
            reserved = [
                each.reservation_id for each in fleet_result.instances if each.reservation_id
            ]
            deps.reservation_holds.release(reservation_hold, reserved)
            deps.addresses.settle(
                address_hold, Counter(each.subnet_id for each in fleet_result.instances)
            )
        return fleet_result

    async def _create_fleet(self) -> AwsResponse:
        """Called again if a template was missing; the launch records are then stored already."""
        if not self._batch:
            await self._record_launches()
        params = create_fleet_request(
            self._fleet_batch.first, self._fleet_batch.configs, self._batch, len(self._records)
        )
        return await self._deps.ec2.create_fleet(params)

    async def _record_launches(self) -> None:
        """Stores the launch records of all claims of the request.

        If some cannot be stored, the others are recorded anew, as a batch without them: the claims
        of a batch that is requested are all in the log, and their indices are without gaps.
        """
        claims = [request.claim for request in self._fleet_batch.requests]
        while claims and not self._records:
            claims = await self._record_batch(claims)
        if not self._records:
            raise NoLaunchRecorded("no claim of the launch could be marked")

    async def _record_batch(self, claims: Sequence[NodeClaim]) -> list[NodeClaim]:
        """The claims whose records were stored; if that is not all, the batch is given up."""
        records = self._deps.recovery.begin(claims)
        self._batch = next(iter(records.values())).batch
        writes = [self._store_record(claim, records[claim.uid]) for claim in claims]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        stored: list[NodeClaim] = []
        for claim, outcome in zip(claims, outcomes, strict=True):
            if isinstance(outcome, WainError):
                self._not_recorded[claim.uid] = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                stored.append(outcome)
        self._deps.recovery.stored({each.uid: records[each.uid] for each in stored})
        if len(stored) == len(claims):
            self._records = records
        else:
            self._deps.recovery.finish(self._batch, {})
            self._batch = ""
        return stored

    async def _store_record(self, claim: NodeClaim, record: LaunchRecord) -> NodeClaim:
        """The claim with its record."""
        await self._deps.launch_log.record(claim.uid, record, replaces=claim.launch_record)
        return msgspec.structs.replace(claim, launch_record=record)

    def _response_parser(self) -> FleetResponseParser:
        batch = self._fleet_batch
        return FleetResponseParser(
            request=batch.first,
            batch=self._batch,
            configs=batch.configs,
            subnets=batch.subnets,
            now=self._deps.clock.now(),
        )

    def _assign(self, fleet_result: CreateFleetResult) -> dict[str, str]:
        """Instances in the order of the response, claims in the order of the batch."""
        pairs = zip(self._records, fleet_result.instances, strict=False)
        return {uid: instance.id for uid, instance in pairs}

    def _finish(self, assigned: dict[str, str] | None) -> None:
        """Reports the end of the launch to `recovery` exactly once; the first report counts."""
        if self._batch and not self._finished:
            self._finished = True
            self._deps.recovery.finish(self._batch, assigned)

    async def _assign_instances(
        self, fleet_result: CreateFleetResult
    ) -> list[LaunchResult | WainError]:
        self._record_failures(fleet_result.failures)
        instances = dict(zip(self._records, fleet_result.instances, strict=False))
        terminations = [
            self._deps.instance_batcher.terminate(surplus.id)
            for surplus in fleet_result.instances[len(instances) :]
        ]
        # A surplus instance that cannot be terminated now is found as garbage later.
        await asyncio.gather(*terminations, return_exceptions=True)
        errors = [each.error for each in fleet_result.failures]
        return [
            self._outcome(request.claim, instances, errors)
            for request in self._fleet_batch.requests
        ]

    @property
    def _notes(self) -> tuple[str, ...]:
        return (*self._fleet_batch.first.selection.notes, *self._fleet_batch.notes)

    def _outcome(
        self, claim: NodeClaim, instances: dict[str, Ec2Instance], errors: list[AwsError]
    ) -> LaunchResult | WainError:
        if claim.uid in self._not_recorded:
            return self._not_recorded[claim.uid]
        if claim.uid in instances:
            return LaunchResult(instance=instances[claim.uid], notes=self._notes)
        return fleet_shortfall_error(errors, f"launching NodeClaim {claim.name}")

    async def _recover_all(self, error: AwsError) -> list[LaunchResult | WainError]:
        """Outcomes after a failed call.

        Its response may have been lost. So instances are searched for, unless no CreateFleet
        request was sent yet, every attempt was throttled, or the error is final.
        """
        refused = classify_failure(error) is FailureKind.REFUSED
        self._finish({} if refused else None)
        if error.code == RESERVATION_CAPACITY_EXCEEDED:
            for reservation in self._fleet_batch.reservations:
                self._deps.availability.mark_exhausted(reservation)
        if not self._batch or refused or not is_transient(error):
            return [
                to_cloud_error(error, f"launching NodeClaim {each.claim.name}")
                for each in self._fleet_batch.requests
            ]
        self._deps.reservation_holds.mark_unclear(self._records, self._fleet_batch.reservations)
        return list(
            await asyncio.gather(
                *(self._recover(each.claim) for each in self._fleet_batch.requests)
            )
        )

    async def _recover(self, claim: NodeClaim) -> LaunchResult | WainError:
        if claim.uid in self._not_recorded:
            return self._not_recorded[claim.uid]
        recorded_claim = msgspec.structs.replace(claim, launch_record=self._records[claim.uid])
        try:
            instance = await self._deps.recovery.find(recorded_claim)
        except AwsError as error:
            return to_cloud_error(error, f"looking for the instance of {claim.name}")
        except WainError as error:
            return error
        self._deps.reservation_holds.resolve_unclear(
            claim.uid, instance.reservation_id if instance else ""
        )
        if instance is None:
            return TemporarilyUnavailableError(
                f"launching NodeClaim {claim.name}: nothing came of it", reason="NotLaunched"
            )
        return LaunchResult(instance=instance, notes=self._notes)

    def _record_failures(self, failures: Sequence[FleetError]) -> None:
        """Marks offerings without capacity as unavailable, and counts the failures."""
        for each in failures:
            self._mark_unavailable(each)
            subnet = self._fleet_batch.subnets.get(each.zone)
            self._deps.metrics.add(
                INSTANCE_LAUNCH_FAILURES,
                zone=each.zone,
                zone_id=subnet.zone_id if subnet else "",
                capacity_type=self._fleet_batch.first.selection.capacity_type,
                reason=each.error.code,
            )

    def _mark_unavailable(self, failure: FleetError) -> None:
        unavailable_offerings, code = self._deps.unavailable_offerings, failure.error.code
        if code == RESERVATION_CAPACITY_EXCEEDED:
            parser = self._response_parser()
            reservation = parser.reservation_of(failure.instance_type, failure.zone)
            self._deps.availability.mark_exhausted(reservation)
        elif code == INSUFFICIENT_ADDRESSES and failure.subnet:
            unavailable_offerings.mark_subnet(failure.subnet)
        elif code == SPOT_ROLE_MISSING:
            unavailable_offerings.mark_capacity_type(SPOT)
        elif code in CAPACITY_ERRORS and failure.instance_type:
            unavailable_offerings.mark(
                failure.instance_type,
                failure.zone,
                self._fleet_batch.first.selection.capacity_type,
            )


class Launcher:
    """Collects requests for a moment, and launches those with the same key in one call."""

    def __init__(self, deps: LauncherDependencies) -> None:
        self._deps = deps
        self._batcher: Batcher[LaunchRequest, LaunchResult] = Batcher(
            deps.clock,
            CREATE_FLEET_WINDOW,
            self._launch_batch,
            key=lambda request: request.key,
            on_executed=batch_metrics(deps.metrics, "create_fleet"),
        )

    async def launch(self, request: LaunchRequest) -> LaunchResult:
        return await self._batcher.add(request)

    async def _launch_batch(
        self, requests: Sequence[LaunchRequest]
    ) -> list[LaunchResult | WainError]:
        batches = self._fleet_batches(requests)
        outcomes = await asyncio.gather(*(FleetLaunch(self._deps, each).run() for each in batches))
        return [
            *(outcome for results in outcomes for outcome in results),
            *map(_reservation_full_error, batches[-1].without_capacity),
        ]

    def _fleet_batches(self, requests: Sequence[LaunchRequest]) -> list[FleetBatch]:
        """Usually one. A request can name a type in a zone for one reservation only: what does not
        fit into the most available one goes into another of the same type and zone.
        """
        deps, planned = self._deps, Counter[str]()

        def available_count(reservation: str) -> int:
            held = deps.reservation_holds.available_count(reservation)
            return max(0, held - planned[reservation])

        batches = [build_fleet_batch(requests, deps.addresses, available_count)]
        size = max(config.template.user_data_size for config in batches[0].configs)
        deps.metrics.set(USER_DATA_BYTES, size, nodeclass=requests[0].claim.node_class)
        while batches[-1].without_capacity:
            last = batches[-1]
            planned.update({each: len(last.requests) for each in last.reservations})
            try:
                remaining = last.without_capacity
                batches.append(build_fleet_batch(remaining, deps.addresses, available_count))
            except InsufficientCapacityError:
                break
        return batches


def _reservation_full_error(request: LaunchRequest) -> InsufficientCapacityError:
    name = request.claim.name
    message = f"{name}: the capacity reservations that it may use are taken by other launches"
    return InsufficientCapacityError(message, reason=RESERVATION_CAPACITY_EXCEEDED)
