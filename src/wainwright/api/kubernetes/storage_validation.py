"""Validates volumes, claims, PersistentVolumes, StorageClasses and CSINodes."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.field_error import (
    FieldError,
    FieldPath,
    broken_rule,
    duplicate_value,
    invalid_value,
    missing_field,
    unsupported_value,
)
from wainwright.api.kubernetes.label_validation import (
    EXPECTED_DNS_LABEL,
    EXPECTED_OBJECT_NAME,
    is_dns_label,
    is_label_key,
    is_object_name,
    validate_label_key,
    validate_label_selector,
    validate_labels,
    validate_node_selector,
    validate_topology_term,
)
from wainwright.api.kubernetes.meta import ResourceList, to_quantity
from wainwright.api.kubernetes.storage import (
    CSINodeDriver,
    CSINodeSpec,
    EphemeralVolumeSource,
    InTreeVolumeSources,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
    Volume,
)

ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Filesystem", "Block")
IN_TREE_SOURCES: Final = InTreeVolumeSources.__struct_fields__
POD_VOLUME_SOURCES: Final = (
    "csi",
    *IN_TREE_SOURCES,
    "persistentVolumeClaim",
    "ephemeral",
    "emptyDir",
)
EXPECTED_DRIVER: Final = "the name of a CSI driver such as ebs.csi.aws.com, at most 63 characters"


def validate_volumes(given: list[Volume] | None, path: FieldPath) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, volume in enumerate(given or ()):
        place = (*path, index)
        if not volume.name:
            yield missing_field((*place, "name"), EXPECTED_DNS_LABEL, "a volume needs a name")
        elif not is_dns_label(volume.name):
            yield invalid_value((*place, "name"), volume.name, EXPECTED_DNS_LABEL)
        elif volume.name in names:
            yield duplicate_value((*place, "name"), volume.name)
        names.add(volume.name)
        yield from _validate_volume_source(volume, place)


def _validate_volume_source(volume: Volume, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_single_source(volume, POD_VOLUME_SOURCES, path)
    if volume.persistentVolumeClaim is not None and not volume.persistentVolumeClaim.claimName:
        yield missing_field((*path, "persistentVolumeClaim", "claimName"), "the name of a claim")
    if volume.ephemeral is not None:
        yield from _validate_ephemeral(volume.ephemeral, (*path, "ephemeral"))
    if volume.csi is not None:
        yield from validate_driver_name(volume.csi.driver, (*path, "csi", "driver"))
    if volume.emptyDir is not None and volume.emptyDir.sizeLimit is not None:
        limit = volume.emptyDir.sizeLimit
        if to_quantity(limit).nano < 0:
            place = (*path, "emptyDir", "sizeLimit")
            yield invalid_value(place, limit, "an amount that is not negative")


def validate_single_source(
    volume: InTreeVolumeSources, names: tuple[str, ...], path: FieldPath
) -> Iterator[FieldError]:
    """A volume has one source; the error names the first two."""
    given = [name for name in names if getattr(volume, name) is not None]
    if len(given) > 1:
        message = f"a volume has one kind, not both {given[0]} and {given[1]}"
        yield broken_rule((*path, given[1]), ", ".join(given), message)


def validate_driver_name(name: str, path: FieldPath) -> Iterator[FieldError]:
    if not name:
        yield missing_field(path, EXPECTED_DRIVER)
    elif len(name) > 63 or not is_object_name(name.lower()):
        yield invalid_value(path, name, EXPECTED_DRIVER)


def _validate_ephemeral(volume: EphemeralVolumeSource, path: FieldPath) -> Iterator[FieldError]:
    template, place = volume.volumeClaimTemplate, (*path, "volumeClaimTemplate")
    if template is None:
        yield missing_field(place, "a template with a spec")
        return
    yield from validate_labels(template.metadata.labels, (*place, "metadata", "labels"))
    yield from validate_claim_spec(template.spec, (*place, "spec"))


def validate_claim_spec(spec: PersistentVolumeClaimSpec, path: FieldPath) -> Iterator[FieldError]:
    """The spec of a claim or of a claim template."""
    yield from validate_access_modes(spec.accessModes, (*path, "accessModes"))
    yield from _validate_claim_size(spec, (*path, "resources", "requests", "storage"))
    yield from validate_class_name(spec.storageClassName, (*path, "storageClassName"))
    yield from validate_volume_mode(spec.volumeMode, (*path, "volumeMode"))
    yield from validate_label_selector(spec.selector, (*path, "selector"))


def _validate_claim_size(spec: PersistentVolumeClaimSpec, path: FieldPath) -> Iterator[FieldError]:
    requests = (spec.resources.requests if spec.resources else None) or {}
    if "storage" not in requests:
        yield missing_field(path, "an amount of storage such as 10Gi")
    elif to_quantity(requests["storage"]).nano <= 0:
        yield invalid_value(path, requests["storage"], "an amount above zero")


def validate_access_modes(given: list[str] | None, path: FieldPath) -> Iterator[FieldError]:
    if not given:
        yield missing_field(path, f"some of {', '.join(ACCESS_MODES)}")
    for index, mode in enumerate(given or ()):
        if mode not in ACCESS_MODES:
            yield unsupported_value((*path, index), mode, ACCESS_MODES)
    known = {mode for mode in given or () if mode in ACCESS_MODES}
    if len(known) > 1 and "ReadWriteOncePod" in known:
        yield broken_rule(path, given, "ReadWriteOncePod goes with no other access mode")


def validate_class_name(name: str | None, path: FieldPath) -> Iterator[FieldError]:
    if name and not is_object_name(name):
        yield invalid_value(path, name, EXPECTED_OBJECT_NAME)


def validate_volume_mode(mode: str | None, path: FieldPath) -> Iterator[FieldError]:
    if mode is not None and mode not in VOLUME_MODES:
        yield unsupported_value(path, mode, VOLUME_MODES)


BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
PERSISTENT_VOLUME_SOURCES: Final = ("csi", *IN_TREE_SOURCES, "local")
EXPECTED_PROVISIONER: Final = "the name of a provisioner such as ebs.csi.aws.com"
MAX_NODE_ID_LENGTH: Final = 256


def validate_persistent_volume(spec: PersistentVolumeSpec, path: FieldPath) -> Iterator[FieldError]:
    yield from validate_access_modes(spec.accessModes, (*path, "accessModes"))
    yield from _validate_volume_capacity(spec.capacity, (*path, "capacity"))
    yield from validate_class_name(spec.storageClassName, (*path, "storageClassName"))
    yield from validate_volume_mode(spec.volumeMode, (*path, "volumeMode"))
    yield from validate_single_source(spec, PERSISTENT_VOLUME_SOURCES, path)
    yield from _validate_volume_node_affinity(spec, path)
    if spec.csi is not None:
        yield from validate_driver_name(spec.csi.driver, (*path, "csi", "driver"))
        if not spec.csi.volumeHandle:
            yield missing_field((*path, "csi", "volumeHandle"), "what the driver calls the volume")


def _validate_volume_node_affinity(
    spec: PersistentVolumeSpec, path: FieldPath
) -> Iterator[FieldError]:
    place = (*path, "nodeAffinity")
    if spec.nodeAffinity is None:
        if spec.local is not None:
            yield missing_field(
                place, "required terms", "a local volume must say on which node it is"
            )
    elif spec.nodeAffinity.required is None:
        yield missing_field((*place, "required"), "terms that nodes must meet")
    else:
        yield from validate_node_selector(spec.nodeAffinity.required, (*place, "required"))


def _validate_volume_capacity(given: ResourceList | None, path: FieldPath) -> Iterator[FieldError]:
    if not given or "storage" not in given:
        yield missing_field((*path, "storage"), "an amount of storage such as 10Gi")
    for name, written in (given or {}).items():
        if name != "storage":
            yield invalid_value((*path, name), name, "storage, all that a volume has")
        elif to_quantity(written).nano <= 0:
            yield invalid_value((*path, name), written, "an amount above zero")


def validate_storage_class(given: StorageClass) -> Iterator[FieldError]:
    if not given.provisioner:
        yield missing_field(("provisioner",), EXPECTED_PROVISIONER)
    elif not is_label_key(given.provisioner.lower()):
        yield invalid_value(("provisioner",), given.provisioner, EXPECTED_PROVISIONER)
    mode = given.volumeBindingMode
    if mode is not None and mode not in BINDING_MODES:
        yield unsupported_value(("volumeBindingMode",), mode, BINDING_MODES)
    for index, term in enumerate(given.allowedTopologies or ()):
        yield from validate_topology_term(term, ("allowedTopologies", index))


def validate_csi_node(spec: CSINodeSpec, path: FieldPath) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, one in enumerate(spec.drivers or ()):
        place = (*path, "drivers", index)
        yield from validate_driver_name(one.name, (*place, "name"))
        if one.name in names:
            yield duplicate_value((*place, "name"), one.name)
        names.add(one.name)
        yield from _validate_csi_driver(one, place)


def _validate_csi_driver(given: CSINodeDriver, path: FieldPath) -> Iterator[FieldError]:
    if not given.nodeID:
        yield missing_field((*path, "nodeID"), "what the driver calls the node")
    elif len(given.nodeID.encode(errors="replace")) > MAX_NODE_ID_LENGTH:
        yield invalid_value(
            (*path, "nodeID"), given.nodeID, f"at most {MAX_NODE_ID_LENGTH} characters"
        )
    count = given.allocatable.count if given.allocatable else None
    if count is not None and count < 0:
        yield invalid_value((*path, "allocatable", "count"), count, "0 or more")
    keys = given.topologyKeys or []
    for index, key in enumerate(keys):
        yield from validate_label_key(key, (*path, "topologyKeys", index))
        if key in keys[:index]:
            yield duplicate_value((*path, "topologyKeys", index), key)
