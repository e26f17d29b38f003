"""One server of each kind for all tests here, started at its first use."""

from collections.abc import Iterator

import pytest
from tests.contract.clients import HttpClient, InProcessClient
from tests.contract.raw_http import RawConnection
from tests.contract.servers import EmulatorServer, serve_emulator, serve_moto


@pytest.fixture(scope="session")
def served() -> Iterator[EmulatorServer]:
    """An emulated account shared by tests that do not disturb each other."""
    with serve_emulator() as running:
        yield running


@pytest.fixture(scope="session")
def over_http(served: EmulatorServer) -> Iterator[HttpClient]:
    client = HttpClient(served.endpoint)
    yield client
    client.close()


@pytest.fixture(scope="session")
def in_process() -> Iterator[InProcessClient]:
    client = InProcessClient()
    yield client
    client.clock.close()


@pytest.fixture(scope="session")
def by_moto() -> Iterator[HttpClient]:
    with serve_moto() as endpoint:
        client = HttpClient(endpoint)
        yield client
        client.close()


@pytest.fixture
def wire(served: EmulatorServer) -> Iterator[RawConnection]:
    """A connection without an SDK."""
    created = RawConnection(served.endpoint)
    yield created
    created.close()
