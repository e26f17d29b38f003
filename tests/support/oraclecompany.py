"""What ties pods of random worlds to each other: spread, affinity, anti-affinity, preferences."""

from typing import Any, Final

from tests.support.oracleprofiles import Dice, Profile

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE

WITHIN: Final = "requiredDuringSchedulingIgnoredDuringExecution"
RATHER: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Company:
    """Constraints of a group; `app` is the label that its pods share."""

    def __init__(self, dice: Dice, profile: Profile) -> None:
        self._dice, self._profile = dice, profile

    def spreads(self, app: str) -> dict[str, Any]:
        dice, profile = self._dice, self._profile
        found: list[dict[str, Any]] = []
        if dice.chance(profile.spread):
            found += self._spread_over(app, "DoNotSchedule")
        if dice.chance(profile.preferences // 3):
            found += self._spread_over(app, "ScheduleAnyway")
        keys = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in found}
        return {"topologySpreadConstraints": list(keys.values())} if keys else {}

    def affinity(self, app: str, groups: int, into: dict[str, Any]) -> None:
        """Adds what the pods want of each other's company to their affinity."""
        dice, profile = self._dice, self._profile
        if dice.chance(profile.affinity):
            side = "podAntiAffinity" if dice.chance(60) else "podAffinity"
            into.setdefault(side, {})[WITHIN] = [self._term(app, groups, side)]
        if dice.chance(profile.preferences // 2):
            side = "podAntiAffinity" if dice.chance(60) else "podAffinity"
            into.setdefault(side, {})[RATHER] = [
                {"weight": weight, "podAffinityTerm": self._term(app, groups, side)}
                for weight in dice.sample((1, 10, 100), dice.between(1, 2))
            ]

    def anti_affinity_of_running(self, app: str) -> dict[str, Any]:
        """Now and then a pod that runs keeps others away."""
        if not self._dice.chance(self._profile.affinity // 3):
            return {}
        term = {"labelSelector": _selecting(app), "topologyKey": HOSTNAME}
        return {"affinity": {"podAntiAffinity": {WITHIN: [term]}}}

    def _spread_over(self, app: str, otherwise: str) -> list[dict[str, Any]]:
        dice = self._dice
        keys = dice.choice(
            (
                (ZONE,),
                (ZONE,),
                (ZONE,),
                (HOSTNAME,),
                (HOSTNAME,),
                (CAPACITY_TYPE,),
                (ZONE, HOSTNAME),
                (ZONE, CAPACITY_TYPE),
            )
        )
        return [self._spread(app, key, otherwise) for key in keys]

    def _spread(self, app: str, key: str, otherwise: str) -> dict[str, Any]:
        dice = self._dice
        selector = _selecting(app) if dice.chance(85) else {"matchLabels": {"tier": "front"}}
        found: dict[str, Any] = {
            "maxSkew": dice.choice((1, 1, 1, 2, 4)),
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": selector,
        }
        if otherwise == "DoNotSchedule" and key != HOSTNAME and dice.chance(15):
            found["minDomains"] = dice.between(2, 3)
        found |= {"nodeTaintsPolicy": "Honor"} if dice.chance(10) else {}
        found |= {"nodeAffinityPolicy": "Ignore"} if dice.chance(10) else {}
        found |= {"matchLabelKeys": ["pod-template-hash"]} if dice.chance(15) else {}
        return found

    def _term(self, app: str, groups: int, side: str) -> dict[str, Any]:
        dice = self._dice
        own = dice.chance(70 if side == "podAntiAffinity" else 60)
        meant = app if own else f"app-{dice.between(0, groups - 1)}"
        found: dict[str, Any] = {
            "labelSelector": _selecting(meant),
            "topologyKey": HOSTNAME if dice.chance(50) else ZONE,
        }
        if dice.chance(10):
            found["namespaces"] = ["shop", "data"]
        elif dice.chance(10):
            found["namespaceSelector"] = dice.choice(({}, {"matchLabels": {"team": "red"}}))
        return found


def _selecting(app: str) -> dict[str, Any]:
    return {"matchLabels": {"app": app}}
