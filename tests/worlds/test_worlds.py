"""`make law-worlds` can run every property of the two laws: each is a function of a seed."""

from tests.worlds.__main__ import properties_of_laws, run_batch


def test_one_world_of_every_property_holds() -> None:
    assert run_batch(0, len(list(properties_of_laws()))) == 0
