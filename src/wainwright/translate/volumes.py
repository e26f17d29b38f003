"""Volumes of pods: claims, drivers, where they can be reached, what is attached or wrong."""

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
from wainwright.model.pod import ANY_NODE_TERMS, VolumeAttachment, VolumeProblem
from wainwright.model.requirements import NO_REQUIREMENTS, RequirementEntry, Requirements
from wainwright.translate.object_metadata import name_or_prefix, namespace_of, parse_timestamp
from wainwright.translate.requirements import NodeAffinityTranslator, any_of

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""What a storage class says whose volumes somebody else makes, one by one."""

EBS_PROVISIONER: Final = "kubernetes.io/aws-ebs"
GCE_PROVISIONER: Final = "kubernetes.io/gce-pd"
MIGRATED_PROVISIONERS: Final = {
    EBS_PROVISIONER: "ebs.csi.aws.com",
    GCE_PROVISIONER: "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""Provisioners that were once part of Kubernetes, and the drivers that do their work today."""

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
"""By field of a volume: its provisioner, and what that calls the disk.

An EBS volume may be written with its zone before it, as in aws://us-west-2a/vol-0123.
"""

EKS_AUTO_MODE_DRIVER: Final = "ebs.csi.eks.amazonaws.com"
UNSUPPORTED_DRIVERS: Final = frozenset({EKS_AUTO_MODE_DRIVER})
"""Drivers that only nodes of somebody else's making have."""


def csi_driver(provisioner: str) -> str:
    return MIGRATED_PROVISIONERS.get(provisioner, provisioner)


def inline_attachment(volume: InTreeVolumeSources) -> VolumeAttachment | None:
    """A disk that is named in place, by a pod or a PersistentVolume."""
    for field, (provisioner, identity) in IN_TREE_DISKS.items():
        disk = getattr(volume, field)
        if disk is not None:
            return _attachment(csi_driver(provisioner), identity(disk))
    return None


def persistent_attachment(volume: PersistentVolume) -> VolumeAttachment | None:
    """What is attached to the node; None for a share in a network, or a folder of the node."""
    kept = volume.spec.csi
    return (
        inline_attachment(volume.spec)
        if kept is None
        else _attachment(kept.driver, kept.volumeHandle)
    )


def _attachment(name: str, volume: str) -> VolumeAttachment | None:
    return VolumeAttachment(driver=name, volume=volume) if name and volume else None


def attach_limits(written: Iterable[CSINode]) -> dict[str, dict[str, int]]:
    """By node and driver how many volumes can be attached, where there is a limit."""
    return {
        node.metadata.name: {
            each.name: each.allocatable.count
            for each in node.spec.drivers or ()
            if each.allocatable is not None and each.allocatable.count is not None
        }
        for node in written
    }


DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
STORAGE_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
"""Where claims named their class before there was a field for it; it still counts."""

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
UNSUPPORTED_TOPOLOGY_KEYS: Final = frozenset({"eks.amazonaws.com/compute-type"})
"""Labels that only nodes of somebody else's making have."""


