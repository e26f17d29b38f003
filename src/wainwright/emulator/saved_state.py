"""An emulated account as JSON, and back: states, timed events, randomness, and its origin."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.catalog_documents import Cloud
from wainwright.emulator.account_services import AccountResources
from wainwright.emulator.context import AccountContext, TimedEvent
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import InvalidInputError

STATE_VERSION: Final = 1
STATE_ATTRIBUTE: Final = "state"
STATE_KEYS: Final = {
    "CapacityMarket": "Shop",
    "CapacityReservations": "Reservations",
    "FaultInjector": "Faults",
    "InstanceStatuses": "Statuses",
    "InstanceTypes": "Catalogue",
    "LaunchTemplates": "Templates",
    "PlacementGroups": "Placement",
    "ResourceTags": "Tagging",
    "RunInstances": "Runs",
    "SecurityGroupRules": "GroupRules",
    "SpotInstanceRequests": "SpotRequests",
    "Throttler": "Buckets",
    "VcpuQuotas": "Quota",
    "VpcNetwork": "Network",
}
"""Classes whose state has another key in saved files: renaming a class must not lose its state."""


class StatefulService(Protocol):
    """A service whose state is saved."""

    @property
    def state(self) -> msgspec.Struct: ...


class SavedAccount(msgspec.Struct, kw_only=True):
    """The file. `states` holds the state of each service by its key (see STATE_KEYS).

    Python names differ from JSON names (`name=`) where the format is older than the names.
    """

    version: int = STATE_VERSION
    at: float
    """When it was saved: a virtual clock continues from here."""
    cloud: Cloud | None
    settings: EmulatorSettings
    account: AccountResources
    random_state: tuple[int, list[int], float | None] = msgspec.field(name="chance")
    timed_events: list[TimedEvent] = msgspec.field(name="appointments")
    states: dict[str, msgspec.Raw]


def get_random_state(context: AccountContext) -> tuple[int, list[int], float | None]:
    version, internal, spare = context.random.getstate()
    return version, list(internal), spare


def encode_states(services: Iterable[StatefulService]) -> dict[str, msgspec.Raw]:
    return {
        _state_key(service): msgspec.Raw(msgspec.json.encode(service.state)) for service in services
    }


def decode_saved_account(data: bytes) -> SavedAccount:
    try:
        saved = msgspec.json.decode(_with_current_names(data), type=SavedAccount)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"this is not a saved emulator: {error}") from None
    if saved.version != STATE_VERSION:
        raise InvalidInputError(
            f"the emulator was saved in version {saved.version}, this one reads {STATE_VERSION}"
        )
    return saved


def _with_current_names(data: bytes) -> bytes:
    """The file with the names of today: `duds` of earlier releases is `neverJoinRate`."""
    if b'"duds"' not in data:
        return data
    document = msgspec.json.decode(data)
    for path in (("settings", "pace"), ("states", "Instances", "pace")):
        pace = document
        for step in path:
            pace = pace.get(step) if isinstance(pace, dict) else None
        if isinstance(pace, dict) and "duds" in pace:
            pace["neverJoinRate"] = pace.pop("duds")
    return msgspec.json.encode(document)


def restore_account(
    saved: SavedAccount, context: AccountContext, services: Iterable[StatefulService]
) -> None:
    """Restores the account; a service without saved state keeps its initial state."""
    version, internal, spare = saved.random_state
    context.random.setstate((version, tuple(internal), spare))
    context.restore_events(saved.timed_events)
    for service in services:
        raw = saved.states.get(_state_key(service))
        if raw is not None:
            setattr(service, STATE_ATTRIBUTE, _decode_state(raw, service))


def _decode_state(raw: msgspec.Raw, service: StatefulService) -> Any:
    try:
        return msgspec.json.decode(raw, type=type(service.state))
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            f"the saved state of {_state_key(service)} cannot be read: {error}"
        ) from None


def _state_key(service: StatefulService) -> str:
    name = type(service).__name__
    return STATE_KEYS.get(name, name)
