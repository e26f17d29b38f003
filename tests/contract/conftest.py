"""One server of each kind for all tests here, started when the first of them asks."""

from collections.abc import Iterator

import pytest
from tests.contract.clients import HttpClient, InProcessClient
from tests.contract.raw_http import RawConnection
from tests.contract.servers import EmulatorServer, serve_emulator, serve_moto


@pytest.fixture(scope="session")
def served() -> Iterator[EmulatorServer]:
    """An emulated account for tests that leave those of others alone."""
    with serve_emulator() as running:
        yield running


@pytest.fixture(scope="session")
def over_http(served: EmulatorServer) -> Iterator[HttpClient]:
    door = HttpClient(served.endpoint)
    yield door
    door.close()


@pytest.fixture(scope="session")
def in_process() -> Iterator[InProcessClient]:
    door = InProcessClient()
    yield door
    door.clock.close()


@pytest.fixture(scope="session")
def by_moto() -> Iterator[HttpClient]:
    with serve_moto() as endpoint:
        door = HttpClient(endpoint)
        yield door
        door.close()


@pytest.fixture
def wire(served: EmulatorServer) -> Iterator[RawConnection]:
    """A connection without an SDK."""
    made = RawConnection(served.endpoint)
    yield made
    made.close()
