"""How long to wait after failures."""

from wainwright.backoff import MAX_BACKOFF, Backoff


def test_backoff_is_bounded_and_the_same_for_the_same_seed() -> None:
    one, other = Backoff(7), Backoff(7)
    waits = [one.failed("a") for _ in range(2000)]
    assert max(waits) <= MAX_BACKOFF
    assert waits == [other.failed("a") for _ in range(2000)]
