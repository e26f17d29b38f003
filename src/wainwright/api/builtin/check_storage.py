"""PersistentVolumes and claims, StorageClasses and CSINodes, held to the API server's rules."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.check_labels import (
    is_label_key,
    label_key,
    node_selector,
    topology_term,
)
from wainwright.api.builtin.check_volumes import (
    DISKS,
    access_modes,
    class_name,
    driver,
    one_source,
    volume_mode,
)
from wainwright.api.builtin.part import Resources, amount
from wainwright.api.builtin.storage import (
    CSINodeDriver,
    CSINodeSpec,
    PersistentVolumeSpec,
    StorageClass,
)
from wainwright.api.builtin.wording import among, missing, twice, wrong
from wainwright.api.fault import Fault, Path

BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
SOURCES: Final = ("csi", *DISKS, "local")
A_PROVISIONER: Final = "the name of a provisioner such as ebs.csi.aws.com"
LONGEST_NODE_ID: Final = 256


def volume(spec: PersistentVolumeSpec, path: Path) -> Iterator[Fault]:
    yield from access_modes(spec.accessModes, (*path, "accessModes"))
    yield from _capacity(spec.capacity, (*path, "capacity"))
    yield from class_name(spec.storageClassName, (*path, "storageClassName"))
    yield from volume_mode(spec.volumeMode, (*path, "volumeMode"))
    yield from one_source(spec, SOURCES, path)
    yield from _place(spec, path)
    if spec.csi is not None:
        yield from driver(spec.csi.driver, (*path, "csi", "driver"))
        if not spec.csi.volumeHandle:
            yield missing((*path, "csi", "volumeHandle"), "what the driver calls the volume")


def _place(spec: PersistentVolumeSpec, path: Path) -> Iterator[Fault]:
    place = (*path, "nodeAffinity")
    if spec.nodeAffinity is None:
        if spec.local is not None:
            yield missing(place, "required terms", "a local volume must say on which node it is")
    elif spec.nodeAffinity.required is None:
        yield missing((*place, "required"), "terms that nodes must meet")
    else:
        yield from node_selector(spec.nodeAffinity.required, (*place, "required"))


def _capacity(given: Resources | None, path: Path) -> Iterator[Fault]:
    if not given or "storage" not in given:
        yield missing((*path, "storage"), "an amount of storage such as 10Gi")
    for name, written in (given or {}).items():
        if name != "storage":
            yield wrong((*path, name), name, "storage, all that a volume has")
        elif amount(written).nano <= 0:
            yield wrong((*path, name), written, "an amount above zero")


def storage_class(given: StorageClass) -> Iterator[Fault]:
    if not given.provisioner:
        yield missing(("provisioner",), A_PROVISIONER)
    elif not is_label_key(given.provisioner.lower()):
        yield wrong(("provisioner",), given.provisioner, A_PROVISIONER)
    mode = given.volumeBindingMode
    if mode is not None and mode not in BINDING_MODES:
        yield among(("volumeBindingMode",), mode, BINDING_MODES)
    for index, term in enumerate(given.allowedTopologies or ()):
        yield from topology_term(term, ("allowedTopologies", index))


def csi_node(spec: CSINodeSpec, path: Path) -> Iterator[Fault]:
    names: set[str] = set()
    for index, one in enumerate(spec.drivers or ()):
        place = (*path, "drivers", index)
        yield from driver(one.name, (*place, "name"))
        if one.name in names:
            yield twice((*place, "name"), one.name)
        names.add(one.name)
        yield from _driver(one, place)


def _driver(given: CSINodeDriver, path: Path) -> Iterator[Fault]:
    if not given.nodeID:
        yield missing((*path, "nodeID"), "what the driver calls the node")
    elif len(given.nodeID.encode(errors="replace")) > LONGEST_NODE_ID:
        yield wrong((*path, "nodeID"), given.nodeID, f"at most {LONGEST_NODE_ID} characters")
    count = given.allocatable.count if given.allocatable else None
    if count is not None and count < 0:
        yield wrong((*path, "allocatable", "count"), count, "0 or more")
    keys = given.topologyKeys or []
    for index, key in enumerate(keys):
        yield from label_key(key, (*path, "topologyKeys", index))
        if key in keys[:index]:
            yield twice((*path, "topologyKeys", index), key)
