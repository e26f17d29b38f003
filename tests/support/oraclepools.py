"""NodePools of random worlds."""

from typing import Any, Final

from tests.support.oracleasks import TEAM, Asks
from tests.support.oraclecatalogue import Manifest
from tests.support.oracleprofiles import Dice, Profile

from wainwright.model.labels import (
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_TYPE,
    ZONE,
)

CLASS: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
DEDICATED: Final = {"key": "example.com/dedicated", "value": "gpu", "effect": "NoSchedule"}
HARSH: Final = {"key": "example.com/harsh", "effect": "NoExecute"}
SOFT: Final = {"key": "example.com/soft", "effect": "PreferNoSchedule"}
STARTING: Final = {"key": "example.com/starting", "effect": "NoSchedule"}
DIVERSE: Final = (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_CATEGORY, INSTANCE_CPU, ZONE)
COMPARISONS: Final = ("Gt", "Lt", "Gte", "Lte")  # pods may use only the first two


class Pools:
    """One pool that takes most pods, and others beside it."""

    def __init__(self, dice: Dice, profile: Profile, types: list[Manifest]) -> None:
        self._dice, self._profile = dice, profile
        self._asks = Asks(dice, types, COMPARISONS)

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
            "nodeClassRef": CLASS,
            "requirements": self._diverse(asked),
        }
        taints = dice.some((DEDICATED, HARSH), profile.taints // 2 if choosy else 5)
        taints += [SOFT] if dice.chance(profile.taints // 4) else []
        spec |= {"taints": taints} if taints and profile.taints else {}
        spec |= {"startupTaints": [STARTING]} if dice.chance(profile.taints // 3) else {}
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
            for key in dice.sample(DIVERSE, dice.between(1, 2))
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
