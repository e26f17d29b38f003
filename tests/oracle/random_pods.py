"""Random pods: groups of equal ones, with volumes, spread, affinity and preferences."""

from typing import Any, Final

from tests.oracle.profiles import ClusterProfile, PercentRandom
from tests.oracle.random_catalog import GPU, ZONES, Manifest
from tests.oracle.random_pools import (
    DEDICATED_TAINT,
    NO_EXECUTE_TAINT,
    SOFT_TAINT,
    STARTUP_TAINT,
    RandomRequirements,
)

from wainwright.model.labels import CAPACITY_TYPE, HOSTNAME, ZONE

CSI_DRIVER: Final = "ebs.csi.aws.com"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
VOLUME_KINDS: Final = ("bound", "bound", "waiting", "zonal", "shared", "ephemeral", "nowhere")
"""Bound to a volume in one zone; not bound until a pod comes; of a class that names zones; one for
the whole group; made with the pod; and a claim that does not exist."""


class RandomVolumes:
    """Hands out volumes, and remembers every object behind them."""

    def __init__(self, rng: PercentRandom, profile: ClusterProfile) -> None:
        self._rng, self._profile = rng, profile
        self._made: list[Manifest] = []

    def wanted(self) -> str | None:
        """What kind of volume the pods of a group have, if any."""
        if not self._rng.chance(self._profile.volumes):
            return None
        return self._rng.choice(VOLUME_KINDS[:-1]) if self._rng.chance(95) else VOLUME_KINDS[-1]

    def mounted(self, kind: str | None, owner: dict[str, Any], number: int) -> dict[str, Any]:
        """The volumes of one pod, as they stand in its spec; `owner` is the pod's metadata."""
        if kind is None:
            return {}
        if kind == "ephemeral":
            return self._ephemeral(owner)
        namespace, pod = owner["namespace"], owner["name"]
        claim = pod.rpartition("-")[0] if kind == "shared" else pod
        if kind != "nowhere" and (kind != "shared" or number == 0):
            self._claim(kind, namespace, claim)
        mount = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
        return {"volumes": [mount]}

    def manifests(self) -> list[Manifest]:
        return [*_storage_classes(), *self._made] if self._profile.volumes else []

    def _ephemeral(self, owner: dict[str, Any]) -> dict[str, Any]:
        """Its claim is named after pod and volume, and belongs to the pod."""
        spec = {**_claim_spec("waiting"), "accessModes": ["ReadWriteOnce"]}
        self._claimed(owner["namespace"], f"{owner['name']}-data", "waiting")
        pod = {key: owner[key] for key in ("name", "uid")}
        reference = {"apiVersion": "v1", "kind": "Pod", "controller": True, **pod}
        self._made[-1]["metadata"]["ownerReferences"] = [reference]
        template = {"volumeClaimTemplate": {"spec": spec}}
        return {"volumes": [{"name": "data", "ephemeral": template}]}

    def _claim(self, kind: str, namespace: str, name: str) -> None:
        if kind in ("bound", "shared"):
            self._volume(namespace, name)
        self._claimed(namespace, name, "zonal" if kind == "zonal" else "waiting")

    def _volume(self, namespace: str, name: str) -> None:
        zones = self._rng.sample(tuple(ZONES), 2 if self._rng.chance(20) else 1)
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": sorted(zones)}]}
        self._made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"pv-{namespace}-{name}"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "waiting",
                    "csi": {"driver": CSI_DRIVER, "volumeHandle": f"vol-{namespace}-{name}"},
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "namespace": namespace,
                        "name": name,
                    },
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                },
                "status": {"phase": "Bound"},
            }
        )

    def _claimed(self, namespace: str, name: str, storage_class: str) -> None:
        volume = f"pv-{namespace}-{name}"
        bound = any(each["metadata"]["name"] == volume for each in self._made)
        self._made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "annotations": {BIND_COMPLETED: "yes"} if bound else {},
                },
                "spec": {
                    **_claim_spec(storage_class),
                    "accessModes": ["ReadWriteOnce"],
                    **({"volumeName": volume} if bound else {}),
                },
                "status": {"phase": "Bound" if bound else "Pending"},
            }
        )


