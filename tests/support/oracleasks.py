"""What pools and pods of random worlds ask of a node's labels."""

from typing import Any, Final

from tests.support.oraclecatalogue import DISK, GIB_PER_CPU, SIZES, ZONES, Manifest
from tests.support.oracleprofiles import Dice

from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)

TEAM: Final = "example.com/team"
"""A label that only pools define."""
ABSENT: Final = "example.com/nobody-has-it"
CAPACITY_TYPES: Final = (SPOT, ON_DEMAND, RESERVED)


class Asks:
    """Random requirements that mostly can be met, on their own and often enough together."""

    def __init__(
        self, dice: Dice, types: list[Manifest], comparisons: tuple[str, ...] = ("Gt", "Lt")
    ) -> None:
        self._dice = dice
        self._comparisons = comparisons
        self._names = [kind["name"] for kind in types]

    def requirements(self, percent: int) -> list[dict[str, Any]]:
        """One for most keys at this chance; no key twice, so that none contradicts another."""
        found = self._dice.some(self._common(), percent)
        found += self._dice.some(self._rare(), percent // 4)
        return list({each["key"]: each for each in found}.values())

    def _common(self) -> list[dict[str, Any]]:
        dice = self._dice
        return [
            _asks(ARCH, dice.choice(("In", "NotIn")), dice.choice(("amd64", "arm64"))),
            _asks(ZONE, "In", *dice.sample(tuple(ZONES), dice.between(1, 2))),
            _asks(ZONE, "NotIn", dice.choice(tuple(ZONES))),
            _asks(CAPACITY_TYPE, "In", *dice.sample(CAPACITY_TYPES, dice.between(1, 2))),
            _asks(CAPACITY_TYPE, "NotIn", dice.choice(CAPACITY_TYPES)),
            _asks(INSTANCE_CATEGORY, "In", *dice.sample(tuple(GIB_PER_CPU), 2)),
            _asks(INSTANCE_GENERATION, dice.choice(("Gt", "Lt")), "6"),
            _asks(INSTANCE_CPU, dice.choice(self._comparisons), dice.choice(("4", "8"))),
            _asks(INSTANCE_SIZE, "NotIn", *dice.sample(tuple(SIZES), 2)),
            _asks(INSTANCE_TYPE, "In", *dice.sample(self._names, len(self._names) // 2)),
        ]

    def _rare(self) -> list[dict[str, Any]]:
        dice = self._dice
        return [
            _asks(DISK, dice.choice(("In", "NotIn")), "ssd"),
            _asks(DISK, dice.choice(("Exists", "DoesNotExist"))),
            _asks(INSTANCE_FAMILY, "In", *(name.partition(".")[0] for name in self._names[:4])),
            _asks(ZONE_ID, "In", dice.choice(tuple(ZONES.values()))),
            _asks(OS, "In", "linux"),
            _asks(TEAM, dice.choice(("In", "NotIn")), dice.choice(("red", "blue"))),
            _asks(ABSENT, dice.choice(("NotIn", "DoesNotExist", "In", "Exists")), "x"),
            _asks(INSTANCE_TYPE, "NotIn", self._names[0]),
        ]


def _asks(key: str, operator: str, *values: str) -> dict[str, Any]:
    wanted = {} if operator in ("Exists", "DoesNotExist") else {"values": sorted(set(values))}
    return {"key": key, "operator": operator, **wanted}
