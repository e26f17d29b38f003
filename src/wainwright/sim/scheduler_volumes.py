"""Where a pod's volumes let it run: zones, unbound claims, and how many a node can attach."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from wainwright.api.kubernetes.meta import to_quantity
from wainwright.api.kubernetes.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from wainwright.api.kubernetes.workloads import Pod, PodSpec
from wainwright.controllers.runtime import Key
from wainwright.sim.informers import Informers, key_of, object_key
from wainwright.sim.node_info import NodeInfo
from wainwright.sim.node_matching import matches_node_selector, matches_topologies
from wainwright.translate.volumes import (
    DEFAULT_CLASS_ANNOTATIONS,
    NO_PROVISIONER,
    RELEVANT_SOURCES,
    STORAGE_CLASS_ANNOTATION,
    WAIT_FOR_FIRST_CONSUMER,
    claim_name,
    csi_driver,
    inline_attachment,
    persistent_attachment,
)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Set by the scheduler on a claim that waits for its first consumer."""
ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
ZONE_SEPARATOR: Final = "__"

AttachedVolume: TypeAlias = tuple[str, str]
"""Driver and handle."""


class VolumeNeeds(NamedTuple):
    """What the volumes of one pod need now."""

    problem: str = ""
    """Why the pod can be on no node at all until something changes."""
    bound: tuple[PersistentVolume, ...] = ()
    unbound: tuple[tuple[PersistentVolumeClaim, StorageClass], ...] = ()
    """Claims that wait for the pod, and their classes."""
    attached: tuple[AttachedVolume, ...] = ()


NO_VOLUMES: Final = VolumeNeeds()


class StorageObjects:
    """Claims, volumes, classes and the limits of nodes, as informers see them."""

    def __init__(self, informers: Informers) -> None:
        self.claims = informers.of(PersistentVolumeClaim).objects
        self.volumes = informers.of(PersistentVolume).objects
        self.classes = informers.of(StorageClass).objects
        self._csi_nodes = informers.of(CSINode).objects

    def class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        annotations = claim.metadata.annotations or {}
        name = annotations.get(STORAGE_CLASS_ANNOTATION, claim.spec.storageClassName)
        if name is not None:
            return self.classes.get(name)
        defaults = [each for each in self.classes.values() if _is_default(each)]
        # The youngest of several; of the same age the first by name, as the API server sorts them.
        defaults.sort(key=lambda each: each.metadata.name)
        defaults.sort(key=lambda each: each.metadata.creationTimestamp or "", reverse=True)
        return defaults[0] if defaults else None

    def attach_limits(self, node: str) -> dict[str, int]:
        found = self._csi_nodes.get(node)
        drivers = found.spec.drivers or () if found is not None else ()
        return {
            each.name: each.allocatable.count
            for each in drivers
            if each.allocatable is not None and each.allocatable.count is not None
        }

    def needs_of(self, pod: Pod) -> VolumeNeeds:
        if not pod.spec.volumes:
            return NO_VOLUMES
        bound, unbound, attached = [], [], list(_inline(pod))
        for key in claim_keys(pod):
            claim = self.claims.get(key)
            if claim is None:
                return VolumeNeeds(f'persistentvolumeclaim "{key.rpartition("/")[2]}" not found')
            volume = self.volumes.get(claim.spec.volumeName) if claim.spec.volumeName else None
            if volume is not None:
                bound.append(volume)
                attachment = persistent_attachment(volume)
                if attachment is not None:
                    attached.append((attachment.driver, attachment.volume))
                continue
            problem, storage_class = self._unbound_class(claim)
            if problem or storage_class is None:
                return VolumeNeeds(problem)
            unbound.append((claim, storage_class))
            attached.append((csi_driver(storage_class.provisioner), key))
        return VolumeNeeds("", tuple(bound), tuple(unbound), tuple(attached))

    def _unbound_class(self, claim: PersistentVolumeClaim) -> tuple[str, StorageClass | None]:
        storage_class = self.class_of(claim)
        waits = (
            storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
        )
        if claim.spec.volumeName or not waits:
            return "pod has unbound immediate PersistentVolumeClaims", None
        if SELECTED_NODE in (claim.metadata.annotations or {}):
            return "pod waits for a volume that is being made for another", None
        return "", storage_class

    def misfit(self, needs: VolumeNeeds, info: NodeInfo) -> str | None:
        """Why the volumes keep the pod off this node."""
        if not all(is_reachable(volume, info.labels, info.name) for volume in needs.bound):
            return "node(s) didn't match PersistentVolume's node affinity"
        for claim, storage_class in needs.unbound:
            if not self._can_be_made(claim, storage_class, info):
                return "node(s) didn't find available persistent volumes to bind"
        return self._excess(needs, info)

    def _can_be_made(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, info: NodeInfo
    ) -> bool:
        if storage_class.provisioner != NO_PROVISIONER:
            return matches_topologies(storage_class.allowedTopologies, info.labels)
        return self.static_volume(claim, storage_class, info.labels, info.name) is not None

    def _excess(self, needs: VolumeNeeds, info: NodeInfo) -> str | None:
        limits = self.attach_limits(info.name) if needs.attached else {}
        for driver, limit in limits.items():
            attached = info.volumes.get(driver, {})
            new = {volume for name, volume in needs.attached if name == driver}
            if new and len(attached.keys() | new) > limit:
                return "node(s) exceed max volume count"
        return None

    def static_volume(
        self,
        claim: PersistentVolumeClaim,
        storage_class: StorageClass | None,
        labels: Mapping[str, str] | None = None,
        node: str = "",
    ) -> PersistentVolume | None:
        """The smallest volume that the claim can have; with labels, one that the node reaches."""
        wanted = "" if storage_class is None else storage_class.metadata.name
        fitting = [
            each
            for each in self.volumes.values()
            if each.spec.storageClassName == wanted
            and _is_free_for(each, claim)
            and (labels is None or is_reachable(each, labels, node))
        ]
        return min(fitting, key=lambda each: (_size(each), each.metadata.name), default=None)


