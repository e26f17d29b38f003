"""Whatever happens, no reservation is used beyond its size and no machine is counted twice."""

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
    capacity_stock,
    cloud_reservation,
    launched_ids,
)

from wainwright.clock import EPOCH
from wainwright.emulator.api_conventions import iso_timestamp
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

KINDS = ("m5.large", "c5.large")
ZONES = (A, B)
STOCK = 6  # machines that there are of each pool beside what the first reservations hold
PREFERENCES = (None, "open", "none", "capacity-reservations-only")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet."""

    kind: str
    zones: tuple[str, ...]
    count: int
    aim: int | None
    """Which reservation its template names."""
    preference: str | None
    first: bool
    market: str


WISHES = st.builds(
    Wish,
    kind=st.sampled_from(KINDS),
    zones=st.sampled_from([(A,), (B,), ZONES]),
    count=st.integers(1, 4),
    aim=st.none() | st.integers(0, 9),
    preference=st.sampled_from(PREFERENCES),
    first=st.booleans(),
    market=st.sampled_from(["on-demand", "on-demand", "spot"]),
)


class Life(RuleBasedStateMachine):
    """An account with few machines and many who want them."""

    def __init__(self) -> None:
        super().__init__()
        rules = tuple(capacity_stock(STOCK, kind, zone) for kind in KINDS for zone in ZONES)
        self.yard = LaunchAccount(
            cloud_reservation(1, total=3, available=2, instanceMatchCriteria="open"),
            cloud_reservation(2, "c5.large", B, total=2, endTime=iso_timestamp(EPOCH + 5000)),
            settings=EmulatorSettings(capacity_rules=rules),
        )
        self.templates = 0

    @rule(wish=WISHES)
    def launch(self, wish: Wish) -> None:
        self.templates += 1
        known = list(self.yard.cloud.services.reservations.state.reservations)
        target = None if wish.aim is None else known[wish.aim % len(known)]
        name = self.yard.aiming(f"template-{self.templates}", target, wish.preference)
        config = self.yard.config(*((wish.kind, zone) for zone in wish.zones), template=name)
        answer = self.yard.fleet(
            config,
            count=wish.count,
            market=wish.market,
            OnDemandOptions=USE_RESERVATIONS_FIRST if wish.first else {},
        )
        got = launched_ids(answer)
        assert len(got) == wish.count or answer["Errors"]
        if target is not None and wish.preference != "none":
            assert all(self.yard.inside(each) == target for each in got)
        if wish.preference == "none":
            assert all(self.yard.inside(each) is None for each in got)

    @rule(
        kind=st.sampled_from(KINDS),
        zone=st.sampled_from(ZONES),
        count=st.integers(1, 3),
        criteria=st.sampled_from(["open", "targeted"]),
    )
    def reserve(self, kind: str, zone: str, count: int, criteria: str) -> None:
        self.attempt(
            lambda: self.yard.ask(
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
            lambda: self.yard.ask(
                "ModifyCapacityReservation",
                CapacityReservationId=self.pick(which),
                InstanceCount=count,
            )
        )

    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        self.attempt(
            lambda: self.yard.ask(
                "CancelCapacityReservation", CapacityReservationId=self.pick(which)
            )
        )

    @rule(which=st.integers(0, 30))
    def terminate(self, which: int) -> None:
        known = list(self.yard.cloud.services.instances.state.instances)
        if known:
            self.attempt(
                lambda: self.yard.ask("TerminateInstances", InstanceIds=[known[which % len(known)]])
            )

    @rule(which=st.integers(0, 30), aim=st.none() | st.integers(0, 9))
    def attach(self, which: int, aim: int | None) -> None:
        known = list(self.yard.cloud.services.instances.state.instances)
        if known:
            said: dict[str, object] = {"CapacityReservationPreference": "none"}
            if aim is not None:
                target = {"CapacityReservationId": self.pick(aim)}
                said = {"CapacityReservationTarget": target}
            self.attempt(
                lambda: self.yard.ask(
                    "ModifyInstanceCapacityReservationAttributes",
                    InstanceId=known[which % len(known)],
                    CapacityReservationSpecification=said,
                )
            )

    @rule(seconds=st.sampled_from([1, 30, 1000, 4000]))
    def wait(self, seconds: int) -> None:
        self.yard.wait(seconds)

    def pick(self, which: int) -> str:
        known = list(self.yard.cloud.services.reservations.state.reservations)
        return known[which % len(known)]

    def attempt(self, act: Callable[[], object]) -> None:
        """EC2 may say no; what counts is what is true afterwards."""
        try:
            act()
        except AwsError:
            return

    @invariant()
    def reservations_hold_what_is_in_them(self) -> None:
        self.yard.describe()  # lets everything happen that is due
        parts = self.yard.cloud.services
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
    def no_machine_is_made_from_nothing(self) -> None:
        parts = self.yard.cloud.services
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
                assert free + outside + held == STOCK + first


def test_no_reservation_is_ever_overcommitted() -> None:
    run_state_machine_as_test(
        Life, settings=settings(max_examples=12, stateful_step_count=20, deadline=None)
    )


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(0, 6))
def test_as_many_run_inside_as_there_is_room(launches: list[int], room: int) -> None:
    yard = LaunchAccount(
        cloud_reservation(1, total=6, available=room, instanceMatchCriteria="open")
    )
    machines = [each for count in launches for each in yard.launch(count=count)]
    inside = [each for each in machines if yard.inside(each) is not None]
    assert len(inside) == min(room, len(machines))
    assert yard.free("cr-00000001") == room - len(inside)
