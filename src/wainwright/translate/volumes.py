"""Volumes of pods: claims, CSI drivers, topology, attachments and problems."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Any, Final

import msgspec

from wainwright.api.kubernetes.storage import (
    CSINode,
    InTreeVolumeSources,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimTemplate,
    StorageClass,
    Volume,
)
from wainwright.api.kubernetes.workloads import Pod, PodSpec, StatefulSet
from wainwright.api.wire import ObjectMeta
from wainwright.model.labels import HOSTNAME, REGION, ZONE, normalize_label
from wainwright.model.pod import (
    ANY_NODE_TERMS,
    EBS_CSI_DRIVER,
    PodVolume,
    VolumeAttachment,
    VolumeProblem,
)
from wainwright.model.requirements import NO_REQUIREMENTS, RequirementEntry, Requirements
from wainwright.translate.object_metadata import name_or_prefix, namespace_of, parse_timestamp
from wainwright.translate.requirements import NodeAffinityTranslator, any_of

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of storage classes whose volumes are created by hand."""

EBS_PROVISIONER: Final = "kubernetes.io/aws-ebs"
GCE_PROVISIONER: Final = "kubernetes.io/gce-pd"
MIGRATED_PROVISIONERS: Final = {
    EBS_PROVISIONER: EBS_CSI_DRIVER,
    GCE_PROVISIONER: "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""In-tree provisioners, and the CSI drivers that replaced them."""

IN_TREE_DISKS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "awsElasticBlockStore": (EBS_PROVISIONER, lambda disk: disk.volumeID.rpartition("/")[2]),
    "gcePersistentDisk": (GCE_PROVISIONER, lambda disk: disk.pdName),
    "azureDisk": ("kubernetes.io/azure-disk", lambda disk: disk.diskURI or disk.diskName),
    "azureFile": (
        "kubernetes.io/azure-file",
        lambda disk: f"{disk.secretName}/{disk.shareName}".strip("/"),
    ),
    "cinder": ("kubernetes.io/cinder", lambda disk: disk.volumeID),
    "portworxVolume": ("kubernetes.io/portworx-volume", lambda disk: disk.volumeID),
    "vsphereVolume": ("kubernetes.io/vsphere-volume", lambda disk: disk.volumePath),
}
"""By field of a volume: its in-tree provisioner, and the ID of the disk.

The ID of an EBS volume may be prefixed with its zone, as in aws://us-west-2a/vol-0123.
"""

EKS_AUTO_MODE_DRIVER: Final = "ebs.csi.eks.amazonaws.com"
UNSUPPORTED_DRIVERS: Final = frozenset({EKS_AUTO_MODE_DRIVER})
"""Drivers that only nodes managed by EKS Auto Mode run."""


def csi_driver(provisioner: str) -> str:
    return MIGRATED_PROVISIONERS.get(provisioner, provisioner)


def inline_attachment(volume: InTreeVolumeSources) -> VolumeAttachment | None:
    """The attachment of an in-tree disk in a pod or a PersistentVolume."""
    for field, (provisioner, identity) in IN_TREE_DISKS.items():
        disk = getattr(volume, field)
        if disk is not None:
            return _attachment(csi_driver(provisioner), identity(disk))
    return None


def persistent_attachment(volume: PersistentVolume) -> VolumeAttachment | None:
    """What is attached to the node; None for a network share or a directory of the node."""
    csi = volume.spec.csi
    return (
        inline_attachment(volume.spec) if csi is None else _attachment(csi.driver, csi.volumeHandle)
    )


def _attachment(name: str, volume: str) -> VolumeAttachment | None:
    return VolumeAttachment(driver=name, volume=volume) if name and volume else None