def _is_default(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def uses_storage(spec: PodSpec) -> bool:
    """Whether it has volumes with a place or an attachment, not only files of the node."""
    return any(
        getattr(volume, source) is not None
        for volume in spec.volumes or ()
        for source in RELEVANT_SOURCES
    )


def claim_keys(pod: Pod) -> Iterator[Key]:
    """The claims that the pod uses, in the order of its volumes."""
    for volume in pod.spec.volumes or ():
        name = claim_name(volume, pod)
        if name:
            yield object_key(pod.metadata.namespace, name)


def _inline(pod: Pod) -> Iterator[AttachedVolume]:
    for volume in pod.spec.volumes or ():
        attachment = inline_attachment(volume)
        if attachment is not None:
            yield attachment.driver, attachment.volume


def is_reachable(volume: PersistentVolume, labels: Mapping[str, str], node: str) -> bool:
    affinity = volume.spec.nodeAffinity
    if affinity is not None and affinity.required is not None:
        return matches_node_selector(affinity.required, labels, node)
    own = volume.metadata.labels or {}
    return all(
        labels.get(key) in own[key].split(ZONE_SEPARATOR) for key in ZONE_LABELS if key in own
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    holder = volume.spec.claimRef
    if holder is not None and object_key(holder.namespace, holder.name) != key_of(claim):
        return False
    modes: Iterable[str] = claim.spec.accessModes or ()
    return set(modes) <= set(volume.spec.accessModes or ()) and _size(volume) >= _requested(claim)


def _size(volume: PersistentVolume) -> int:
    return to_quantity((volume.spec.capacity or {}).get("storage", 0)).units


def _requested(claim: PersistentVolumeClaim) -> int:
    requests = claim.spec.resources.requests if claim.spec.resources is not None else None
    return to_quantity((requests or {}).get("storage", 0)).units
