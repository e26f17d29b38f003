"""Pods of random worlds: groups of equal ones, as deployments make them."""

from typing import Any, Final

from tests.support.oracleasks import Asks
from tests.support.oraclecatalogue import GPU, Manifest
from tests.support.oraclecompany import Company
from tests.support.oraclepools import DEDICATED, HARSH, SOFT, STARTING
from tests.support.oracleprofiles import Dice, Profile
from tests.support.oraclevolumes import Volumes

CPUS: Final = (100, 250, 500, 900, 1000, 1500, 2000, 3500, 6000, 12000)
MEBIBYTES: Final = (128, 256, 512, 1024, 2048, 4096, 7000, 15000)
PORTS: Final = (8080, 8081, 9090)
TIERS: Final = ("front", "back")


class Pods:
    """Makes groups of pods; their volumes are kept apart."""

    def __init__(self, dice: Dice, profile: Profile, types: list[Manifest]) -> None:
        self._dice, self._profile = dice, profile
        self._asks = Asks(dice, types)
        self._company = Company(dice, profile)
        self._gpus = any(GPU in kind["capacity"] for kind in types)
        self.volumes = Volumes(dice, profile)

    def manifests(self) -> list[Manifest]:
        """Those to be placed, in one to six groups."""
        groups = self._dice.between(1, 6)
        return [pod for number in range(groups) for pod in self._group(f"app-{number}", groups)]

    def running(self, app: str, node: str, count: int) -> list[Manifest]:
        """Pods that run on a node already, and look like those of a group."""
        return [
            self._pod(
                f"{app}-on-{node}-{number}",
                {"app": app, "tier": self._dice.choice(TIERS)},
                {
                    "nodeName": node,
                    "containers": [_container(self._dice.choice((100, 250, 500)), 128)],
                    **self._company.anti_affinity_of_running(app),
                },
            )
            for number in range(count)
        ]

    def _group(self, app: str, groups: int) -> list[Manifest]:
        dice, profile = self._dice, self._profile
        size = dice.choice((1, 1, 2, 3, 4, 6, 9, 14))
        labels = {"app": app, "tier": dice.choice(TIERS), "pod-template-hash": dice.choice("xy")}
        spec: dict[str, Any] = {"containers": [self._main()]}
        affinity = self._node_affinity()
        spec |= self._company.spreads(app)
        self._company.affinity(app, groups, affinity)
        spec |= {"affinity": affinity} if affinity else {}
        tolerated = dice.some((DEDICATED, HARSH, SOFT, STARTING), profile.taints)
        spec |= {"tolerations": [_tolerating(each) for each in tolerated]} if tolerated else {}
        namespace = "data" if dice.chance(15) else "shop"
        wanted = self.volumes.wanted()
        made = []
        for number in range(size):
            pod = self._pod(f"{app}-{number}", labels, spec, namespace)
            pod["spec"] = spec | self.volumes.mounted(wanted, pod["metadata"], number)
            made.append(pod)
        return made

    def _main(self) -> Manifest:
        dice = self._dice
        found = _container(dice.choice(CPUS), dice.choice(MEBIBYTES))
        if self._gpus and dice.chance(20):
            found["resources"]["requests"][GPU] = "1"
            found["resources"]["limits"] = {GPU: "1"}
        if dice.chance(self._profile.ports):
            port: dict[str, Any] = {"containerPort": 80, "hostPort": dice.choice(PORTS)}
            port |= {"protocol": "UDP"} if dice.chance(20) else {}
            port |= {"hostIP": dice.choice(("10.0.0.1", "10.0.0.2"))} if dice.chance(25) else {}
            found["ports"] = [port]
        return found

    def _node_affinity(self) -> dict[str, Any]:
        dice, asks, percent = self._dice, self._asks, self._profile.requirements // 5
        found: dict[str, Any] = {}
        terms = [asks.requirements(percent) for _ in range(2 if dice.chance(20) else 1)]
        terms = [term for term in terms if term]
        if terms:
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [{"matchExpressions": term} for term in terms]
            }
        if dice.chance(self._profile.preferences // 2):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": weight, "preference": {"matchExpressions": wish}}
                for weight in dice.sample((1, 10, 50, 100), dice.between(1, 2))
                if (wish := asks.requirements(15))
            ]
        return {"nodeAffinity": found} if any(found.values()) else {}

    def _pod(
        self, name: str, labels: dict[str, str], spec: dict[str, Any], namespace: str = "shop"
    ) -> Manifest:
        bound = "nodeName" in spec
        dice = self._dice
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{dice.between(0, 2**32):08x}-{namespace}-{name}",
                "labels": dict(labels),
                "creationTimestamp": f"2026-01-01T00:00:{dice.between(0, 3):02}Z",
            },
            "spec": spec,
            "status": {"phase": "Running" if bound else "Pending"},
        }


def _container(cpu: int, memory: int) -> Manifest:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"name": "main", "image": "app:1", "resources": {"requests": requests}}


def _tolerating(taint: dict[str, str]) -> dict[str, str]:
    return {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
