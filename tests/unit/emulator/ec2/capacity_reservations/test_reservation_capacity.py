"""No reservation is ever used beyond its size, and no instance is counted twice."""

from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from tests.support.emulator_launches import (
    USE_RESERVATIONS_FIRST,
    A,
    B,
    LaunchAccount,
    capacity_rule,
    cloud_reservation,
    launched_ids,
)

from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

KINDS = ("m5.large", "c5.large")
ZONES = (A, B)
FREE_CAPACITY = 6  # instances per offering in addition to the capacity of the first reservations
PREFERENCES = (None, "open", "none", "capacity-reservations-only")


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet request."""

    kind: str
    zones: tuple[str, ...]
    count: int
    target_index: int | None
    """Index of the reservation that its template targets."""
    preference: str | None
    first: bool
    capacity_type: str


LAUNCH_REQUESTS = st.builds(
    LaunchRequest,
    kind=st.sampled_from(KINDS),
    zones=st.sampled_from([(A,), (B,), ZONES]),
    count=st.integers(1, 4),
    target_index=st.none() | st.integers(0, 9),
    preference=st.sampled_from(PREFERENCES),
    first=st.booleans(),
    capacity_type=st.sampled_from(["on-demand", "on-demand", "spot"]),
)


class ReservationRules(RuleBasedStateMachine):
    """An account with scarce capacity and many launches."""

    def __init__(self) -> None:
        super().__init__()
        rules = tuple(capacity_rule(FREE_CAPACITY, kind, zone) for kind in KINDS for zone in ZONES)
        self.account = LaunchAccount(
            cloud_reservation(1, total=3, available=2, instanceMatchCriteria="open"),
            cloud_reservation(2, "c5.large", B, total=2, endTime=iso_timestamp(EPOCH + 5000)),
            settings=EmulatorSettings(capacity_rules=rules),
        )
        self.templates = 0

    @rule(request=LAUNCH_REQUESTS)
    def launch(self, request: LaunchRequest) -> None:
        self.templates += 1
        known = list(self.account.cloud.services.reservations.state.reservations)
        target = None if request.target_index is None else known[request.target_index % len(known)]
        name = self.account.template_with_target(
            f"template-{self.templates}", target, request.preference
        )
        config = self.account.config(
            *((request.kind, zone) for zone in request.zones), template=name
        )
        response = self.account.fleet(
            config,
            count=request.count,
            capacity_type=request.capacity_type,
            OnDemandOptions=USE_RESERVATIONS_FIRST if request.first else {},
        )
        got = launched_ids(response)
        assert len(got) == request.count or response["Errors"]
        if target is not None and request.preference != "none":
            assert all(self.account.reservation_of(each) == target for each in got)
        if request.preference == "none":
            assert all(self.account.reservation_of(each) is None for each in got)

    @rule(
        kind=st.sampled_from(KINDS),
        zone=st.sampled_from(ZONES),
        count=st.integers(1, 3),
        criteria=st.sampled_from(["open", "targeted"]),
    )
    def reserve(self, kind: str, zone: str, count: int, criteria: str) -> None:
        self.attempt(
            lambda: self.account.call(
                "CreateCapacityReservation",
                InstanceType=kind,
                InstancePlatform="Linux/UNIX",
                AvailabilityZone=zone,
                InstanceCount=count,
                InstanceMatchCriteria=criteria,
            )
        )

    @rule(which=st.integers(0, 9), count=st.integers(1, 5))
    def resize(self, which: int, count: int) -> None:
        self.attempt(
            lambda: self.account.call(
                "ModifyCapacityReservation",
                CapacityReservationId=self.pick(which),
                InstanceCount=count,
            )
        )

    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        self.attempt(
            lambda: self.account.call(
                "CancelCapacityReservation", CapacityReservationId=self.pick(which)
            )
        )

    @rule(which=st.integers(0, 30))
    def terminate(self, which: int) -> None:
        known = list(self.account.cloud.services.instances.state.instances)
        if known:
            self.attempt(
                lambda: self.account.call(
                    "TerminateInstances", InstanceIds=[known[which % len(known)]]
                )
            )

    @rule(which=st.integers(0, 30), target_index=st.none() | st.integers(0, 9))
    def attach(self, which: int, target_index: int | None) -> None:
        known = list(self.account.cloud.services.instances.state.instances)
        if known:
            content: dict[str, object] = {"CapacityReservationPreference": "none"}
            if target_index is not None:
                target = {"CapacityReservationId": self.pick(target_index)}
                content = {"CapacityReservationTarget": target}
            self.attempt(
                lambda: self.account.call(
                    "ModifyInstanceCapacityReservationAttributes",
                    InstanceId=known[which % len(known)],
                    CapacityReservationSpecification=content,
                )
            )

    @rule(seconds=st.sampled_from([1, 30, 1000, 4000]))
    def wait(self, seconds: int) -> None:
        self.account.wait(seconds)

    def pick(self, which: int) -> str:
        known = list(self.account.cloud.services.reservations.state.reservations)
        return known[which % len(known)]

    def attempt(self, act: Callable[[], object]) -> None:
        """The request may fail; the invariants must hold afterwards."""
        try:
            act()
        except AwsError:
            return

    @invariant()
    def reservations_hold_what_is_in_them(self) -> None:
        self.account.describe()  # handles due events
        parts = self.account.cloud.services
        inside: dict[str, int] = {}
        for each in parts.instances.list_alive():
            if each.reservation is not None:
                inside[each.reservation] = inside.get(each.reservation, 0) + 1
        for held in parts.reservations.state.reservations.values():
            assert held.used == inside.pop(held.id, 0)
            assert 0 <= held.used + held.used_by_others <= held.total
            assert held.active or not held.used
        assert not inside

    @invariant()
    def no_instance_comes_from_nowhere(self) -> None:
        parts = self.account.cloud.services
        for kind in KINDS:
            for zone in ZONES:
                free = parts.capacity_market.free(kind, zone, "on-demand")
                outside = sum(
                    (each.type, each.zone, each.lifecycle, each.reservation)
                    == (kind, zone, "on-demand", None)
                    for each in parts.instances.list_alive()
                )
                held = sum(
                    each.total - each.used_by_others
                    for each in parts.reservations.state.reservations.values()
                    if each.active and (each.type, each.zone) == (kind, zone)
                )
                first = {("m5.large", A): 2, ("c5.large", B): 2}.get((kind, zone), 0)
                assert free is not None
                assert free + outside + held == FREE_CAPACITY + first


def test_no_reservation_is_ever_overcommitted() -> None:
    run_state_machine_as_test(
        ReservationRules,
        settings=settings(max_examples=12, stateful_step_count=20, deadline=None),
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 6))
def test_a_reservation_holds_as_many_instances_as_its_size(launches: list[int], room: int) -> None:
    account = LaunchAccount(
        cloud_reservation(1, total=6, available=room, instanceMatchCriteria="open")
    )
    instances = [each for count in launches for each in account.launch(count=count)]
    inside = [each for each in instances if account.reservation_of(each) is not None]
    assert len(inside) == min(room, len(instances))
    assert account.free("cr-00000001") == room - len(inside)
