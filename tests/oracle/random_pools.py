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
        rng: PercentRandom,
        types: list[Manifest],
        comparisons: tuple[str, ...] = ("Gt", "Lt"),
    ) -> None:
        self._rng = rng
        self._comparisons = comparisons
        self._names = [kind["name"] for kind in types]

    def requirements(self, percent: int) -> list[dict[str, Any]]:
        """One for most keys at this chance; no key twice, so that none contradicts another."""
        found = self._rng.some(self._common(), percent)
        found += self._rng.some(self._rare(), percent // 4)
        return list({each["key"]: each for each in found}.values())

    def _common(self) -> list[dict[str, Any]]:
        rng = self._rng
        return [
            _requirement(ARCH, rng.choice(("In", "NotIn")), rng.choice(("amd64", "arm64"))),
            _requirement(ZONE, "In", *rng.sample(tuple(ZONES), rng.between(1, 2))),
            _requirement(ZONE, "NotIn", rng.choice(tuple(ZONES))),
            _requirement(CAPACITY_TYPE, "In", *rng.sample(CAPACITY_TYPES, rng.between(1, 2))),
            _requirement(CAPACITY_TYPE, "NotIn", rng.choice(CAPACITY_TYPES)),
            _requirement(INSTANCE_CATEGORY, "In", *rng.sample(tuple(GIB_PER_CPU), 2)),
            _requirement(INSTANCE_GENERATION, rng.choice(("Gt", "Lt")), "6"),
            _requirement(INSTANCE_CPU, rng.choice(self._comparisons), rng.choice(("4", "8"))),
            _requirement(INSTANCE_SIZE, "NotIn", *rng.sample(tuple(SIZES), 2)),
            _requirement(INSTANCE_TYPE, "In", *rng.sample(self._names, len(self._names) // 2)),
        ]

    def _rare(self) -> list[dict[str, Any]]:
        rng = self._rng
        return [
            _requirement(DISK, rng.choice(("In", "NotIn")), "ssd"),
            _requirement(DISK, rng.choice(("Exists", "DoesNotExist"))),
            _requirement(
                INSTANCE_FAMILY, "In", *(name.partition(".")[0] for name in self._names[:4])
            ),
            _requirement(ZONE_ID, "In", rng.choice(tuple(ZONES.values()))),
            _requirement(OS, "In", "linux"),
            _requirement(TEAM, rng.choice(("In", "NotIn")), rng.choice(("red", "blue"))),
            _requirement(ABSENT, rng.choice(("NotIn", "DoesNotExist", "In", "Exists")), "x"),
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

    def __init__(self, rng: PercentRandom, profile: ClusterProfile, types: list[Manifest]) -> None:
        self._rng, self._profile = rng, profile
        self._requirements = RandomRequirements(rng, types, COMPARISONS)

    def manifests(self) -> list[Manifest]:
        count = self._rng.between(1, self._profile.pools)
        # The order of pools of one weight is a matter of taste, so such clusters are rare.
        apart = self._rng.chance(self._profile.weights)
        return [self._pool(number, 10 * (number + 1) if apart else 0) for number in range(count)]

    def _pool(self, number: int, weight: int) -> Manifest:
        spec: dict[str, Any] = {"template": self._template(choosy=number > 0)}
        spec |= {"weight": weight} if weight else {}
        if self._rng.chance(self._profile.limits):
            spec["limits"] = self._limits()
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": f"pool-{'abcdefgh'[number]}"},
            "spec": spec,
        }

    def _template(self, *, choosy: bool) -> Manifest:
        rng, profile = self._rng, self._profile
        asked = self._requirements.requirements(profile.requirements // 4 if choosy else 5)
        spec: dict[str, Any] = {
            "nodeClassRef": NODE_CLASS_REF,
            "requirements": self._diverse(asked),
        }
        taints = rng.some((DEDICATED_TAINT, NO_EXECUTE_TAINT), profile.taints // 2 if choosy else 5)
        taints += [SOFT_TAINT] if rng.chance(profile.taints // 4) else []
        spec |= {"taints": taints} if taints and profile.taints else {}
        spec |= {"startupTaints": [STARTUP_TAINT]} if rng.chance(profile.taints // 3) else {}
        labels = {TEAM: rng.choice(("red", "blue"))} if rng.chance(20) else {}
        if TEAM in {each["key"] for each in spec["requirements"]}:
            labels = {}
        return {"metadata": {"labels": labels}, "spec": spec}

    def _diverse(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The same with minValues on some keys."""
        rng = self._rng
        if not rng.chance(self._profile.min_values):
            return asked
        taken = {each["key"] for each in asked}
        asked += [
            {"key": key, "operator": "Exists", "minValues": rng.between(1, 4)}
            for key in rng.sample(MIN_VALUES_KEYS, rng.between(1, 2))
            if key not in taken
        ]
        for each in asked:
            if each["key"] == CAPACITY_TYPE and len(each.get("values", ())) > 1:
                each["minValues"] = 2
        return asked

    def _limits(self) -> dict[str, str]:
        rng = self._rng
        found = {}
        if rng.chance(70):
            found["cpu"] = str(rng.choice((0, 2, 4, 8, 12, 20, 32, 64)))
        if rng.chance(25):
            found["memory"] = f"{rng.choice((8, 16, 64, 256))}Gi"
        if rng.chance(30) or not found:
            found["nodes"] = str(rng.between(0, 4))
        return found