def _claim_spec(storage_class: str) -> dict[str, Any]:
    return {"storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}


def _storage_classes() -> list[Manifest]:
    zones = {"key": ZONE, "values": sorted(ZONES)[:2]}
    return [
        _storage_class("waiting", {}),
        _storage_class("zonal", {"allowedTopologies": [_topology(zones)]}),
    ]


def _topology(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchLabelExpressions": list(expressions)}


def _storage_class(name: str, more: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": CSI_DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class RandomPodConstraints:
    """Constraints of a group; `app` is the label that its pods share."""

    def __init__(self, rng: PercentRandom, profile: ClusterProfile) -> None:
        self._rng, self._profile = rng, profile

    def spreads(self, app: str) -> dict[str, Any]:
        rng, profile = self._rng, self._profile
        found: list[dict[str, Any]] = []
        if rng.chance(profile.spread):
            found += self._spread_over(app, "DoNotSchedule")
        if rng.chance(profile.preferences // 3):
            found += self._spread_over(app, "ScheduleAnyway")
        keys = {(each["topologyKey"], each["whenUnsatisfiable"]): each for each in found}
        return {"topologySpreadConstraints": list(keys.values())} if keys else {}

    def affinity(self, app: str, groups: int, into: dict[str, Any]) -> None:
        """Adds what the pods want of each other's company to their affinity."""
        rng, profile = self._rng, self._profile
        if rng.chance(profile.affinity):
            side = "podAntiAffinity" if rng.chance(60) else "podAffinity"
            into.setdefault(side, {})[REQUIRED] = [self._term(app, groups, side)]
        if rng.chance(profile.preferences // 2):
            side = "podAntiAffinity" if rng.chance(60) else "podAffinity"
            into.setdefault(side, {})[PREFERRED] = [
                {"weight": weight, "podAffinityTerm": self._term(app, groups, side)}
                for weight in rng.sample((1, 10, 100), rng.between(1, 2))
            ]

    def anti_affinity_of_running(self, app: str) -> dict[str, Any]:
        """Now and then a pod that runs keeps others away."""
        if not self._rng.chance(self._profile.affinity // 3):
            return {}
        term = {"labelSelector": _label_selector(app), "topologyKey": HOSTNAME}
        return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}

    def _spread_over(self, app: str, otherwise: str) -> list[dict[str, Any]]:
        rng = self._rng
        keys = rng.choice(
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
        rng = self._rng
        selector = _label_selector(app) if rng.chance(85) else {"matchLabels": {"tier": "front"}}
        found: dict[str, Any] = {
            "maxSkew": rng.choice((1, 1, 1, 2, 4)),
            "topologyKey": key,
            "whenUnsatisfiable": otherwise,
            "labelSelector": selector,
        }
        if otherwise == "DoNotSchedule" and key != HOSTNAME and rng.chance(15):
            found["minDomains"] = rng.between(2, 3)
        found |= {"nodeTaintsPolicy": "Honor"} if rng.chance(10) else {}
        found |= {"nodeAffinityPolicy": "Ignore"} if rng.chance(10) else {}
        found |= {"matchLabelKeys": ["pod-template-hash"]} if rng.chance(15) else {}
        return found

    def _term(self, app: str, groups: int, side: str) -> dict[str, Any]:
        rng = self._rng
        own = rng.chance(70 if side == "podAntiAffinity" else 60)
        meant = app if own else f"app-{rng.between(0, groups - 1)}"
        found: dict[str, Any] = {
            "labelSelector": _label_selector(meant),
            "topologyKey": HOSTNAME if rng.chance(50) else ZONE,
        }
        if rng.chance(10):
            found["namespaces"] = ["shop", "data"]
        elif rng.chance(10):
            found["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "red"}}))
        return found


def _label_selector(app: str) -> dict[str, Any]:
    return {"matchLabels": {"app": app}}


CPUS: Final = (100, 250, 500, 900, 1000, 1500, 2000, 3500, 6000, 12000)
MEBIBYTES: Final = (128, 256, 512, 1024, 2048, 4096, 7000, 15000)
PORTS: Final = (8080, 8081, 9090)
TIER_LABELS: Final = ("front", "back")


class RandomPods:
    """Makes groups of pods; their volumes are kept apart."""

    def __init__(self, rng: PercentRandom, profile: ClusterProfile, types: list[Manifest]) -> None:
        self._rng, self._profile = rng, profile
        self._requirements = RandomRequirements(rng, types)
        self._company = RandomPodConstraints(rng, profile)
        self._gpus = any(GPU in kind["capacity"] for kind in types)
        self.volumes = RandomVolumes(rng, profile)

    def manifests(self) -> list[Manifest]:
        """Those to be placed, in one to six groups."""
        groups = self._rng.between(1, 6)
        return [pod for number in range(groups) for pod in self._group(f"app-{number}", groups)]

    def running(self, app: str, node: str, count: int) -> list[Manifest]:
        """Pods that run on a node already, and look like those of a group."""
        return [
            self._pod(
                f"{app}-on-{node}-{number}",
                {"app": app, "tier": self._rng.choice(TIER_LABELS)},
                {
                    "nodeName": node,
                    "containers": [_container(self._rng.choice((100, 250, 500)), 128)],
                    **self._company.anti_affinity_of_running(app),
                },
            )
            for number in range(count)
        ]

    def _group(self, app: str, groups: int) -> list[Manifest]:
        rng, profile = self._rng, self._profile
        size = rng.choice((1, 1, 2, 3, 4, 6, 9, 14))
        labels = {
            "app": app,
            "tier": rng.choice(TIER_LABELS),
            "pod-template-hash": rng.choice("xy"),
        }
        spec: dict[str, Any] = {"containers": [self._main()]}
        affinity = self._node_affinity()
        spec |= self._company.spreads(app)
        self._company.affinity(app, groups, affinity)
        spec |= {"affinity": affinity} if affinity else {}
        tolerated = rng.some(
            (DEDICATED_TAINT, NO_EXECUTE_TAINT, SOFT_TAINT, STARTUP_TAINT), profile.taints
        )
        spec |= {"tolerations": [_tolerating(each) for each in tolerated]} if tolerated else {}
        namespace = "data" if rng.chance(15) else "shop"
        wanted = self.volumes.wanted()
        made = []
        for number in range(size):
            pod = self._pod(f"{app}-{number}", labels, spec, namespace)
            pod["spec"] = spec | self.volumes.mounted(wanted, pod["metadata"], number)
            made.append(pod)
        return made

    def _main(self) -> Manifest:
        rng = self._rng
        found = _container(rng.choice(CPUS), rng.choice(MEBIBYTES))
        if self._gpus and rng.chance(20):
            found["resources"]["requests"][GPU] = "1"
            found["resources"]["limits"] = {GPU: "1"}
        if rng.chance(self._profile.ports):
            port: dict[str, Any] = {"containerPort": 80, "hostPort": rng.choice(PORTS)}
            port |= {"protocol": "UDP"} if rng.chance(20) else {}
            port |= {"hostIP": rng.choice(("10.0.0.1", "10.0.0.2"))} if rng.chance(25) else {}
            found["ports"] = [port]
        return found

    def _node_affinity(self) -> dict[str, Any]:
        rng, random_requirements, percent = (
            self._rng,
            self._requirements,
            self._profile.requirements // 5,
        )
        found: dict[str, Any] = {}
        terms = [
            random_requirements.requirements(percent) for _ in range(2 if rng.chance(20) else 1)
        ]
        terms = [term for term in terms if term]
        if terms:
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [{"matchExpressions": term} for term in terms]
            }
        if rng.chance(self._profile.preferences // 2):
            found["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": weight, "preference": {"matchExpressions": preference}}
                for weight in rng.sample((1, 10, 50, 100), rng.between(1, 2))
                if (preference := random_requirements.requirements(15))
            ]
        return {"nodeAffinity": found} if any(found.values()) else {}

    def _pod(
        self, name: str, labels: dict[str, str], spec: dict[str, Any], namespace: str = "shop"
    ) -> Manifest:
        bound = "nodeName" in spec
        rng = self._rng
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{rng.between(0, 2**32):08x}-{namespace}-{name}",
                "labels": dict(labels),
                "creationTimestamp": f"2026-01-01T00:00:{rng.between(0, 3):02}Z",
            },
            "spec": spec,
            "status": {"phase": "Running" if bound else "Pending"},
        }


def _container(cpu: int, memory: int) -> Manifest:
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {"name": "main", "image": "app:1", "resources": {"requests": requests}}


def _tolerating(taint: dict[str, str]) -> dict[str, str]:
    return {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
