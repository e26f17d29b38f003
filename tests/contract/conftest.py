"""One server of each kind for all tests here, started when the first of them asks."""

from collections.abc import Iterator

import pytest
from tests.contract.doors import InProcess, OverHttp
from tests.contract.servers import Emulator, emulator, moto
from tests.contract.wire import Wire


@pytest.fixture(scope="session")
def served() -> Iterator[Emulator]:
    """An emulated account for tests that leave those of others alone."""
    with emulator() as running:
        yield running


@pytest.fixture(scope="session")
def over_http(served: Emulator) -> Iterator[OverHttp]:
    door = OverHttp(served.endpoint)
    yield door
    door.close()


@pytest.fixture(scope="session")
def in_process() -> Iterator[InProcess]:
    door = InProcess()
    yield door
    door.clock.close()


@pytest.fixture(scope="session")
def by_moto() -> Iterator[OverHttp]:
    with moto() as endpoint:
        door = OverHttp(endpoint)
        yield door
        door.close()


@pytest.fixture
def wire(served: Emulator) -> Iterator[Wire]:
    """A connection without an SDK."""
    made = Wire(served.endpoint)
    yield made
    made.close()