def attach_limits(csi_nodes: Iterable[CSINode]) -> dict[str, dict[str, int]]:
    """The limit of attached volumes by node and driver, where there is one."""
    return {
        node.metadata.name: {
            driver.name: driver.allocatable.count
            for driver in node.spec.drivers or ()
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        for node in csi_nodes
    }


DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation that preceded storageClassName and still takes precedence."""

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
UNSUPPORTED_TOPOLOGY_KEYS: Final = frozenset({"eks.amazonaws.com/compute-type"})
"""Labels that nodes of NodePools do not have."""


class DynamicProvisioning(msgspec.Struct, frozen=True, kw_only=True):
    """How a volume is provisioned for an unbound claim once its pod is scheduled."""

    driver: str = ""
    """Empty where its volumes are not attached."""
    topology: tuple[Requirements, ...] = ANY_NODE_TERMS
    problem: str | None = None
    """Why no volume is provisioned, as a predicate of the claim."""


ASSUMED_PROVISIONING: Final = DynamicProvisioning(driver=csi_driver(EBS_PROVISIONER))
"""Of a class that is not in the input: of EBS, with WaitForFirstConsumer."""


class StorageClasses:
    """The storage classes of the input; others may be assumed, as add-ons bring them to a cluster.
    Where the classes of a whole cluster are known, a claim of another class gets no volume.
    """

    def __init__(self, classes: Iterable[StorageClass], *, assume_missing: bool = False) -> None:
        self._assume_missing = assume_missing
        self._by_name = {each.metadata.name: each for each in classes}
        defaults = [each for each in self._by_name.values() if _is_default_class(each)]
        # Of several default classes the youngest counts.
        self._default = min(defaults, key=_class_age).metadata.name if defaults else None
        self._provisioning: dict[str | None, DynamicProvisioning] = {}
        self._assumed: set[str | None] = set()
        """Names of assumed classes that claims have asked for; None is the default class."""

    @property
    def has_assumed(self) -> bool:
        return bool(self._assumed)

    def assumed_class(self, claim: PersistentVolumeClaim) -> str | None:
        """The name of the claim's class if that is assumed: empty for the default class."""
        name = self.class_name(claim)
        return (name or "") if name in self._assumed else None

    def provisioning_for(self, claim: PersistentVolumeClaim) -> DynamicProvisioning:
        """How the claim's storage class provisions its volume; computed once per class."""
        name = self.class_name(claim)
        provisioning = self._provisioning.get(name)
        if provisioning is None:
            provisioning = self._provisioning[name] = self._provisioning_of_class(name)
        return provisioning

    def class_name(self, claim: PersistentVolumeClaim) -> str | None:
        """Of the claim's storage class; None where there is no default class."""
        name = (claim.metadata.annotations or {}).get(
            STORAGE_CLASS_ANNOTATION, claim.spec.storageClassName
        )
        return self._default if name is None else name

    def _provisioning_of_class(self, name: str | None) -> DynamicProvisioning:
        if self._assume_missing and name != "" and name not in self._by_name:
            self._assumed.add(name)
            return ASSUMED_PROVISIONING
        if name is None:
            return DynamicProvisioning(
                problem="has no volume yet, and names no class while there is no default"
            )
        if not name:
            return DynamicProvisioning(
                problem="has no volume yet, and wants no class that would make one"
            )
        storage_class = self._by_name.get(name)
        if storage_class is None:
            return DynamicProvisioning(
                problem=f"has no volume yet, and its class {name} is not in the input"
            )
        return _provisioning(storage_class)


def _provisioning(storage_class: StorageClass) -> DynamicProvisioning:
    topologies = _allowed_topologies(storage_class)
    topology = ANY_NODE_TERMS if topologies is None else any_of(topologies).alternatives
    return DynamicProvisioning(
        driver=""
        if storage_class.provisioner == NO_PROVISIONER
        else csi_driver(storage_class.provisioner),
        topology=topology,
        problem=_provisioning_problem(storage_class, topology),
    )


def _provisioning_problem(
    storage_class: StorageClass, topology: tuple[Requirements, ...]
) -> str | None:
    prefix = f"has no volume yet, and its class {storage_class.metadata.name}"
    if storage_class.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER:
        stated = "" if storage_class.volumeBindingMode else ", as none is stated"
        return f"{prefix} does not wait for a pod to make one (volumeBindingMode Immediate{stated})"
    if storage_class.provisioner == NO_PROVISIONER:
        return f"{prefix} makes none"
    if storage_class.provisioner in UNSUPPORTED_DRIVERS:
        return f"{prefix} needs {storage_class.provisioner}, which nodes of NodePools do not run"
    unsupported = next(
        (key for key in _topology_keys(storage_class) if key in UNSUPPORTED_TOPOLOGY_KEYS), None
    )
    if unsupported is not None:
        return f"{prefix} needs the label {unsupported}, which nodes of NodePools do not have"
    return None if topology else f"{prefix} allows none anywhere"


def _topology_keys(storage_class: StorageClass) -> Iterator[str]:
    for term in storage_class.allowedTopologies or ():
        yield from (each.key for each in term.matchLabelExpressions or ())


def _allowed_topologies(storage_class: StorageClass) -> list[list[RequirementEntry]] | None:
    """Alternative topologies; None where any will do. An empty term matches none."""
    if not storage_class.allowedTopologies:
        zones = _zone_parameters(storage_class)
        return [[(ZONE, "In", zones, None)]] if zones else None
    return [
        [(each.key, "In", tuple(each.values or ()), None) for each in term.matchLabelExpressions]
        for term in storage_class.allowedTopologies
        if term.matchLabelExpressions
    ]


def _zone_parameters(storage_class: StorageClass) -> tuple[str, ...]:
    """The zones that in-tree provisioners take as parameters."""
    if storage_class.provisioner not in (EBS_PROVISIONER, GCE_PROVISIONER):
        return ()
    parameters = {key.lower(): value for key, value in (storage_class.parameters or {}).items()}
    listed = parameters.get("zones", parameters.get("zone", "")).split(",")
    return tuple(zone for each in listed if (zone := each.strip()))


def _is_default_class(storage_class: StorageClass) -> bool:
    annotations = storage_class.metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def _class_age(storage_class: StorageClass) -> tuple[float, str]:
    """Sort key, youngest first; a class without a creation timestamp counts as the youngest."""
    created = parse_timestamp(storage_class.metadata.creationTimestamp)
    return -inf if created is None else -created, storage_class.metadata.name


CLAIM_MISSING: Final = "is not in the input"
CLAIM_OF_ANOTHER_POD: Final = "was not made for this pod, whose own volume must have that name"


class VolumeClaims:
    """Finds the PersistentVolumeClaim of a pod's volume.
    Controllers create some claims before the pod is scheduled: those of a StatefulSet's templates
    and of ephemeral volumes. Manifests that are not applied yet do not contain them.
    """

    def __init__(
        self, claims: Iterable[PersistentVolumeClaim], stateful_sets: Iterable[StatefulSet]
    ) -> None:
        self._claims_by_name = {
            (namespace_of(each.metadata), each.metadata.name): each for each in claims
        }
        self._templates = {
            (
                namespace_of(each.metadata),
                name_or_prefix(each.metadata),
            ): each.spec.volumeClaimTemplates
            for each in stateful_sets
        }

    def claim_of(self, volume: Volume, pod: Pod) -> PersistentVolumeClaim | str:
        """The claim, or its problem, as a predicate of the claim."""
        name = claim_name(volume, pod)
        claim = self._claims_by_name.get((namespace_of(pod.metadata), name))
        if volume.ephemeral is not None:
            template = volume.ephemeral.volumeClaimTemplate or PersistentVolumeClaimTemplate()
            if claim is None:
                return _claim_from_template(template, name)
            return claim if _is_owned_by(pod, claim) else CLAIM_OF_ANOTHER_POD
        return claim or self._claim_to_be_created(name, pod) or CLAIM_MISSING

    def _claim_to_be_created(self, name: str, pod: Pod) -> PersistentVolumeClaim | None:
        for owner in pod.metadata.ownerReferences or ():
            templates = self._templates.get((namespace_of(pod.metadata), owner.name))
            for template in (templates or ()) if owner.kind == "StatefulSet" else ():
                ordinal = name.removeprefix(f"{template.metadata.name}-{owner.name}-")
                if ordinal != name and ordinal.isdecimal():
                    return _claim_from_template(template, name)
        return None


def claim_name(volume: Volume, pod: Pod) -> str:
    """The name of the volume's claim; empty where it needs none."""
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    source = volume.persistentVolumeClaim
    return source.claimName if source is not None else ""


def _claim_from_template(
    template: PersistentVolumeClaimTemplate, name: str
) -> PersistentVolumeClaim:
    metadata = ObjectMeta(name=name, annotations=template.metadata.annotations)
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def _is_owned_by(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    return any(
        owner.kind == "Pod"
        and owner.name == pod.metadata.name
        and (not pod.metadata.uid or owner.uid == pod.metadata.uid)
        for owner in claim.metadata.ownerReferences or ()
    )


BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
RELEVANT_SOURCES: Final = ("persistentVolumeClaim", "ephemeral", *IN_TREE_DISKS)
"""Volumes with a topology or an attach limit.
Inline CSI volumes, created on the node for one pod, have neither.
"""
UNREACHABLE_TOGETHER: Final = "cannot be reached from where the pod's other volumes are"
ZONE_SEPARATOR: Final = "__"  # between the zones of a volume that is in more than one


class PodVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """Attachments, topology and the first problem of all volumes of one pod."""

    attachments: tuple[VolumeAttachment, ...] = ()
    """Sorted, each once, so that pods with the same volumes have equal constraints."""
    topology: tuple[Requirements, ...] = ANY_NODE_TERMS
    volumes: tuple[PodVolume, ...] = ()
    """Those that make the topology what it is."""
    problem: VolumeProblem | None = None


class VolumeReach(msgspec.Struct, frozen=True, kw_only=True):
    """Attachment, topology and problem of one claim."""

    attachment: VolumeAttachment | None = None
    topology: tuple[Requirements, ...] = ANY_NODE_TERMS
    volume: str = ""
    """The name of the PersistentVolume of a bound claim."""
    storage_class: str = ""
    """Of a claim that is not bound."""
    problem: str | None = None


def relevant_volumes(spec: PodSpec) -> tuple[Volume, ...]:
    """The volumes that constrain where the pod can be scheduled."""
    return tuple(
        volume
        for volume in spec.volumes or ()
        if any(getattr(volume, name) is not None for name in RELEVANT_SOURCES)
    )


def _claimed_volumes(pod: Pod) -> Iterator[Volume]:
    return (volume for volume in relevant_volumes(pod.spec) if claim_name(volume, pod))


class VolumeTranslator:
    """Evaluates the volumes of pods; `hostnames` are hostname labels by node name."""

    def __init__(
        self,
        claims: VolumeClaims,
        storage: StorageClasses,
        volumes: Iterable[PersistentVolume],
        hostnames: Mapping[str, str],
    ) -> None:
        self._claims = claims
        self._storage = storage
        self._volumes = {each.metadata.name: each for each in volumes}
        self._node_affinity = NodeAffinityTranslator(hostnames)
        # A local volume is lost with its node: the pod may start with a new one elsewhere.
        self._without_hostname = NodeAffinityTranslator(hostnames, ignored_labels={HOSTNAME})
        self._shared: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}

    def evaluate(self, volumes: Iterable[Volume], pod: Pod) -> PodVolumes:
        """Attachments and topology of these volumes; of several problems the first is reported."""
        attachments: set[VolumeAttachment | None] = set()
        topology: tuple[Requirements, ...] = ANY_NODE_TERMS
        problem: VolumeProblem | None = None
        named: list[PodVolume] = []
        for volume in volumes:
            name = claim_name(volume, pod)
            reach = (
                self._volume_reach(volume, pod)
                if name
                else VolumeReach(attachment=inline_attachment(volume))
            )
            attachments.add(reach.attachment)
            topology = _intersect_topology(topology, reach.topology)
            if reach.topology is not ANY_NODE_TERMS:
                named.append(_named_volume(name, reach))
            is_apart = not topology and not reach.problem
            why = UNREACHABLE_TOGETHER if is_apart else reach.problem
            if why and problem is None:
                problem = VolumeProblem(claim=name, why=why, is_apart=is_apart)
        return PodVolumes(
            attachments=_sort_attachments(attachments),
            topology=topology,
            volumes=tuple(named),
            problem=problem,
        )

    def assumed_classes(self, pod: Pod) -> set[str]:
        """The storage classes of the pod's new volumes that are assumed; empty for the default.

        For pods that were evaluated: an assumed class is known once a claim has asked for it.
        """
        if not self._storage.has_assumed:
            return set()
        claims = (self._claims.claim_of(each, pod) for each in _claimed_volumes(pod))
        names = (
            self._storage.assumed_class(claim)
            for claim in claims
            if isinstance(claim, PersistentVolumeClaim) and not claim.spec.volumeName
        )
        return {name for name in names if name is not None}

    def _volume_reach(self, volume: Volume, pod: Pod) -> VolumeReach:
        claim = self._claims.claim_of(volume, pod)
        if isinstance(claim, str):
            return VolumeReach(problem=claim)
        volume_of_claim = self._volumes.get(claim.spec.volumeName)
        if volume_of_claim is None:
            return self._reach_of_new_volume(
                claim, f"{namespace_of(pod.metadata)}/{claim.metadata.name}"
            )
        reach = VolumeReach(
            attachment=persistent_attachment(volume_of_claim),
            topology=self._topology_of(volume_of_claim),
            volume=volume_of_claim.metadata.name,
        )
        return msgspec.structs.replace(
            reach, problem=_claim_problem(claim) or _binding_problem(claim, volume_of_claim, reach)
        )

    def _reach_of_new_volume(self, claim: PersistentVolumeClaim, key: str) -> VolumeReach:
        provisioning, name = self._storage.provisioning_for(claim), claim.spec.volumeName
        missing = (
            f"names volume {name}, which is not in the input" if name else provisioning.problem
        )
        return VolumeReach(
            attachment=VolumeAttachment(driver=provisioning.driver, volume=key)
            if provisioning.driver
            else None,
            topology=_simplify_topology(provisioning.topology),
            storage_class=self._storage.class_name(claim) or "",
            problem=_claim_problem(claim) or missing,
        )

    def _topology_of(self, volume: PersistentVolume) -> tuple[Requirements, ...]:
        """Where the volume can be reached: its node affinity and its zone labels."""
        spec = volume.spec
        local = spec.local is not None or spec.hostPath is not None
        required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
        topology = self._without_hostname if local else self._node_affinity
        alternatives = topology.alternatives_of(
            _zone_entries(volume.metadata.labels or {}), required
        )
        topology_terms = _simplify_topology(alternatives.alternatives)
        # Thousands of volumes are in a few zones. Sharing equal topologies saves memory and
        # makes comparing the constraints of pods quick.
        return self._shared.setdefault(topology_terms, topology_terms)


def _named_volume(claim: str, reach: VolumeReach) -> PodVolume:
    return PodVolume(
        claim=claim,
        volume=reach.volume,
        storage_class=reach.storage_class,
        topology=reach.topology,
    )


def _zone_entries(labels: Mapping[str, str]) -> list[RequirementEntry]:
    """Zone and region labels of a volume, which the scheduler treats as requirements."""
    return [
        (key, "In", tuple(value.split(ZONE_SEPARATOR)), None)
        for key, value in labels.items()
        if value and normalize_label(key) in (ZONE, REGION)
    ]


def _claim_problem(claim: PersistentVolumeClaim) -> str | None:
    if claim.metadata.deletionTimestamp:
        return "is being deleted"
    if claim.status.phase == "Lost":
        return f"has lost its volume {claim.spec.volumeName}".rstrip()
    return None


def _binding_problem(
    claim: PersistentVolumeClaim, volume: PersistentVolume, reach: VolumeReach
) -> str | None:
    """Why a claim cannot use the volume that it names."""
    prefix, attachment = f"names volume {volume.metadata.name}", reach.attachment
    if volume.metadata.deletionTimestamp:
        return f"{prefix}, which is being deleted"
    if not _is_bound(claim):
        return f"{prefix}, but is not bound to it yet"
    if attachment is not None and attachment.driver in UNSUPPORTED_DRIVERS:
        return f"{prefix} of {attachment.driver}, which nodes of NodePools do not run"
    return None if reach.topology else f"{prefix}, which no node can reach"


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound"


def _intersect_topology(
    left: tuple[Requirements, ...], right: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """Each alternative of one side combined with each of the other, where a node can meet both.

    The identity checks save the product in the usual case that a side is unconstrained.
    """
    if right is ANY_NODE_TERMS:
        return left
    if left is ANY_NODE_TERMS:
        return right
    return tuple(
        dict.fromkeys(
            one.narrow(other)
            for one in left
            for other in right
            if one.is_compatible(other, well_known=other.keys())
        )
    )


def _simplify_topology(topology: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Any node where one alternative is unconstrained."""
    return ANY_NODE_TERMS if NO_REQUIREMENTS in topology else topology


def _sort_attachments(
    attachments: Iterable[VolumeAttachment | None],
) -> tuple[VolumeAttachment, ...]:
    present = (each for each in attachments if each is not None)
    return tuple(sorted(present, key=lambda each: (each.driver, each.volume)))
