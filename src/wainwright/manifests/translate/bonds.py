"""What ties pods to other pods, to ports and to nodes that they like; equal ties are one object."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from wainwright.api.builtin.affinity import Affinity, PodAffinityTerm
from wainwright.api.builtin.check_affinity import pod_affinities, terms
from wainwright.api.builtin.pod import Pod, PodSpec
from wainwright.manifests.translate.affinity import Places
from wainwright.manifests.translate.company import Neighbours
from wainwright.manifests.translate.defaults import Defaults
from wainwright.manifests.translate.namespaces import Namespaces
from wainwright.manifests.translate.ports import host_ports
from wainwright.manifests.translate.spreads import spreads
from wainwright.manifests.translate.volumes import Held
from wainwright.model.pod import NO_BONDS, Bonds
from wainwright.model.topology import Spread

NO_AFFINITY: Final = Affinity()
NO_LABELS: Final[Mapping[str, str]] = {}


class Dependence(msgspec.Struct, frozen=True, kw_only=True):
    """What of a pod, besides its spec, its bonds hang on."""

    labels: tuple[str, ...] = ()
    namespace: bool = False


INDEPENDENT: Final = Dependence()


class Binding:
    """Makes bonds; the same ones are always the same object, which is quick to tell."""

    def __init__(
        self, places: Places, namespaces: Namespaces, defaults: Defaults | None = None
    ) -> None:
        self._places = places
        self._namespaces = namespaces
        self._defaults = defaults
        self._known: dict[Bonds, Bonds] = {NO_BONDS: NO_BONDS}
        self._spread: dict[tuple[Bonds, tuple[Spread, ...]], Bonds] = {}

    def bonds(
        self, spec: PodSpec, namespace: str = "", labels: Mapping[str, str] = NO_LABELS
    ) -> Bonds:
        """All but those of volumes; what the bonds do not hang on may be left out."""
        ports = host_ports(spec)
        if not ports and _is_alone(spec):
            return NO_BONDS
        neighbours = Neighbours(self._namespaces, namespace, labels)
        affinity = spec.affinity or NO_AFFINITY
        near, far = affinity.podAffinity, affinity.podAntiAffinity
        return self._one(
            Bonds(
                spreads=spreads(spec, labels),
                affinity=neighbours.required(near),
                anti_affinity=neighbours.required(far),
                preferred_affinity=neighbours.preferred(near),
                preferred_anti_affinity=neighbours.preferred(far),
                preferred_nodes=self._places.preferred(affinity),
                ports=ports,
            )
        )

    def with_defaults(self, bonds: Bonds, pod: Pod) -> Bonds:
        """The bonds with what the scheduler asks of a pod that asks for no spread itself."""
        spreads = self._defaults.spreads(pod) if self._defaults is not None else ()
        if not spreads:
            return bonds
        found = self._spread.get((bonds, spreads))
        if found is None:
            made = self._one(msgspec.structs.replace(bonds, spreads=spreads))
            found = self._spread[bonds, spreads] = made
        return found

    def with_volumes(self, bonds: Bonds, held: Held) -> Bonds:
        attached, places = held.attachments, held.places
        return self._one(msgspec.structs.replace(bonds, attachments=attached, volume_places=places))

    def _one(self, made: Bonds) -> Bonds:
        return self._known.setdefault(made, made)


def dependence(spec: PodSpec) -> Dependence:
    if _is_alone(spec):
        return INDEPENDENT
    found = list(_terms(spec))
    keys: set[str] = set()
    for constraint in spec.topologySpreadConstraints or ():
        keys.update(constraint.matchLabelKeys or ())
    for term in found:
        keys.update(term.matchLabelKeys or (), term.mismatchLabelKeys or ())
    local = any(not term.namespaces and term.namespaceSelector is None for term in found)
    return Dependence(labels=tuple(sorted(keys)), namespace=local)


def _is_alone(spec: PodSpec) -> bool:
    return not spec.topologySpreadConstraints and spec.affinity is None


def _terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    for _, affinity in pod_affinities(spec.affinity or NO_AFFINITY):
        yield from (term for _, term in terms(affinity))
