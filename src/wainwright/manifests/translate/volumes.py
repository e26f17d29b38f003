"""Volumes of pods: where they can be reached, what is attached for them, and what is amiss."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.api.builtin.storage import PersistentVolume, PersistentVolumeClaim
from wainwright.api.builtin.volume import Volume
from wainwright.manifests.expand import namespace
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.claims import Claims, claim_name
from wainwright.manifests.translate.drivers import DISKS, UNSUPPORTED, inline, persistent
from wainwright.manifests.translate.storage import Storage
from wainwright.model.attachments import Attachment
from wainwright.model.labels import HOSTNAME, REGION, ZONE, normalised
from wainwright.model.pod import ANYWHERE, VolumeProblem
from wainwright.model.requirements import NO_REQUIREMENTS, Entry, Requirements

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
RELEVANT: Final = ("persistentVolumeClaim", "ephemeral", *DISKS)
"""Volumes that are bound to places, or of which a node takes only so many.

What a driver makes inside one node for one pod (csi) is neither.
"""
APART: Final = "cannot be reached from where the pod's other volumes are"
SEVERAL: Final = "__"  # between the zones of a volume that is in more than one


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What the volumes of one pod come to."""

    attachments: tuple[Attachment, ...] = ()
    """In order, each once, so that pods with the same volumes are alike."""
    places: tuple[Requirements, ...] = ANYWHERE
    problem: VolumeProblem | None = None


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The same of one claim."""

    attachment: Attachment | None = None
    places: tuple[Requirements, ...] = ANYWHERE
    problem: str | None = None


def relevant(spec: PodSpec) -> tuple[Volume, ...]:
    """The volumes that have a say in where the pod goes."""
    return tuple(
        volume
        for volume in spec.volumes or ()
        if any(getattr(volume, name) is not None for name in RELEVANT)
    )


class Volumes:
    """Judges the volumes of pods; `hostnames` are those of the nodes by name."""

    def __init__(
        self,
        claims: Claims,
        storage: Storage,
        volumes: Iterable[PersistentVolume],
        hostnames: Mapping[str, str],
    ) -> None:
        self._claims = claims
        self._storage = storage
        self._volumes = {each.metadata.name: each for each in volumes}
        self._places = Places(hostnames)
        # Data on the disk of a node is lost with it: the pod may begin anew on another.
        self._off_hosts = Places(hostnames, without={HOSTNAME})
        self._known: dict[tuple[Requirements, ...], tuple[Requirements, ...]] = {}

    def held(self, volumes: Iterable[Volume], pod: Pod) -> Held:
        """What these volumes of the pod come to; of several problems the first is told."""
        attached: set[Attachment | None] = set()
        places: tuple[Requirements, ...] = ANYWHERE
        problem: VolumeProblem | None = None
        for volume in volumes:
            name = claim_name(volume, pod)
            reach = self._reach(volume, pod) if name else Reach(attachment=inline(volume))
            attached.add(reach.attachment)
            places = _together(places, reach.places)
            why = reach.problem or (None if places else APART)
            problem = problem or (VolumeProblem(claim=name, why=why) if why else None)
        return Held(attachments=_ordered(attached), places=places, problem=problem)

    def _reach(self, volume: Volume, pod: Pod) -> Reach:
        claim = self._claims.of(volume, pod)
        if isinstance(claim, str):
            return Reach(problem=claim)
        there = self._volumes.get(claim.spec.volumeName)
        if there is None:
            return self._to_be_made(claim, f"{namespace(pod.metadata)}/{claim.metadata.name}")
        reach = Reach(attachment=persistent(there), places=self._around(there))
        return msgspec.structs.replace(reach, problem=_amiss(claim) or _unfit(claim, there, reach))

    def _to_be_made(self, claim: PersistentVolumeClaim, key: str) -> Reach:
        made, name = self._storage.made(claim), claim.spec.volumeName
        missing = f"names volume {name}, which is not in the input" if name else made.problem
        return Reach(
            attachment=Attachment(driver=made.driver, volume=key) if made.driver else None,
            places=_simplest(made.places),
            problem=_amiss(claim) or missing,
        )

    def _around(self, volume: PersistentVolume) -> tuple[Requirements, ...]:
        """Where the volume can be reached; labels may say so beside its affinity."""
        spec = volume.spec
        local = spec.local is not None or spec.hostPath is not None
        required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
        places = self._off_hosts if local else self._places
        wanted = places.among(_labelled(volume.metadata.labels or {}), required)
        found = _simplest(wanted.alternatives)
        # Thousands of volumes are in a few zones: equal places are one object.
        return self._known.setdefault(found, found)


def _labelled(labels: Mapping[str, str]) -> list[Entry]:
    """Zones and regions of a volume, which the scheduler takes as requirements."""
    return [
        (key, "In", tuple(value.split(SEVERAL)), None)
        for key, value in labels.items()
        if value and normalised(key) in (ZONE, REGION)
    ]


def _amiss(claim: PersistentVolumeClaim) -> str | None:
    if claim.metadata.deletionTimestamp:
        return "is being deleted"
    if claim.status.phase == "Lost":
        return f"has lost its volume {claim.spec.volumeName}".rstrip()
    return None


def _unfit(claim: PersistentVolumeClaim, volume: PersistentVolume, reach: Reach) -> str | None:
    """What keeps a claim from the volume that it names."""
    named, attachment = f"names volume {volume.metadata.name}", reach.attachment
    if volume.metadata.deletionTimestamp:
        return f"{named}, which is being deleted"
    if not _is_bound(claim):
        return f"{named}, but is not bound to it yet"
    if attachment is not None and attachment.driver in UNSUPPORTED:
        return f"{named} of {attachment.driver}, which nodes of NodePools do not run"
    return None if reach.places else f"{named}, which no node can reach"


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound"


def _together(
    left: tuple[Requirements, ...], right: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """Each alternative of one side with each of the other, as far as a node can meet both."""
    if right is ANYWHERE:
        return left
    if left is ANYWHERE:
        return right
    return tuple(
        dict.fromkeys(
            one.narrow(other)
            for one in left
            for other in right
            if one.compatible(other, well_known=other.keys())
        )
    )


def _simplest(places: tuple[Requirements, ...]) -> tuple[Requirements, ...]:
    """Where one alternative asks nothing, the others need not be asked."""
    return ANYWHERE if NO_REQUIREMENTS in places else places


def _ordered(attached: Iterable[Attachment | None]) -> tuple[Attachment, ...]:
    found = (each for each in attached if each is not None)
    return tuple(sorted(found, key=lambda each: (each.driver, each.volume)))
