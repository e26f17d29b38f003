"""Volumes of a simulated cluster: claims get volumes, and volumes are attached where pods run.

Of kube-controller-manager and a CSI driver together: claims of pods' ephemeral volumes, binding
and provisioning, reclaiming, VolumeAttachments. A claim that waits for its first consumer is given
a volume when the scheduler has chosen a node for it, in the zone of that node.
"""

from hashlib import sha256
from typing import Any, Final

from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.meta import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
)
from wainwright.api.kubernetes.operations import (
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from wainwright.api.kubernetes.storage import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimTemplate,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
)
from wainwright.api.kubernetes.workloads import Pod
from wainwright.api.wire import ObjectMeta, OwnerReference
from wainwright.controllers.runtime import Key
from wainwright.errors import AlreadyExistsError
from wainwright.sim.informers import (
    Informers,
    KeyedWorker,
    PodsByNode,
    earliest,
    key_of,
    object_key,
    split_key,
)
from wainwright.sim.node_info import is_finished
from wainwright.sim.node_matching import matches_topologies
from wainwright.sim.scheduler_volumes import SELECTED_NODE, StorageObjects, claim_keys, uses_storage
from wainwright.translate.volumes import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
    csi_driver,
    persistent_attachment,
)

ZONE: Final = "topology.kubernetes.io/zone"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
ATTACHMENT_SEPARATOR: Final = "@"


