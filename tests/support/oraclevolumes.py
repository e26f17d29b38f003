"""Volumes of random worlds: claims bound and unbound, classes with topologies, attach limits."""

from typing import Any, Final

from tests.support.oraclecatalogue import ZONES, Manifest
from tests.support.oracleprofiles import Dice, Profile

from wainwright.model.labels import ZONE

DRIVER: Final = "ebs.csi.aws.com"
BOUND: Final = "pv.kubernetes.io/bind-completed"
KINDS: Final = ("bound", "bound", "waiting", "zonal", "shared", "ephemeral", "nowhere")
"""Bound to a volume in one zone; not bound until a pod comes; of a class that names zones; one for
the whole group; made with the pod; and a claim that does not exist."""


class Volumes:
    """Hands out volumes, and remembers every object behind them."""

    def __init__(self, dice: Dice, profile: Profile) -> None:
        self._dice, self._profile = dice, profile
        self._made: list[Manifest] = []

    def wanted(self) -> str | None:
        """What kind of volume the pods of a group have, if any."""
        if not self._dice.chance(self._profile.volumes):
            return None
        return self._dice.choice(KINDS[:-1]) if self._dice.chance(95) else KINDS[-1]

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
        return [*_classes(), *self._made] if self._profile.volumes else []

    def _ephemeral(self, owner: dict[str, Any]) -> dict[str, Any]:
        """Its claim is named after pod and volume, and belongs to the pod."""
        spec = {**_asking("waiting"), "accessModes": ["ReadWriteOnce"]}
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
        zones = self._dice.sample(tuple(ZONES), 2 if self._dice.chance(20) else 1)
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
                    "csi": {"driver": DRIVER, "volumeHandle": f"vol-{namespace}-{name}"},
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
                    "annotations": {BOUND: "yes"} if bound else {},
                },
                "spec": {
                    **_asking(storage_class),
                    "accessModes": ["ReadWriteOnce"],
                    **({"volumeName": volume} if bound else {}),
                },
                "status": {"phase": "Bound" if bound else "Pending"},
            }
        )


def _asking(storage_class: str) -> dict[str, Any]:
    return {"storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}


def _classes() -> list[Manifest]:
    zones = {"key": ZONE, "values": sorted(ZONES)[:2]}
    return [_class("waiting", {}), _class("zonal", {"allowedTopologies": [_topology(zones)]})]


def _topology(*expressions: dict[str, Any]) -> dict[str, Any]:
    return {"matchLabelExpressions": list(expressions)}


def _class(name: str, more: dict[str, Any]) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }
