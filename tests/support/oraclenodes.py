"""Nodes of random worlds: ours and others', ready or not, staying or going, and daemonsets."""

from typing import Any, Final

from tests.support.oracleasks import Asks
from tests.support.oraclecatalogue import ZONES, Manifest, allocatable
from tests.support.oraclepods import Pods
from tests.support.oraclepools import DEDICATED, HARSH, SOFT, STARTING
from tests.support.oracleprofiles import Dice, Profile
from tests.support.oraclevolumes import DRIVER

from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    NODEPOOL,
    ON_DEMAND,
    REGISTERED,
    SPOT,
    ZONE,
    ZONE_ID,
)

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
JOINED: Final = {"key": REGISTERED, "operator": "In", "values": ["true"]}
DELETED: Final = "2026-01-01T00:10:00Z"


class Nodes:
    """What stands already in a world, and the daemonsets that run on everything."""

    def __init__(
        self, dice: Dice, profile: Profile, types: list[Manifest], pools: list[Manifest]
    ) -> None:
        self._dice, self._profile, self._types, self._pools = dice, profile, types, pools
        self._asks = Asks(dice, types)

    def manifests(self, pods: Pods) -> list[Manifest]:
        found = self._daemonsets()
        if self._dice.chance(self._profile.nodes):
            for number in range(self._dice.between(1, 4)):
                found += self._machine(f"node-{number}", pods)
            found += self._budgets()
        return found

    def _daemonsets(self) -> list[Manifest]:
        chosen = self._dice.some(("logs", "metrics"), self._profile.daemonsets)
        return [self._daemonset(name) for name in chosen]

    def _daemonset(self, name: str) -> Manifest:
        dice = self._dice
        requests = {"cpu": f"{dice.choice((50, 200, 400))}m", "memory": "128Mi"}
        container: dict[str, Any] = {"name": "main", "image": "agent:1"}
        container["resources"] = {"requests": requests}
        if dice.chance(self._profile.ports // 5):
            container["ports"] = [{"containerPort": 80, "hostPort": 9090}]
        spec: dict[str, Any] = {"containers": [container]}
        if dice.chance(60):
            spec["tolerations"] = [{"operator": "Exists"}]
        asked = self._asks.requirements(8) if dice.chance(40) else []
        asked += [JOINED] if dice.chance(10) else []
        if asked:
            wanted = {"nodeSelectorTerms": [{"matchExpressions": asked}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": wanted}
            spec["affinity"] = {"nodeAffinity": required}
        labels = {"daemon": name}
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system", "uid": f"ds-{name}"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }

    def _machine(self, name: str, pods: Pods) -> list[Manifest]:
        dice = self._dice
        kind, zone = dice.choice(self._types), dice.choice(tuple(ZONES))
        labels = {each["key"]: each["values"][0] for each in kind["requirements"]}
        labels |= {ZONE: zone, ZONE_ID: ZONES[zone], HOSTNAME: name}
        if dice.chance(15):
            return self._under_way(name, labels, kind)
        app = f"app-{dice.between(0, 3)}"
        running = pods.running(app, name, dice.choice((0, 0, 1, 2)))
        made = self._csi_node(name) + running
        if not dice.chance(80):
            return [*made, _node(name, labels, kind, {"taints": self._foreign_taints()})]
        return made + self._managed(name, labels, kind)

    def _managed(self, name: str, labels: dict[str, str], kind: Manifest) -> list[Manifest]:
        dice, pool = self._dice, self._dice.choice(self._pools)
        template = pool["spec"]["template"]
        labels = labels | template["metadata"]["labels"]
        labels |= {NODEPOOL: pool["metadata"]["name"], REGISTERED: "true"}
        labels |= {CAPACITY_TYPE: dice.choice((SPOT, ON_DEMAND))}
        ready = dice.chance(60)
        labels |= {INITIALIZED: "true"} if ready else {}
        lasting = template["spec"].get("taints", [])
        passing = [] if ready else [NOT_READY, *template["spec"].get("startupTaints", [])]
        provider = f"aws:///{labels[ZONE]}/i-{name}"
        claim = _claim(name, labels, template["spec"], kind, provider)
        if dice.chance(15):
            claim["metadata"] |= {
                "deletionTimestamp": DELETED,
                "finalizers": ["karpenter.sh/termination"],
            }
        spec = {"providerID": provider, "taints": [*lasting, *passing]}
        return [claim, _node(name, labels, kind, spec)]

    def _under_way(self, name: str, labels: dict[str, str], kind: Manifest) -> list[Manifest]:
        """A machine that has been launched, and whose node has not joined yet."""
        found = self._managed(name, labels, kind)[0]
        found["metadata"]["labels"] = {
            key: value
            for key, value in found["metadata"]["labels"].items()
            if key not in (REGISTERED, INITIALIZED, HOSTNAME)
        }
        del found["status"]["nodeName"]
        return [found]

    def _budgets(self) -> list[Manifest]:
        """Some pods may not be moved."""
        return [
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": app, "namespace": "shop"},
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
            }
            for app in self._dice.some(("app-0", "app-1"), 10)
        ]

    def _foreign_taints(self) -> list[dict[str, str]]:
        return self._dice.some((DEDICATED, HARSH, SOFT, STARTING), self._profile.taints // 2)

    def _csi_node(self, name: str) -> list[Manifest]:
        if not self._dice.chance(self._profile.volumes):
            return []
        driver = {
            "name": DRIVER,
            "nodeID": name,
            "allocatable": {"count": self._dice.between(1, 3)},
        }
        return [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {"name": name},
                "spec": {"drivers": [driver]},
            }
        ]


def _node(name: str, labels: dict[str, str], kind: Manifest, spec: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": kind["capacity"], "allocatable": allocatable(kind)},
    }


def _claim(
    name: str, labels: dict[str, str], template: dict[str, Any], kind: Manifest, provider: str
) -> Manifest:
    started = {key: template[key] for key in ("taints", "startupTaints") if key in template}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"claim-{name}", "labels": dict(labels)},
        "spec": {
            "nodeClassRef": template["nodeClassRef"],
            "requirements": [],
            **started,
        },
        "status": {
            "nodeName": name,
            "providerID": provider,
            "capacity": kind["capacity"],
            "allocatable": allocatable(kind),
        },
    }
