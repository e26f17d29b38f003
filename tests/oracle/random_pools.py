"""Random NodePools, and the requirements on labels that pools and pods have."""

from typing import Any, Final

from tests.oracle.profiles import ClusterProfile, PercentRandom
from tests.oracle.random_catalog import DISK, GIB_PER_CPU, SIZES, ZONES, Manifest

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


class RandomRequirements:
    """Random requirements that mostly can be met, on their own and often enough together."""

    def __init__(
        self,
        dice: PercentRandom,
        types: list[Manifest],
        comparisons: tuple[str, ...] = ("Gt", "Lt"),
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
            _requirement(ARCH, dice.choice(("In", "NotIn")), dice.choice(("amd64", "arm64"))),
            _requirement(ZONE, "In", *dice.sample(tuple(ZONES), dice.between(1, 2))),
            _requirement(ZONE, "NotIn", dice.choice(tuple(ZONES))),
            _requirement(CAPACITY_TYPE, "In", *dice.sample(CAPACITY_TYPES, dice.between(1, 2))),
            _requirement(CAPACITY_TYPE, "NotIn", dice.choice(CAPACITY_TYPES)),
            _requirement(INSTANCE_CATEGORY, "In", *dice.sample(tuple(GIB_PER_CPU), 2)),
            _requirement(INSTANCE_GENERATION, dice.choice(("Gt", "Lt")), "6"),
            _requirement(INSTANCE_CPU, dice.choice(self._comparisons), dice.choice(("4", "8"))),
            _requirement(INSTANCE_SIZE, "NotIn", *dice.sample(tuple(SIZES), 2)),
            _requirement(INSTANCE_TYPE, "In", *dice.sample(self._names, len(self._names) // 2)),
        ]

    def _rare(self) -> list[dict[str, Any]]:
        dice = self._dice
        return [
            _requirement(DISK, dice.choice(("In", "NotIn")), "ssd"),
            _requirement(DISK, dice.choice(("Exists", "DoesNotExist"))),
            _requirement(
                INSTANCE_FAMILY, "In", *(name.partition(".")[0] for name in self._names[:4])
            ),
            _requirement(ZONE_ID, "In", dice.choice(tuple(ZONES.values()))),
            _requirement(OS, "In", "linux"),
            _requirement(TEAM, dice.choice(("In", "NotIn")), dice.choice(("red", "blue"))),
            _requirement(ABSENT, dice.choice(("NotIn", "DoesNotExist", "In", "Exists")), "x"),
            _requirement(INSTANCE_TYPE, "NotIn", self._names[0]),
        ]


def _requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    wanted = {} if operator in ("Exists", "DoesNotExist") else {"values": sorted(set(values))}
    return {"key": key, "operator": operator, **wanted}


NODE_CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
DEDICATED_TAINT: Final = {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
NO_EXECUTE_TAINT: Final = {"key": "example.com/harsh", "effect": "NoExecute"}
SOFT_TAINT: Final = {"key": "example.com/soft", "effect": "PreferNoSchedule"}
STARTUP_TAINT: Final = {"key": "example.com/starting", "effect": "NoSchedule"}
MIN_VALUES_KEYS: Final = (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_CATEGORY, INSTANCE_CPU, ZONE)
COMPARISONS: Final = ("Gt", "Lt", "Gte", "Lte")  # pods may use only the first two


class RandomPools:
    """One pool that takes most pods, and others beside it."""

    def __init__(self, dice: PercentRandom, profile: ClusterProfile, types: list[Manifest]) -> None:
        self._dice, self._profile = dice, profile
        self._asks = RandomRequirements(dice, types, COMPARISONS)

    def manifests(self) -> list[Manifest]:
        count = self._dice.between(1, self._profile.pools)
        # The order of pools of one weight is a matter of taste, so such worlds are rare.
        apart = self._dice.chance(self._profile.weights)
        return [self._pool(number, 10 * (number + 1) if apart else 0) for number in range(count)]

    def _pool(self, number: int, weight: int) -> Manifest:
        spec: dict[str, Any] = {"template": self._template(choosy=number > 0)}
        spec |= {"weight": weight} if weight else {}
        if self._dice.chance(self._profile.limits):
            spec["limits"] = self._limits()
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": f"pool-{'abcdefgh'[number]}"},
            "spec": spec,
        }

    def _template(self, *, choosy: bool) -> Manifest:
        dice, profile = self._dice, self._profile
        asked = self._asks.requirements(profile.requirements // 4 if choosy else 5)
        spec: dict[str, Any] = {
            "nodeClassRef": NODE_CLASS_REF,
            "requirements": self._diverse(asked),
        }
        taints = dice.some(
            (DEDICATED_TAINT, NO_EXECUTE_TAINT), profile.taints // 2 if choosy else 5
        )
        taints += [SOFT_TAINT] if dice.chance(profile.taints // 4) else []
        spec |= {"taints": taints} if taints and profile.taints else {}
        spec |= {"startupTaints": [STARTUP_TAINT]} if dice.chance(profile.taints // 3) else {}
        labels = {TEAM: dice.choice(("red", "blue"))} if dice.chance(20) else {}
        if TEAM in {each["key"] for each in spec["requirements"]}:
            labels = {}
        return {"metadata": {"labels": labels}, "spec": spec}

    def _diverse(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same with minValues on some keys."""
        dice = self._dice
        if not dice.chance(self._profile.min_values):
            return asked
        taken = {each["key"] for each in asked}
        asked += [
            {"key": key, "operator": "Exists", "minValues": dice.between(1, 4)}
            for key in dice.sample(MIN_VALUES_KEYS, dice.between(1, 2))
            if key not in taken
        ]
        for each in asked:
            if each["key"] == CAPACITY_TYPE and len(each.get("values", ())) > 1:
                each["minValues"] = 2
        return asked

    def _limits(self) -> dict[str, str]:
        dice = self._dice
        found = {}
        if dice.chance(70):
            found["cpu"] = str(dice.choice((0, 2, 4, 8, 12, 20, 32, 64)))
        if dice.chance(25):
            found["memory"] = f"{dice.choice((8, 16, 64, 256))}Gi"
        if dice.chance(30) or not found:
            found["nodes"] = str(dice.between(0, 4))
        return found