class VolumeBinder:
    def __init__(
        self,
        informers: Informers,
        pods_by_node: PodsByNode,
        zones: tuple[str, ...] = (),
    ) -> None:
        """`zones`: where volumes can be made that no pod was waited for; else those of nodes."""
        self._cluster, self._zones = informers.cluster, zones
        self._pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._claims = informers.of(PersistentVolumeClaim)
        self._volumes = informers.of(PersistentVolume)
        self._attachments = informers.of(VolumeAttachment)
        self._storage = StorageObjects(informers)
        self._by_node = pods_by_node
        clock = informers.clock
        self._claim_worker = KeyedWorker(clock, self._work_on_claim)
        self._ephemeral_worker = KeyedWorker(clock, self._create_ephemeral_claims)
        self._attach_worker = KeyedWorker(clock, self._work_on_attachment)
        self._unbound: dict[Key, None] = {}
        self._users: dict[Key, dict[Key, None]] = {}
        """Pods on nodes by the claims that they use."""
        self._attached: dict[Key, list[Key]] = {}
        self._follow(informers)

    def _follow(self, informers: Informers) -> None:
        self._pods.add_handler(self._pod_changed)
        self._claims.add_handler(self._claim_changed)
        self._volumes.add_handler(self._volume_changed)
        informers.of(StorageClass).add_handler(self._storage_changed)
        self._nodes.add_handler(self._node_changed)

    @property
    def next_due(self) -> float | None:
        return earliest(
            self._claim_worker.next_due,
            self._ephemeral_worker.next_due,
            self._attach_worker.next_due,
        )

    async def run_claims(self) -> None:
        await self._claim_worker.run()

    async def run_ephemeral(self) -> None:
        await self._ephemeral_worker.run()

    async def run_attachments(self) -> None:
        for each in self._attachments.objects.values():
            volume = each.spec.source.persistentVolumeName
            if volume is not None:
                self._attach_worker.add(_attachment_key(volume, each.spec.nodeName))
        await self._attach_worker.run()

    # Changes

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        pod = after if after is not None else before
        assert pod is not None
        if not uses_storage(pod.spec):
            return
        key = key_of(pod)
        if after is not None and any(each.ephemeral for each in after.spec.volumes or ()):
            self._ephemeral_worker.add(key)
        for claim in claim_keys(pod):
            users = self._users.setdefault(claim, {})
            if after is None or is_finished(after) or not after.spec.nodeName:
                users.pop(key, None)
            else:
                users[key] = None
            if not users:
                del self._users[claim]
            self._look_at_attachment(claim, pod.spec.nodeName)

    def _look_at_attachment(self, claim_key: Key, node: str) -> None:
        claim = self._claims.objects.get(claim_key)
        volume = claim.spec.volumeName if claim is not None else self._last_volume(claim_key)
        if node and volume:
            self._attach_worker.add(_attachment_key(volume, node))

    def _last_volume(self, claim_key: Key) -> str:
        """The volume of a claim that is gone before its pod's last event."""
        for each in self._volumes.objects.values():
            holder = each.spec.claimRef
            if holder is not None and object_key(holder.namespace, holder.name) == claim_key:
                return each.metadata.name
        return ""

    def _claim_changed(
        self, before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None
    ) -> None:
        claim = after if after is not None else before
        assert claim is not None
        key = key_of(claim)
        if after is None:
            self._unbound.pop(key, None)
        elif after.spec.volumeName and after.status.phase == "Bound":
            self._unbound.pop(key, None)
            for pod in self._users.get(key, ()):
                self._look_at_attachment(key, self._node_of(pod))
            return
        else:
            self._unbound[key] = None
        self._claim_worker.add(key)

    def _node_of(self, pod_key: Key) -> str:
        pod = self._pods.objects.get(pod_key)
        return pod.spec.nodeName if pod is not None else ""

    def _volume_changed(
        self, before: PersistentVolume | None, after: PersistentVolume | None
    ) -> None:
        if before is None or after is None or before.spec != after.spec:
            self._look_at_unbound()

    def _storage_changed(self, _before: object, _after: object) -> None:
        self._look_at_unbound()

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None:
            self._look_at_unbound()

    def _look_at_unbound(self) -> None:
        for key in self._unbound:
            self._claim_worker.add(key)

    # Claims

    async def _create_ephemeral_claims(self, key: Key) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod.metadata.deletionTimestamp is not None:
            return
        owner = OwnerReference(
            apiVersion="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            controller=True,
            blockOwnerDeletion=True,
        )
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is None:
                continue
            template = volume.ephemeral.volumeClaimTemplate or PersistentVolumeClaimTemplate()
            name = f"{pod.metadata.name}-{volume.name}"
            if object_key(pod.metadata.namespace, name) in self._claims.objects:
                continue
            await self._create_claim(template, name, pod.metadata.namespace, owner)

    async def _create_claim(
        self,
        template: PersistentVolumeClaimTemplate,
        name: str,
        namespace: str,
        owner: OwnerReference,
    ) -> None:
        metadata = ObjectMeta(
            name=name,
            namespace=namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            ownerReferences=[owner],
        )
        claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
        self._claims.observe(await self._cluster.create(claim))

    async def _work_on_claim(self, key: Key) -> None:
        claim = self._claims.objects.get(key)
        if claim is None:
            await self._reclaim(key)
        elif not claim.spec.volumeName or claim.status.phase != "Bound":
            await self._bind(key, claim)

    async def _reclaim(self, key: Key) -> None:
        """Deletes the volumes that were made for a claim which is gone."""
        held = [
            each
            for each in self._volumes.objects.values()
            if each.spec.claimRef is not None
            and object_key(each.spec.claimRef.namespace, each.spec.claimRef.name) == key
            and PROVISIONED_BY in (each.metadata.annotations or {})
        ]
        for each in held:
            await self._cluster.delete(PersistentVolume, each.metadata.name)

    async def _bind(self, key: Key, claim: PersistentVolumeClaim) -> None:
        if claim.spec.volumeName:
            volume = self._volumes.objects.get(claim.spec.volumeName)
        else:
            volume = await self._find_volume(claim)
        if volume is None:
            return
        if volume.spec.claimRef is None or not volume.spec.claimRef.uid:
            volume = await self._hold(volume, claim)
        namespace, name = split_key(key)
        metadata = {"annotations": {BIND_COMPLETED: "yes"}}
        spec = {"volumeName": volume.metadata.name}
        patch: dict[str, Any] = {"metadata": metadata, "spec": spec}
        await self._cluster.patch(PersistentVolumeClaim, name, patch, namespace)
        status = {
            "phase": "Bound",
            "accessModes": volume.spec.accessModes,
            "capacity": volume.spec.capacity,
        }
        bound = await self._cluster.patch_status(
            PersistentVolumeClaim, name, {"status": status}, namespace
        )
        self._claims.observe(bound)

    async def _find_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        storage_class = self._storage.class_of(claim)
        waits = (
            storage_class is not None and storage_class.volumeBindingMode == WAIT_FOR_FIRST_CONSUMER
        )
        selected = (claim.metadata.annotations or {}).get(SELECTED_NODE, "")
        node = self._nodes.objects.get(selected)
        if waits and node is None:
            if selected:
                await self._unselect(claim)
            return None
        labels = (node.metadata.labels or {}) if waits and node is not None else None
        found = self._storage.static_volume(claim, storage_class, labels, selected)
        if found is not None or storage_class is None:
            return found
        if storage_class.provisioner == NO_PROVISIONER:
            if selected:
                await self._unselect(claim)
            return None
        zone = (labels or {}).get(ZONE, "") if waits else self._immediate_zone(claim, storage_class)
        if not zone and not waits:
            return None  # no node and no zone is known yet
        return await self._provision(claim, storage_class, zone)

    async def _unselect(self, claim: PersistentVolumeClaim) -> None:
        """The node is gone, or its volume taken: the scheduler has to choose again."""
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        changed = await self._cluster.patch(
            PersistentVolumeClaim, claim.metadata.name, patch, claim.metadata.namespace
        )
        self._claims.observe(changed)

    def _immediate_zone(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> str:
        """A zone for a volume that nobody is waited for: by the claim's name, as CSI drivers do."""
        known = self._zones or tuple(
            sorted(
                {(each.metadata.labels or {}).get(ZONE, "") for each in self._all_nodes()} - {""}
            )
        )
        allowed = [
            zone
            for zone in known
            if matches_topologies(storage_class.allowedTopologies, {ZONE: zone})
        ]
        number = int.from_bytes(sha256(claim.metadata.name.encode()).digest()[:4])
        return allowed[number % len(allowed)] if allowed else ""

    def _all_nodes(self) -> list[Node]:
        return list(self._nodes.objects.values())

    async def _provision(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, zone: str
    ) -> PersistentVolume | None:
        name = f"pvc-{claim.metadata.uid}"
        requests = claim.spec.resources.requests if claim.spec.resources is not None else None
        in_zone = NodeSelectorTerm(
            matchExpressions=[NodeSelectorRequirement(key=ZONE, operator="In", values=[zone])]
        )
        required = NodeSelector(nodeSelectorTerms=[in_zone])
        digest = sha256(claim.metadata.uid.encode()).hexdigest()
        spec = PersistentVolumeSpec(
            accessModes=claim.spec.accessModes or ["ReadWriteOnce"],
            capacity={"storage": (requests or {}).get("storage", "1Gi")},
            claimRef=_reference(claim),
            csi=CSIPersistentVolumeSource(
                driver=csi_driver(storage_class.provisioner), volumeHandle=f"vol-0{digest[:16]}"
            ),
            nodeAffinity=VolumeNodeAffinity(required=required) if zone else None,
            storageClassName=storage_class.metadata.name,
            volumeMode=claim.spec.volumeMode,
        )
        is_deleted_after = storage_class.reclaimPolicy != "Retain"
        annotations = {PROVISIONED_BY: storage_class.provisioner} if is_deleted_after else None
        volume = PersistentVolume(
            metadata=ObjectMeta(name=name, annotations=annotations), spec=spec
        )
        try:
            made = await self._cluster.create(volume)
        except AlreadyExistsError:
            made = await self._cluster.get(PersistentVolume, name)
        self._volumes.observe(made)
        return made

    async def _hold(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> PersistentVolume:
        reference = _reference(claim)
        patch = {
            "metadata": {"resourceVersion": volume.metadata.resourceVersion},
            "spec": {
                "claimRef": {
                    field: getattr(reference, field) for field in reference.__struct_fields__
                }
            },
        }
        held = await self._cluster.patch(PersistentVolume, volume.metadata.name, patch)
        self._volumes.observe(held)
        return held

    # Attachments

    async def _work_on_attachment(self, key: str) -> None:
        volume_name, _, node = key.partition(ATTACHMENT_SEPARATOR)
        name = attachment_name(volume_name, node)
        is_used = self._is_used(volume_name, node)
        is_attached = name in self._attachments.objects
        if is_used and not is_attached:
            await self._attach(volume_name, node)
        elif is_attached and not is_used:
            await self._cluster.delete(VolumeAttachment, name)

    def _is_used(self, volume_name: str, node: str) -> bool:
        volume = self._volumes.objects.get(volume_name)
        holder = volume.spec.claimRef if volume is not None else None
        if holder is None:
            return False
        users = self._users.get(object_key(holder.namespace, holder.name), {})
        return any(self._node_of(each) == node for each in users)

    async def _attach(self, volume_name: str, node: str) -> None:
        volume = self._volumes.objects[volume_name]
        attachment = persistent_attachment(volume)
        if attachment is None:
            return  # a network share or a directory of the node
        made = VolumeAttachment(
            metadata=ObjectMeta(name=attachment_name(volume_name, node)),
            spec=VolumeAttachmentSpec(
                attacher=attachment.driver,
                nodeName=node,
                source=VolumeAttachmentSource(persistentVolumeName=volume_name),
            ),
        )
        self._attachments.observe(await self._cluster.create(made))
        changed = await self._cluster.patch_status(
            VolumeAttachment, made.metadata.name, {"status": {"attached": True}}
        )
        self._attachments.observe(changed)


def _attachment_key(volume: str, node: str) -> str:
    return f"{volume}{ATTACHMENT_SEPARATOR}{node}"


def attachment_name(volume: str, node: str) -> str:
    """As kube-controller-manager makes it: a hash, the same for the same volume and node."""
    return f"csi-{sha256(f'{volume}{node}'.encode()).hexdigest()}"


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        apiVersion="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
    )
