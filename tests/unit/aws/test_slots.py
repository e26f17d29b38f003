"""What reservations have free, with launches under way and launches in doubt."""

from tests.support.awslaunches import reserved
from tests.support.emulated import HandClock

from wainwright.aws.reservations import Availability
from wainwright.aws.slots import Slots

ONE, TWO = "cr-00000001", "cr-00000002"


class Bench:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.availability = Availability(self.clock)
        self.availability.learn([reserved(1, 5), reserved(2, 3)], self.clock.now())
        self.slots = Slots(self.availability, self.clock)

    @property
    def free(self) -> tuple[int, int]:
        return self.slots.free(ONE), self.slots.free(TWO)


def test_each_is_held_for_all_machines_of_a_launch() -> None:
    bench = Bench()
    held = bench.slots.hold([ONE, TWO], 2)
    assert bench.free == (3, 1)
    bench.slots.release(held, [ONE, ONE])
    assert bench.free == (3, 3)


def test_a_launch_that_failed_gives_everything_back() -> None:
    bench = Bench()
    first, second = bench.slots.hold([ONE], 2), bench.slots.hold([ONE], 2)
    assert bench.free == (1, 3)
    bench.slots.release(first)
    assert bench.free == (3, 3)
    bench.slots.release(second)
    assert bench.free == (5, 3)


def test_there_is_never_less_than_none() -> None:
    bench = Bench()
    bench.slots.hold([TWO], 9)
    assert bench.free == (5, 0)
    assert bench.slots.free("cr-unknown") == 0


def test_a_claim_in_doubt_keeps_a_place_in_each() -> None:
    bench = Bench()
    bench.slots.doubt(["a", "b"], [ONE, TWO])
    assert bench.free == (3, 1)
    bench.slots.clear("a")  # came to nothing
    assert bench.free == (4, 2)
    bench.slots.clear("b", ONE)  # was launched into this one
    assert bench.free == (4, 3)


def test_only_doubts_are_cleared() -> None:
    bench = Bench()
    bench.slots.clear("a", ONE)
    assert bench.free == (5, 3)
    bench.slots.doubt(["a"], [])
    bench.slots.clear("a", ONE)
    assert bench.free == (5, 3)


def test_by_the_second_answer_of_ec2_there_is_no_doubt_left() -> None:
    bench = Bench()
    bench.slots.doubt(["a"], [ONE])
    bench.clock.time += 119
    assert bench.free == (4, 3)
    bench.clock.time += 1
    assert bench.free == (5, 3)
