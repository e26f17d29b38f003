"""Pods of random worlds that mind each other, volumes, ports and what they would like."""

from random import Random
from typing import Final

import msgspec
from tests.support.model import GIB, asking
from tests.support.randomworlds import TOLERATIONS

from wainwright.model.attachments import Attachment, HostPort
from wainwright.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, ON_DEMAND, RESERVED, SPOT, ZONE
from wainwright.model.pod import ANYWHERE, Bonds, Pod, PreferredNodes
from wainwright.model.requirements import NO_REQUIREMENTS, Requirements
from wainwright.model.selector import EVERYBODY, NOBODY, Clause, Selector, selector
from wainwright.model.topology import Company, Preferred, Spread

RACK: Final = "example.com/shelf"
RACKS: Final = ("r1", "r2", "r3")
APPS: Final = ("web", "db", "job")
NAMESPACES: Final = ("shop", "data")
DRIVERS: Final = ("ebs.example.com", "nfs.example.com")
KEYS: Final = (ZONE, ZONE, ZONE, HOSTNAME, HOSTNAME, CAPACITY_TYPE, RACK)
ADDRESSES: Final = ("0.0.0.0", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")
FEATURES: Final = (
    "spreads",
    "affinity",
    "anti_affinity",
    "preferred_affinity",
    "preferred_anti_affinity",
    "preferred_nodes",
    "ports",
    "attachments",
    "volume_places",
)

PREFERENCES: Final = ("preferred_affinity", "preferred_anti_affinity", "preferred_nodes", "spreads")
"""Those of which one is given up before the other."""


class PodMaker:
    """Makes pods that use some of the features; a world has only a few, so that they meet."""

    def __init__(self, dice: Random, zones: tuple[str, ...]) -> None:
        self.dice = dice
        self.zones = zones
        self.features = [each for each in FEATURES if self.chance(25)] or ["spreads"]
        if len(set(self.features) & set(PREFERENCES)) == 1 and self.chance(50):
            self.features = [*dict.fromkeys([*self.features, *PREFERENCES])]
        self.large = self.chance(25)
        """Whether most pods need a node each."""
        self.volumes = 0

    def chance(self, percent: int) -> bool:
        return self.dice.randrange(100) < percent

    def waiting(self, most: int) -> tuple[Pod, ...]:
        """Groups of equal pods, at most so many together."""
        found: list[Pod] = []
        for number in range(self.dice.randint(1, 4)):
            found += self._group(f"g{number}", self.dice.choice((1, 1, 2, 3, 4, 6)))
        return tuple(found[:most])

    def running(self, node: str, number: int) -> Pod:
        """One that runs on a node; it has its place, whatever it asked for."""
        app = self.dice.choice(APPS)
        return Pod(
            namespace=self._namespace(),
            name=f"{app}-on-{node}-{number}",
            uid=str(self.dice.randrange(1000)),
            labels=self._labels(app),
            requests={"cpu": self.dice.choice((100, 400, 900)), "memory": GIB // 4},
            alternatives=self._alternatives(),
            tolerations=tuple(each for each in TOLERATIONS if self.chance(30)),
            bonds=self.bonds(app) if self.chance(60) else Bonds(),
            daemonset=self.chance(10),
            terminating=self.chance(15),
        )

    def _group(self, name: str, count: int) -> list[Pod]:
        app, namespace = self.dice.choice(APPS), self._namespace()
        labels, bonds = self._labels(app), self.bonds(app)
        requests = {"cpu": self._cpu(), "memory": self.dice.choice((1, 2, 4)) * GIB // 4}
        alternatives = self._alternatives()
        tolerations = tuple(each for each in TOLERATIONS if self.chance(30))
        return [
            Pod(
                namespace=namespace,
                name=f"{name}-{number}",
                uid=str(self.dice.randrange(1000)),
                created=float(self.dice.randrange(3)) if self.chance(50) else None,
                requests=requests,
                labels=labels,
                alternatives=alternatives,
                tolerations=tolerations,
                bonds=self._own(bonds),
            )
            for number in range(count)
        ]

    def _cpu(self) -> int:
        return self.dice.choice((1500, 1900, 3900) if self.large else (100, 400, 900, 1500))

    def _namespace(self) -> str:
        return NAMESPACES[self.chance(15)]

    def _labels(self, app: str) -> dict[str, str]:
        tier = {"tier": self.dice.choice(("front", "back"))} if self.chance(60) else {}
        return {"app": app} | tier

    def _alternatives(self) -> tuple[Requirements, ...]:
        if self.chance(75):
            return ANYWHERE
        return (self._asked(), self._asked()) if self.chance(20) else (self._asked(),)

    def _asked(self) -> Requirements:
        zones = tuple(self.dice.sample(self.zones, self.dice.randint(1, len(self.zones))))
        asked = asking(ZONE, "In", *zones) if self.chance(50) else NO_REQUIREMENTS
        if self.chance(25):
            asked = asked.narrow(asking(CAPACITY_TYPE, "In", self.dice.choice((SPOT, ON_DEMAND))))
        if self.chance(15):
            asked = asked.narrow(asking(CAPACITY_TYPE, "NotIn", RESERVED))
        if self.chance(15):
            asked = asked.narrow(asking(ARCH, "In", self.dice.choice(("amd64", "arm64"))))
        if self.chance(15):
            operator = self.dice.choice(("In", "NotIn", "Exists"))
            values = (self.dice.choice(RACKS),) if operator.endswith("In") else ()
            asked = asked.narrow(asking(RACK, operator, *values))
        return asked

    def bonds(self, app: str) -> Bonds:
        """With some of the world's features, mostly one or two."""
        values = {name: getattr(self, f"_{name}")(app) for name in self.features if self.chance(60)}
        return Bonds(**values)

    def _own(self, bonds: Bonds) -> Bonds:
        """Pods of a group mostly have volumes of their own, and those are anywhere."""
        changed = bonds
        if bonds.attachments and self.chance(70):
            changed = msgspec.structs.replace(changed, attachments=self._attachments(""))
        if bonds.volume_places != ANYWHERE and self.chance(50):
            changed = msgspec.structs.replace(changed, volume_places=self._volume_places(""))
        return changed

    def _selector(self, app: str) -> Selector:
        pick = self.dice.randrange(100)
        if pick < 50:
            return selector({"app": app})
        if pick < 75:
            return selector({"app": self.dice.choice(APPS)})
        if pick < 85:
            return selector({"tier": self.dice.choice(("front", "back"))})
        if pick < 92:
            return EVERYBODY
        if pick < 95:
            return NOBODY
        operator = self.dice.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = frozenset({"front"} if operator.endswith("In") else ())
        return Selector(clauses=(Clause(key="tier", operator=operator, values=values),))

    def _spreads(self, app: str) -> tuple[Spread, ...]:
        return tuple(self._spread(app) for _ in range(self.dice.choice((1, 1, 1, 2, 3))))

    def _spread(self, app: str) -> Spread:
        return Spread(
            key=self.dice.choice(KEYS),
            selector=self._selector(app),
            max_skew=self.dice.choice((1, 1, 1, 2, 3)),
            min_domains=self.dice.randint(1, 4) if self.chance(15) else None,
            required=self.chance(75),
            honor_affinity=self.chance(80),
            honor_taints=self.chance(35),
        )

    def _company(self, app: str) -> Company:
        namespaces = self.dice.choice((None, frozenset({"shop"}), frozenset({"shop"})))
        both = frozenset(NAMESPACES) if self.chance(15) else namespaces
        return Company(key=self.dice.choice(KEYS), selector=self._selector(app), namespaces=both)

    def _affinity(self, app: str) -> tuple[Company, ...]:
        return tuple(self._company(app) for _ in range(self.dice.choice((1, 1, 1, 2))))

    _anti_affinity = _affinity

    def _preferred_affinity(self, app: str) -> tuple[Preferred, ...]:
        weights = sorted((self.dice.choice((1, 10, 100)) for _ in range(2)), reverse=True)
        weights = weights[: self.dice.randint(1, 2)]
        return tuple(Preferred(weight=weight, term=self._company(app)) for weight in weights)

    _preferred_anti_affinity = _preferred_affinity

    def _preferred_nodes(self, _: str) -> tuple[PreferredNodes, ...]:
        weights = (100, 10)[: self.dice.randint(1, 2)]
        return tuple(PreferredNodes(weight=each, requirements=self._asked()) for each in weights)

    def _ports(self, _: str) -> tuple[HostPort, ...]:
        count = self.dice.choice((1, 1, 2))
        return tuple(
            HostPort(
                port=self.dice.choice((80, 80, 81)),
                protocol=self.dice.choice(("TCP", "TCP", "UDP")),
                address=self.dice.choice(ADDRESSES),
            )
            for _ in range(count)
        )

    def _attachments(self, _: str) -> tuple[Attachment, ...]:
        self.volumes += 1
        numbers = [self.volumes * 10 + n for n in range(self.dice.randint(1, 2))]
        return tuple(
            Attachment(driver=self.dice.choice(DRIVERS), volume=f"vol-{number}")
            for number in numbers
        )

    def _volume_places(self, _: str) -> tuple[Requirements, ...]:
        zones = self.dice.sample(self.zones, self.dice.randint(1, min(2, len(self.zones))))
        if self.chance(30):
            return (asking(ZONE, "In", *zones),)
        return tuple(asking(ZONE, "In", zone) for zone in zones)
