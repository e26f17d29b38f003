"""An emulated account as a file, and back: states, appointments, chance, and what it came from."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from wainwright.api.cloud import Cloud
from wainwright.emulator.account import Account
from wainwright.emulator.settings import Settings
from wainwright.emulator.world import Appointment, World
from wainwright.errors import BadInput

VERSION: Final = 1
STATE: Final = "state"


class Keeper(Protocol):
    """Whatever remembers something."""

    @property
    def state(self) -> msgspec.Struct: ...


class Saved(msgspec.Struct, kw_only=True):
    """The file. `states` are the keepers', by the name of their class."""

    version: int = VERSION
    at: float
    """When it was saved: a virtual clock goes on from here."""
    cloud: Cloud | None
    settings: Settings
    account: Account
    chance: tuple[int, list[int], float | None]
    appointments: list[Appointment]
    states: dict[str, msgspec.Raw]


def chance(world: World) -> tuple[int, list[int], float | None]:
    version, internal, spare = world.random.getstate()
    return version, list(internal), spare


def states(keepers: Iterable[Keeper]) -> dict[str, msgspec.Raw]:
    return {_key(keeper): msgspec.Raw(msgspec.json.encode(keeper.state)) for keeper in keepers}


def read(data: bytes) -> Saved:
    try:
        saved = msgspec.json.decode(data, type=Saved)
    except msgspec.MsgspecError as error:
        raise BadInput(f"this is no saved emulator: {error}") from None
    if saved.version != VERSION:
        raise BadInput(
            f"the emulator was saved in version {saved.version}, this one reads {VERSION}"
        )
    return saved


def restore(saved: Saved, world: World, keepers: Iterable[Keeper]) -> None:
    """Puts everything back; one that the file does not know stays as it is."""
    version, internal, spare = saved.chance
    world.random.setstate((version, tuple(internal), spare))
    world.restore(saved.appointments)
    for keeper in keepers:
        raw = saved.states.get(_key(keeper))
        if raw is not None:
            setattr(keeper, STATE, _state(raw, keeper))


def _state(raw: msgspec.Raw, keeper: Keeper) -> Any:
    try:
        return msgspec.json.decode(raw, type=type(keeper.state))
    except msgspec.MsgspecError as error:
        raise BadInput(f"the saved state of {_key(keeper)} cannot be read: {error}") from None


def _key(keeper: Keeper) -> str:
    return type(keeper).__name__
