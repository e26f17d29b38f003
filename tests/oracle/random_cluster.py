"""Random clusters as manifests, which our planner and Karpenter's scheduler are both given: nodes,
daemonsets, and everything else put together by profile and seed.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

import msgspec
from tests.oracle.profiles import PROFILES, ClusterProfile, PercentRandom
from tests.oracle.random_catalog import (
    REGION,
    ZONES,
    Manifest,
    Shortage,
    add_reservations,
    allocatable,
    instance_types,
)
from tests.oracle.random_pods import CSI_DRIVER, RandomPods
from tests.oracle.random_pools import (
    DEDICATED_TAINT,
    NO_EXECUTE_TAINT,
    SOFT_TAINT,
    STARTUP_TAINT,
    RandomPools,
    RandomRequirements,
)

from wainwright.model.labels import (
    CAPACITY_TYPE,
    HOSTNAME,
    INITIALIZED,
    NODEPOOL,
    OFFERING_LABELS,
    ON_DEMAND,
    REGISTERED,
    SPOT,
    WELL_KNOWN_LABELS,
    ZONE,
    ZONE_ID,
)
from wainwright.model.plan import MinValuesPolicy, PlanOptions, PreferencePolicy

NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
REGISTERED_REQUIREMENT: Final = {"key": REGISTERED, "operator": "In", "values": ["true"]}
DELETION_TIMESTAMP: Final = "2026-01-01T00:10:00Z"


class RandomNodes:
    """The existing nodes of a cluster, and its daemonsets."""

    def __init__(
        self,
        rng: PercentRandom,
        profile: ClusterProfile,
        types: list[Manifest],
        pools: list[Manifest],
    ) -> None:
        self._rng, self._profile, self._types, self._pools = rng, profile, types, pools
        self._requirements = RandomRequirements(rng, types)

    def manifests(self, pods: RandomPods) -> list[Manifest]:
        found = self._daemonsets()
        if self._rng.chance(self._profile.nodes):
            for number in range(self._rng.between(1, 4)):
                found += self._node_manifests(f"node-{number}", pods)
            found += self._budgets()
        return found

    def _daemonsets(self) -> list[Manifest]:
        chosen = self._rng.some(("logs", "metrics"), self._profile.daemonsets)
        return [self._daemonset(name) for name in chosen]

    def _daemonset(self, name: str) -> Manifest:
        rng = self._rng
        requests = {"cpu": f"{rng.choice((50, 200, 400))}m", "memory": "128Mi"}
        container: dict[str, Any] = {"name": "main", "image": "agent:1"}
        container["resources"] = {"requests": requests}
        if rng.chance(self._profile.ports // 5):
            container["ports"] = [{"containerPort": 80, "hostPort": 9090}]
        spec: dict[str, Any] = {"containers": [container]}
        if rng.chance(60):
            spec["tolerations"] = [{"operator": "Exists"}]
        asked = self._requirements.requirements(8) if rng.chance(40) else []
        asked += [REGISTERED_REQUIREMENT] if rng.chance(10) else []
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

    def _node_manifests(self, name: str, pods: RandomPods) -> list[Manifest]:
        rng = self._rng
        kind, zone = rng.choice(self._types), rng.choice(tuple(ZONES))
        labels = {each["key"]: each["values"][0] for each in kind["requirements"]}
        labels |= {ZONE: zone, ZONE_ID: ZONES[zone], HOSTNAME: name}
        if rng.chance(15):
            return self._under_way(name, labels, kind)
        app = f"app-{rng.between(0, 3)}"
        running = pods.running(app, name, rng.choice((0, 0, 1, 2)))
        made = self._csi_node(name) + running
        if not rng.chance(80):
            return [*made, _node(name, labels, kind, {"taints": self._foreign_taints()})]
        return made + self._managed(name, labels, kind)

    def _managed(self, name: str, labels: dict[str, str], kind: Manifest) -> list[Manifest]:
        rng, pool = self._rng, self._rng.choice(self._pools)
        template = pool["spec"]["template"]
        labels = labels | template["metadata"]["labels"]
        labels |= {NODEPOOL: pool["metadata"]["name"], REGISTERED: "true"}
        labels |= {CAPACITY_TYPE: rng.choice((SPOT, ON_DEMAND))}
        ready = rng.chance(60)
        labels |= {INITIALIZED: "true"} if ready else {}
        lasting = template["spec"].get("taints", [])
        passing = [] if ready else [NOT_READY, *template["spec"].get("startupTaints", [])]
        provider = f"aws:///{labels[ZONE]}/i-{name}"
        claim = _claim(name, labels, template["spec"], kind, provider)
        if rng.chance(15):
            claim["metadata"] |= {
                "deletionTimestamp": DELETION_TIMESTAMP,
                "finalizers": ["karpenter.sh/termination"],
            }
        spec = {"providerID": provider, "taints": [*lasting, *passing]}
        return [claim, _node(name, labels, kind, spec)]

    def _under_way(self, name: str, labels: dict[str, str], kind: Manifest) -> list[Manifest]:
        """A claim that has been launched, whose node has not joined yet."""
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
            for app in self._rng.some(("app-0", "app-1"), 10)
        ]

    def _foreign_taints(self) -> list[dict[str, str]]:
        return self._rng.some(
            (DEDICATED_TAINT, NO_EXECUTE_TAINT, SOFT_TAINT, STARTUP_TAINT),
            self._profile.taints // 2,
        )

    def _csi_node(self, name: str) -> list[Manifest]:
        if not self._rng.chance(self._profile.volumes):
            return []
        driver = {
            "name": CSI_DRIVER,
            "nodeID": name,
            "allocatable": {"count": self._rng.between(1, 3)},
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


NAMESPACES: Final = {"shop": {"team": "red"}, "data": {"team": "blue"}, "kube-system": {}}


class RandomCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A random cluster: everything that affects scheduling."""

    profile: str
    seed: int
    objects: tuple[Manifest, ...]
    """Of Kubernetes and of the API, the pods to be placed among them."""
    types: tuple[Manifest, ...]
    """The instance types of a Catalog."""
    options: PlanOptions

    @property
    def catalog(self) -> Manifest:
        return {
            "apiVersion": "wainwright.dev/v1alpha1",
            "kind": "Catalog",
            "region": REGION,
            "instanceTypes": list(self.types),
        }

    def documents(self) -> list[Manifest]:
        """All of it as the offline commands read it."""
        return [*self.objects, self.catalog]

    def question(self, *, workers: int = 1, brief: bool = False) -> dict[str, Any]:
        """All of it as the oracle reads it."""
        return {
            "objects": self.objects,
            "instanceTypes": self.types,
            "wellKnownLabels": sorted(WELL_KNOWN_LABELS | set(self._type_labels())),
            "offeringLabels": sorted(OFFERING_LABELS),
            "options": {
                "minValuesPolicy": self.options.min_values_policy,
                "preferencePolicy": self.options.preference_policy,
                "reservedCapacity": self.options.capacity_reservations,
                "workers": workers,
                "brief": brief,
            },
        }

    def kinds(self, kind: str) -> list[Manifest]:
        return [each for each in self.objects if each["kind"] == kind]

    def _type_labels(self) -> Iterator[str]:
        for kind in self.types:
            yield from (each["key"] for each in kind["requirements"])


