"""Claims of pods on volumes: those of the input, and those that their makers still owe."""

from collections.abc import Iterable
from typing import Final

from wainwright.api.builtin.pod import Pod
from wainwright.api.builtin.storage import PersistentVolumeClaim
from wainwright.api.builtin.volume import PersistentVolumeClaimTemplate, Volume
from wainwright.api.builtin.workloads import StatefulSet
from wainwright.api.wire import Metadata
from wainwright.manifests.expand import name_of, namespace

MISSING: Final = "is not in the input"
ANOTHERS: Final = "was not made for this pod, whose own volume must have that name"


class Claims:
    """Finds what a volume of a pod claims.

    Kubernetes makes some claims before it places their pod: a StatefulSet those of its templates,
    another controller those of ephemeral volumes. Files about what is yet to run do without them.
    """

    def __init__(
        self, claims: Iterable[PersistentVolumeClaim], stateful_sets: Iterable[StatefulSet]
    ) -> None:
        self._written = {(namespace(each.metadata), each.metadata.name): each for each in claims}
        self._templates = {
            (namespace(each.metadata), name_of(each.metadata)): each.spec.volumeClaimTemplates
            for each in stateful_sets
        }

    def of(self, volume: Volume, pod: Pod) -> PersistentVolumeClaim | str:
        """The claim, or what is wrong with it, as what is to be said of it."""
        name = claim_name(volume, pod)
        found = self._written.get((namespace(pod.metadata), name))
        if volume.ephemeral is not None:
            template = volume.ephemeral.volumeClaimTemplate or PersistentVolumeClaimTemplate()
            if found is None:
                return _made(template, name)
            return found if _is_for(pod, found) else ANOTHERS
        return found or self._owed(name, pod) or MISSING

    def _owed(self, name: str, pod: Pod) -> PersistentVolumeClaim | None:
        for owner in pod.metadata.ownerReferences or ():
            templates = self._templates.get((namespace(pod.metadata), owner.name))
            for template in (templates or ()) if owner.kind == "StatefulSet" else ():
                number = name.removeprefix(f"{template.metadata.name}-{owner.name}-")
                if number != name and number.isdecimal():
                    return _made(template, name)
        return None


def claim_name(volume: Volume, pod: Pod) -> str:
    """The name of the volume's claim; empty where it needs none."""
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    claimed = volume.persistentVolumeClaim
    return claimed.claimName if claimed is not None else ""


def _made(template: PersistentVolumeClaimTemplate, name: str) -> PersistentVolumeClaim:
    metadata = Metadata(name=name, annotations=template.metadata.annotations)
    return PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def _is_for(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    return any(
        owner.kind == "Pod"
        and owner.name == pod.metadata.name
        and (not pod.metadata.uid or owner.uid == pod.metadata.uid)
        for owner in claim.metadata.ownerReferences or ()
    )