class DynamicProvisioning(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a claim whose volume is made when its pod is placed."""

    driver: str = ""
    """Empty where nobody attaches its volumes."""
    places: tuple[Requirements, ...] = ANY_NODE_TERMS
    problem: str | None = None
    """Why it gets none, as what is to be said of the claim."""


class StorageClasses:
    """The storage classes of the input."""

    def __init__(self, classes: Iterable[StorageClass]) -> None:
        self._by_name = {each.metadata.name: each for each in classes}
        defaults = [each for each in self._by_name.values() if _is_default_class(each)]
        # Should several claim to be the default, the youngest is.
        self._default = min(defaults, key=_class_age).metadata.name if defaults else None
        self._made: dict[str | None, DynamicProvisioning] = {}

    def made(self, claim: PersistentVolumeClaim) -> DynamicProvisioning:
        """What the claim's class will do for it."""
        name = (claim.metadata.annotations or {}).get(
            STORAGE_CLASS_ANNOTATION, claim.spec.storageClassName
        )
        if name is None:
            name = self._default
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._of(name)
        return found

    def _of(self, name: str | None) -> DynamicProvisioning:
        if name is None:
            return DynamicProvisioning(
                problem="has no volume yet, and names no class while there is no default"
            )
        if not name:
            return DynamicProvisioning(
                problem="has no volume yet, and wants no class that would make one"
            )
        written = self._by_name.get(name)
        if written is None:
            return DynamicProvisioning(
                problem=f"has no volume yet, and its class {name} is not in the input"
            )
        return _provisioning(written)


def _provisioning(written: StorageClass) -> DynamicProvisioning:
    topologies = _allowed_topologies(written)
    places = ANY_NODE_TERMS if topologies is None else any_of(topologies).alternatives
    return DynamicProvisioning(
        driver="" if written.provisioner == NO_PROVISIONER else csi_driver(written.provisioner),
        places=places,
        problem=_provisioning_problem(written, places),
    )


def _provisioning_problem(written: StorageClass, places: tuple[Requirements, ...]) -> str | None:
    begun = f"has no volume yet, and its class {written.metadata.name}"
    if written.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER:
        return f"{begun} does not wait for a pod to make one"
    if written.provisioner == NO_PROVISIONER:
        return f"{begun} makes none"
    if written.provisioner in UNSUPPORTED_DRIVERS:
        return f"{begun} needs {written.provisioner}, which nodes of NodePools do not run"
    strange = next(
        (key for key in _topology_keys(written) if key in UNSUPPORTED_TOPOLOGY_KEYS), None
    )
    if strange is not None:
        return f"{begun} needs the label {strange}, which nodes of NodePools do not have"
    return None if places else f"{begun} allows none anywhere"


def _topology_keys(written: StorageClass) -> Iterator[str]:
    for term in written.allowedTopologies or ():
        yield from (each.key for each in term.matchLabelExpressions or ())


def _allowed_topologies(written: StorageClass) -> list[list[RequirementEntry]] | None:
    """Any one of these will do; None where any place will. A term that asks nothing takes none."""
    if not written.allowedTopologies:
        zones = _zone_parameters(written)
        return [[(ZONE, "In", zones, None)]] if zones else None
    return [
        [(each.key, "In", tuple(each.values or ()), None) for each in term.matchLabelExpressions]
        for term in written.allowedTopologies
        if term.matchLabelExpressions
    ]


def _zone_parameters(written: StorageClass) -> tuple[str, ...]:
    """What classes of old name among their parameters."""
    if written.provisioner not in (EBS_PROVISIONER, GCE_PROVISIONER):
        return ()
    given = {key.lower(): value for key, value in (written.parameters or {}).items()}
    listed = given.get("zones", given.get("zone", "")).split(",")
    return tuple(zone for each in listed if (zone := each.strip()))


def _is_default_class(written: StorageClass) -> bool:
    annotations = written.metadata.annotations or {}
    return any(annotations.get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)


def _class_age(written: StorageClass) -> tuple[float, str]:
    """The youngest first; without a moment of creation a class counts as the youngest."""
    created = parse_timestamp(written.metadata.creationTimestamp)
    return -inf if created is None else -created, written.metadata.name


CLAIM_MISSING: Final = "is not in the input"
CLAIM_OF_ANOTHER_POD: Final = "was not made for this pod, whose own volume must have that name"


class VolumeClaims:
    """Finds what a volume of a pod claims.

    Kubernetes makes some claims before it places their pod: a StatefulSet those of its templates,
    another controller those of ephemeral volumes. Files about what is yet to run do without them.
    """

    def __init__(
        self, claims: Iterable[PersistentVolumeClaim], stateful_sets: Iterable[StatefulSet]
    ) -> None:
        self._written = {(namespace_of(each.metadata), each.metadata.name): each for each in claims}
        self._templates = {
            (
                namespace_of(each.metadata),
                name_or_prefix(each.metadata),
            ): each.spec.volumeClaimTemplates
            for each in stateful_sets
        }

    def of(self, volume: Volume, pod: Pod) -> PersistentVolumeClaim | str:
        """The claim, or what is wrong with it, as what is to be said of it."""
        name = claim_name(volume, pod)
        found = self._written.get((namespace_of(pod.metadata), name))
        if volume.ephemeral is not None:
            template = volume.ephemeral.volumeClaimTemplate or PersistentVolumeClaimTemplate()
            if found is None:
                return _claim_from_template(template, name)
            return found if _is_owned_by(pod, found) else CLAIM_OF_ANOTHER_POD
        return found or self._owed(name, pod) or CLAIM_MISSING

    def _owed(self, name: str, pod: Pod) -> PersistentVolumeClaim | None:
        for owner in pod.metadata.ownerReferences or ():
            templates = self._templates.get((namespace_of(pod.metadata), owner.name))
            for template in (templates or ()) if owner.kind == "StatefulSet" else ():
                number = name.removeprefix(f"{template.metadata.name}-{owner.name}-")
                if number != name and number.isdecimal():
                    return _claim_from_template(template, name)
        return None


def claim_name(volume: Volume, pod: Pod) -> str:
    """The name of the volume's claim; empty where it needs none."""
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    claimed = volume.persistentVolumeClaim
    return claimed.claimName if claimed is not None else ""


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
"""Volumes that are bound to places, or of which a node takes only so many.

What a driver makes inside one node for one pod (csi) is neither.
"""
UNREACHABLE_TOGETHER: Final = "cannot be reached from where the pod's other volumes are"
ZONE_SEPARATOR: Final = "__"  # between the zones of a volume that is in more than one


class PodVolumes(msgspec.Struct, frozen=True, kw_only=True):
    """What the volumes of one pod come to."""

    attachments: tuple[VolumeAttachment, ...] = ()
    """In order, each once, so that pods with the same volumes are alike."""
    places: tuple[Requirements, ...] = ANY_NODE_TERMS
    problem: VolumeProblem | None = None


class VolumeReach(msgspec.Struct, frozen=True, kw_only=True):
    """The same of one claim."""

    attachment: VolumeAttachment | None = None
    places: tuple[Requirements, ...] = ANY_NODE_TERMS
    problem: str | None = None


def relevant_volumes(spec: PodSpec) -> tuple[Volume, ...]:
    """The volumes that have a say in where the pod goes."""
    return tuple(
        volume
        for volume in spec.volumes or ()
        if any(getattr(volume, name) is not None for name in RELEVANT_SOURCES)
    )


class VolumeTranslator:
    """Judges the volumes of pods; `hostnames` are those of the nodes by name."""

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
        self._places = NodeAffinityTranslator(hostnames)
        # Data on the disk of a node is lost with it: the pod may begin anew on another.
        self._off_hosts = NodeAffinityTranslator(hostnames, without={HOSTNAME})
        self._known: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}

    def held(self, volumes: Iterable[Volume], pod: Pod) -> PodVolumes:
        """What these volumes of the pod come to; of several problems the first is told."""
        attached: set[VolumeAttachment | None] = set()
        places: tuple[Requirements, ...] = ANY_NODE_TERMS
        problem: VolumeProblem | None = None
        for volume in volumes:
            name = claim_name(volume, pod)
            reach = (
                self._reach(volume, pod)
                if name
                else VolumeReach(attachment=inline_attachment(volume))
            )
            attached.add(reach.attachment)
            places = _intersect_places(places, reach.places)
            why = reach.problem or (None if places else UNREACHABLE_TOGETHER)
            problem = problem or (VolumeProblem(claim=name, why=why) if why else None)
        return PodVolumes(attachments=_sort_attachments(attached), places=places, problem=problem)

    def _reach(self, volume: Volume, pod: Pod) -> VolumeReach:
        claim = self._claims.of(volume, pod)
        if isinstance(claim, str):
            return VolumeReach(problem=claim)
        there = self._volumes.get(claim.spec.volumeName)
        if there is None:
            return self._to_be_made(claim, f"{namespace_of(pod.metadata)}/{claim.metadata.name}")
        reach = VolumeReach(attachment=persistent_attachment(there), places=self._around(there))
        return msgspec.structs.replace(
            reach, problem=_claim_problem(claim) or _binding_problem(claim, there, reach)
        )

    def _to_be_made(self, claim: PersistentVolumeClaim, key: str) -> VolumeReach:
        made, name = self._storage.made(claim), claim.spec.volumeName
        missing = f"names volume {name}, which is not in the input" if name else made.problem
        return VolumeReach(
            attachment=VolumeAttachment(driver=made.driver, volume=key) if made.driver else None,
            places=_simplify_places(made.places),
            problem=_claim_problem(claim) or missing,
        )

    def _around(self, volume: PersistentVolume) -> tuple[Requirements, ...]:
        """Where the volume can be reached; labels may say so beside its affinity."""
        spec = volume.spec
        local = spec.local is not None or spec.hostPath is not None
        required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
        places = self._off_hosts if local else self._places
        wanted = places.among(_zone_entries(volume.metadata.labels or {}), required)
        found = _simplify_places(wanted.alternatives)
        # Thousands of volumes are in a few zones: equal places are one object.
        return self._known.setdefault(found, found)


def _zone_entries(labels: Mapping[str, str]) -> list[RequirementEntry]:
    """Zones and regions of a volume, which the scheduler takes as requirements."""
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
    """What keeps a claim from the volume that it names."""
    named, attachment = f"names volume {volume.metadata.name}", reach.attachment
    if volume.metadata.deletionTimestamp:
        return f"{named}, which is being deleted"
    if not _is_bound(claim):
        return f"{named}, but is not bound to it yet"
    if attachment is not None and attachment.driver in UNSUPPORTED_DRIVERS:
        return f"{named} of {attachment.driver}, which nodes of NodePools do not run"
    return None if reach.places else f"{named}, which no node can reach"


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound"


def _intersect_places(
    left: tuple[Requirements, ...], right: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """Each alternative of one side with each of the other, as far as a node can meet both."""
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


def _simplify_places(places: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Where one alternative asks nothing, the others need not be asked."""
    return ANY_NODE_TERMS if NO_REQUIREMENTS in places else places


def _sort_attachments(attached: Iterable[VolumeAttachment | None]) -> tuple[VolumeAttachment, ...]:
    found = (each for each in attached if each is not None)
    return tuple(sorted(found, key=lambda each: (each.driver, each.volume)))