def random_cluster(profile: str, seed: int) -> RandomCluster:
    """The cluster that belongs to the seed."""
    return _ClusterMaker(profile, PROFILES[profile], seed).cluster()


class _ClusterMaker:
    def __init__(self, name: str, profile: ClusterProfile, seed: int) -> None:
        self._name, self._profile, self._seed = name, profile, seed
        self._rng = PercentRandom(Random(f"{name}/{seed}"))

    def cluster(self) -> RandomCluster:
        types = self._types()
        pools = RandomPools(self._rng, self._profile, types).manifests()
        pods = RandomPods(self._rng, self._profile, types)
        pending = pods.manifests()
        nodes = RandomNodes(self._rng, self._profile, types, pools).manifests(pods)
        return RandomCluster(
            profile=self._name,
            seed=self._seed,
            objects=(*_namespaces(), *pools, *nodes, *pods.volumes.manifests(), *pending),
            types=tuple(types),
            options=self._options(),
        )

    def _types(self) -> list[Manifest]:
        rng, profile = self._rng, self._profile
        percent = rng.choice((0, 5, 30)) if rng.chance(profile.shortages) else 0
        zone = rng.choice(tuple(ZONES)) if rng.chance(profile.dry_zones) else None
        gpus = rng.chance(profile.requirements // 4)
        types = instance_types(rng.random, Shortage(percent, zone), gpus=gpus)
        if rng.chance(profile.reservations):
            add_reservations(rng.random, types, rng.choice((1, 2, 3, 4, 6)))
        return types

    def _options(self) -> PlanOptions:
        rng, profile = self._rng, self._profile
        lenient = rng.chance(profile.min_values // 3)
        heedless = rng.chance(profile.preferences // 4)
        return PlanOptions(
            min_values_policy=MinValuesPolicy.BEST_EFFORT if lenient else MinValuesPolicy.STRICT,
            preference_policy=PreferencePolicy.IGNORE if heedless else PreferencePolicy.RESPECT,
            capacity_reservations=not rng.chance(profile.reservations // 20),
        )


def _namespaces() -> list[Manifest]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in NAMESPACES.items()
    ]
