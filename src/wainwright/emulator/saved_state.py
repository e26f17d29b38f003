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
"""Classes whose state has another name in saved files: renaming a class must not lose its state."""


class StatefulService(Protocol):
    """Whatever remembers something."""

    @property
    def state(self) -> msgspec.Struct: ...


class SavedAccount(msgspec.Struct, kw_only=True):
    """The file. `states` are the keepers', by the name of their class."""

    version: int = STATE_VERSION
    at: float
    """When it was saved: a virtual clock goes on from here."""
    cloud: Cloud | None
    settings: EmulatorSettings
    account: AccountResources
    chance: tuple[int, list[int], float | None]
    appointments: list[TimedEvent]
    states: dict[str, msgspec.Raw]


def random_state(context: AccountContext) -> tuple[int, list[int], float | None]:
    version, internal, spare = context.random.getstate()
    return version, list(internal), spare


def encode_states(keepers: Iterable[StatefulService]) -> dict[str, msgspec.Raw]:
    return {
        _state_key(keeper): msgspec.Raw(msgspec.json.encode(keeper.state)) for keeper in keepers
    }


def decode_saved_account(data: bytes) -> SavedAccount:
    try:
        saved = msgspec.json.decode(data, type=SavedAccount)
    except msgspec.MsgspecError as error:
        raise InvalidInputError(f"this is no saved emulator: {error}") from None
    if saved.version != STATE_VERSION:
        raise InvalidInputError(
            f"the emulator was saved in version {saved.version}, this one reads {STATE_VERSION}"
        )
    return saved


def restore_account(
    saved: SavedAccount, context: AccountContext, keepers: Iterable[StatefulService]
) -> None:
    """Puts everything back; one that the file does not know stays as it is."""
    version, internal, spare = saved.chance
    context.random.setstate((version, tuple(internal), spare))
    context.restore(saved.appointments)
    for keeper in keepers:
        raw = saved.states.get(_state_key(keeper))
        if raw is not None:
            setattr(keeper, STATE_ATTRIBUTE, _decode_state(raw, keeper))


def _decode_state(raw: msgspec.Raw, keeper: StatefulService) -> Any:
    try:
        return msgspec.json.decode(raw, type=type(keeper.state))
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            f"the saved state of {_state_key(keeper)} cannot be read: {error}"
        ) from None


def _state_key(keeper: StatefulService) -> str:
    name = type(keeper).__name__
    return STATE_KEYS.get(name, name)
