"""Volumes of pods and the claims behind them, as far as they decide where a pod can run."""

from collections.abc import Iterator
from typing import Final

from wainwright.api.builtin.check_labels import label_selector, labels
from wainwright.api.builtin.check_metadata import A_LABEL_NAME, A_NAME, is_label_name, is_name
from wainwright.api.builtin.part import amount
from wainwright.api.builtin.volume import Disk, EphemeralVolume, PersistentVolumeClaimSpec, Volume
from wainwright.api.builtin.wording import among, broken, missing, twice, wrong
from wainwright.api.fault import Fault, Path

ACCESS_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Filesystem", "Block")
DISKS: Final = Disk.__struct_fields__
SOURCES: Final = ("csi", *DISKS, "persistentVolumeClaim", "ephemeral", "emptyDir")
A_DRIVER: Final = "the name of a CSI driver such as ebs.csi.aws.com, at most 63 characters"


def volumes(given: list[Volume] | None, path: Path) -> Iterator[Fault]:
    names: set[str] = set()
    for index, volume in enumerate(given or ()):
        place = (*path, index)
        if not volume.name:
            yield missing((*place, "name"), A_LABEL_NAME, "a volume needs a name")
        elif not is_label_name(volume.name):
            yield wrong((*place, "name"), volume.name, A_LABEL_NAME)
        elif volume.name in names:
            yield twice((*place, "name"), volume.name)
        names.add(volume.name)
        yield from _source(volume, place)


def _source(volume: Volume, path: Path) -> Iterator[Fault]:
    yield from one_source(volume, SOURCES, path)
    if volume.persistentVolumeClaim is not None and not volume.persistentVolumeClaim.claimName:
        yield missing((*path, "persistentVolumeClaim", "claimName"), "the name of a claim")
    if volume.ephemeral is not None:
        yield from _ephemeral(volume.ephemeral, (*path, "ephemeral"))
    if volume.csi is not None:
        yield from driver(volume.csi.driver, (*path, "csi", "driver"))
    if volume.emptyDir is not None and volume.emptyDir.sizeLimit is not None:
        limit = volume.emptyDir.sizeLimit
        if amount(limit).nano < 0:
            place = (*path, "emptyDir", "sizeLimit")
            yield wrong(place, limit, "an amount that is not negative")


def one_source(volume: Disk, names: tuple[str, ...], path: Path) -> Iterator[Fault]:
    """A volume is of one kind; the first two that are given are named."""
    given = [name for name in names if getattr(volume, name) is not None]
    if len(given) > 1:
        message = f"a volume has one kind, not both {given[0]} and {given[1]}"
        yield broken((*path, given[1]), ", ".join(given), message)


def driver(name: str, path: Path) -> Iterator[Fault]:
    if not name:
        yield missing(path, A_DRIVER)
    elif len(name) > 63 or not is_name(name.lower()):
        yield wrong(path, name, A_DRIVER)


def _ephemeral(volume: EphemeralVolume, path: Path) -> Iterator[Fault]:
    template, place = volume.volumeClaimTemplate, (*path, "volumeClaimTemplate")
    if template is None:
        yield missing(place, "a template with a spec")
        return
    yield from labels(template.metadata.labels, (*place, "metadata", "labels"))
    yield from claim(template.spec, (*place, "spec"))


def claim(spec: PersistentVolumeClaimSpec, path: Path) -> Iterator[Fault]:
    """The spec of a claim, whether it stands alone or in a template."""
    yield from access_modes(spec.accessModes, (*path, "accessModes"))
    yield from _size(spec, (*path, "resources", "requests", "storage"))
    yield from class_name(spec.storageClassName, (*path, "storageClassName"))
    yield from volume_mode(spec.volumeMode, (*path, "volumeMode"))
    yield from label_selector(spec.selector, (*path, "selector"))


def _size(spec: PersistentVolumeClaimSpec, path: Path) -> Iterator[Fault]:
    requests = (spec.resources.requests if spec.resources else None) or {}
    if "storage" not in requests:
        yield missing(path, "an amount of storage such as 10Gi")
    elif amount(requests["storage"]).nano <= 0:
        yield wrong(path, requests["storage"], "an amount above zero")


def access_modes(given: list[str] | None, path: Path) -> Iterator[Fault]:
    if not given:
        yield missing(path, f"some of {', '.join(ACCESS_MODES)}")
    for index, mode in enumerate(given or ()):
        if mode not in ACCESS_MODES:
            yield among((*path, index), mode, ACCESS_MODES)
    known = {mode for mode in given or () if mode in ACCESS_MODES}
    if len(known) > 1 and "ReadWriteOncePod" in known:
        yield broken(path, given, "ReadWriteOncePod goes with no other access mode")


def class_name(name: str | None, path: Path) -> Iterator[Fault]:
    if name and not is_name(name):
        yield wrong(path, name, A_NAME)


def volume_mode(mode: str | None, path: Path) -> Iterator[Fault]:
    if mode is not None and mode not in VOLUME_MODES:
        yield among(path, mode, VOLUME_MODES)
