"""The region that the objects of an input point to, where nobody states one.

Labels and provider ids of nodes say where the cluster is; the status of a class says where it has
subnets; requirements and selectors of NodePools and pods say where nodes are wanted; volumes where
they are. The first of these kinds that names a region decides, and in it the region that most
objects name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from wainwright.api.catalog_documents import CapacityReservations
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Node
from wainwright.api.kubernetes.meta import NodeSelector, NodeSelectorTerm
from wainwright.api.kubernetes.storage import PersistentVolume, StorageClass
from wainwright.api.kubernetes.workloads import NodeAffinity, Pod, PodSpec, PodTemplateSpec
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.model.labels import REGION_LABELS, normalize_label
from wainwright.translate.object_metadata import name_or_prefix

Evidence = tuple[str, str]
"""Kind and name of an object, and the region, zone or zone id that it names."""

RegionLookup = Callable[[str], str | None]
"""The region of a name; None where no such region is known."""


def infer_region(objects: Sequence[WireStruct], region_of: RegionLookup) -> RegionChoice | None:
    """None where nothing names a known region."""
    for source, evidence_in in EVIDENCE.items():
        choice = _most_named(source, evidence_in(objects), region_of)
        if choice is not None:
            return choice
    return None


def _most_named(
    source: RegionSource, evidence: Iterable[Evidence], region_of: RegionLookup
) -> RegionChoice | None:
    counts: Counter[str] = Counter()
    first: dict[str, Evidence] = {}
    for subject, value in evidence:
        region = region_of(value)
        if region is not None:
            counts[region] += 1
            first.setdefault(region, (subject, value))
    if not counts:
        return None
    region = min(counts, key=lambda name: (-counts[name], name))
    subject, value = first[region]
    return RegionChoice(region=region, source=source, subject=subject, value=value)


def _node_labels(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    for item in objects:
        if isinstance(item, Node | NodeClaim):
            yield from _in_labels(item, item.metadata.labels)


def _provider_ids(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    """The zone of aws:///us-west-2a/i-0123456789abcdef0."""
    for item in objects:
        if isinstance(item, Node):
            yield _subject(item), _zone_of_provider_id(item.spec.providerID)
        elif isinstance(item, NodeClaim) and item.status is not None:
            yield _subject(item), _zone_of_provider_id(item.status.providerID)


def _zone_of_provider_id(provider_id: str) -> str:
    return provider_id.rpartition("/")[0].rpartition("/")[2]


def _class_status(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    for item in objects:
        if isinstance(item, EC2NodeClass):
            status = item.status or EC2NodeClassStatus()
            yield from ((_subject(item), each.zone) for each in status.subnets or ())
            for reservation in status.capacityReservations or ():
                yield _subject(item), reservation.availabilityZone


def _reservations(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    for item in objects:
        if isinstance(item, CapacityReservations):
            for each in item.spec.capacityReservations:
                yield f"capacity reservation {each.id}", each.availabilityZone


def _node_pools(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    for item in objects:
        if isinstance(item, NodePool):
            template = item.spec.template
            yield from _in_labels(item, template.metadata.labels if template.metadata else None)
            for each in template.spec.requirements:
                yield from _in_values(item, each.key, each.values)


def _pods(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    # The reader gives equal specs one struct: thousands of pods of a workload are looked at once.
    seen: set[int] = set()
    for item in objects:
        spec = _pod_spec(item)
        if spec is not None and id(spec) not in seen:
            seen.add(id(spec))
            yield from _in_labels(item, spec.nodeSelector)
            affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
            yield from _in_terms(item, _node_affinity_terms(affinity))


def _pod_spec(item: WireStruct) -> PodSpec | None:
    """The spec of a pod, or of the pods of a workload."""
    if isinstance(item, Pod):
        return item.spec
    template = getattr(getattr(item, "spec", None), "template", None)
    return template.spec if isinstance(template, PodTemplateSpec) else None


def _node_affinity_terms(affinity: NodeAffinity | None) -> Iterator[NodeSelectorTerm]:
    if affinity is not None:
        yield from _terms(affinity.requiredDuringSchedulingIgnoredDuringExecution)
        for each in affinity.preferredDuringSchedulingIgnoredDuringExecution or ():
            yield each.preference


def _terms(selector: NodeSelector | None) -> Iterable[NodeSelectorTerm]:
    return (selector.nodeSelectorTerms or ()) if selector is not None else ()


def _volumes(objects: Sequence[WireStruct]) -> Iterator[Evidence]:
    for item in objects:
        if isinstance(item, PersistentVolume):
            yield from _in_labels(item, item.metadata.labels)
            affinity = item.spec.nodeAffinity
            yield from _in_terms(item, _terms(affinity.required if affinity is not None else None))
        elif isinstance(item, StorageClass):
            for term in item.allowedTopologies or ():
                for each in term.matchLabelExpressions or ():
                    yield from _in_values(item, each.key, each.values)


EVIDENCE: Final[dict[RegionSource, Callable[[Sequence[WireStruct]], Iterator[Evidence]]]] = {
    RegionSource.NODE: _node_labels,
    RegionSource.PROVIDER_ID: _provider_ids,
    RegionSource.CLASS_STATUS: _class_status,
    RegionSource.RESERVATION: _reservations,
    RegionSource.NODE_POOL: _node_pools,
    RegionSource.POD: _pods,
    RegionSource.VOLUME: _volumes,
}
"""In the order in which they decide."""


def _in_labels(item: WireStruct, labels: dict[str, str] | None) -> Iterator[Evidence]:
    for key, value in (labels or {}).items():
        yield from _in_values(item, key, (value,))


def _in_terms(item: WireStruct, terms: Iterable[NodeSelectorTerm]) -> Iterator[Evidence]:
    for term in terms:
        for each in term.matchExpressions or ():
            yield from _in_values(item, each.key, each.values)


def _in_values(item: WireStruct, key: str, values: Iterable[str] | None) -> Iterator[Evidence]:
    """Values that are excluded count as well: nobody excludes a zone of another region."""
    if normalize_label(key) in REGION_LABELS:
        yield from ((_subject(item), value) for value in values or ())


def _subject(item: WireStruct) -> str:
    metadata: ObjectMeta = item.metadata  # type: ignore[attr-defined] # every kind has metadata
    return f"{item.kind} {name_or_prefix(metadata)}"  # type: ignore[attr-defined]
