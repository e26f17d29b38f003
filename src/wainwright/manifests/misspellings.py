"""Probable misspellings in valid objects: well-known labels and their values, and names of objects
that the input does not have. They are warnings with the name that was probably meant: an API server
accepts the object, and the cluster may know more names than the input has.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath, did_you_mean, field_warning
from wainwright.manifests.documents import ManifestDocument, no_known_values
from wainwright.model.labels import (
    AUTO_MODE_LABELS,
    AUTO_MODE_NODECLASS,
    CAPACITY_TYPE,
    COMPUTE_TYPE,
    DO_NOT_SYNC_TAINTS,
    EC2NODECLASS,
    EXCLUDE_FROM_LOAD_BALANCERS,
    HOSTNAME,
    INSTANCE_TENANCY,
    INSTANCE_TYPE,
    LABEL_ALIASES,
    NODE_STATE_LABELS,
    NODEPOOL,
    REGION,
    WELL_KNOWN_LABELS,
    ZONE,
    normalize_label,
    suggest_label,
)
from wainwright.model.spelling import (
    CLOSED_VALUES,
    KnownSpellings,
    closest_spelling,
    likely_spellings,
)

KnownValues = Callable[[str], AbstractSet[str]]
"""The values that nodes can have of a label; empty where they cannot be listed."""

SUGGESTED_LABELS: Final = WELL_KNOWN_LABELS | {HOSTNAME}
KNOWN_LABELS: Final = (
    SUGGESTED_LABELS
    | NODE_STATE_LABELS
    | {*LABEL_ALIASES, *AUTO_MODE_LABELS.values(), AUTO_MODE_NODECLASS, COMPUTE_TYPE}
    | {DO_NOT_SYNC_TAINTS, EXCLUDE_FROM_LOAD_BALANCERS}
    | {"eks.amazonaws.com/capacityType", "eks.amazonaws.com/nodegroup"}  # managed node groups
)
LABEL_DOMAINS: Final = frozenset(key.partition("/")[0] for key in KNOWN_LABELS)
"""Elsewhere a label is somebody else's, and similar to a well-known one by chance."""

POD_SPECS: Final[dict[str, FieldPath]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        ("spec", "template", "spec"),
    ),
}
REQUIREMENTS: Final[dict[str, tuple[FieldPath, ...]]] = {
    "NodePool": (("spec", "template", "spec", "requirements"), ("spec", "requirements")),
    "NodeClaim": (("spec", "requirements"),),
    "NodeOverlay": (("spec", "requirements"),),
}
CHECKED_BY_VALIDATION: Final = frozenset({CAPACITY_TYPE, INSTANCE_TENANCY})
"""Of requirements: any other value than the listed ones is reported there."""
CATALOG_KINDS: Final = frozenset({"Catalog", "InstanceType", "Node"})
"""Kinds that state which labels and values there are."""
SYSTEM_PRIORITIES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
MAX_COMPARISONS: Final = 500_000
"""Of one input: about a second. Thousands of unknown names that are each similar to thousands of
known ones would need more; they get no hints from there on."""
TOO_MANY: Final = (
    "from here on unknown values and names are not checked for misspellings: there are too many"
)
CLASS_KINDS: Final = {"EC2NodeClass": "karpenter.k8s.aws", "NodeClass": "eks.amazonaws.com"}


class _Mention(msgspec.Struct, frozen=True):
    """A label at one place, with the values that are required of it."""

    path: FieldPath
    key: str
    values: tuple[tuple[FieldPath, str], ...] = ()


class _Word(msgspec.Struct, frozen=True):
    """A word at one place that is usually one of a few, although others are legal."""

    path: FieldPath
    text: str
    known: tuple[str, ...]
    what: str


class _Reference(msgspec.Struct, frozen=True):
    """The name of another object at one place."""

    path: FieldPath
    kind: str
    name: str
    namespace: str | None = None
    """None where the kind has none."""


def find_misspellings(
    documents: Iterable[ManifestDocument], known_values: KnownValues = no_known_values
) -> Iterator[tuple[ManifestDocument, FieldError]]:
    """A warning for each label, value and name that is probably misspelt, with its document."""
    objects = [each for each in documents if _has_kind(each.value)]
    finder = _MisspellingFinder(objects, known_values)
    is_reported = False
    for document in objects:
        for warning in finder.warnings(document.value):
            yield document, warning
        if finder.is_over_budget and not is_reported:
            is_reported = True
            yield document, field_warning(("metadata", "name"), "", TOO_MANY)


def _has_kind(value: Any) -> bool:
    """Of an object without one nothing is known; a list or mapping as kind is an error already."""
    return isinstance(value, dict) and isinstance(value.get("kind"), str)


class _MisspellingFinder:
    def __init__(self, documents: list[ManifestDocument], known_values: KnownValues) -> None:
        self._documents = documents
        self._known_values = known_values
        self._names: dict[tuple[str, str | None], set[str]] = {}
        self._stated: set[str] | None = None
        self._values: dict[str, KnownSpellings] = {}
        self._known_by_place: dict[tuple[str, str | None], KnownSpellings] = {}
        self._meant: dict[tuple[str, str, KnownSpellings], tuple[str, ...]] = {}
        self._comparisons = 0
        for document in documents:
            self._add_name(document.value)

    @property
    def is_over_budget(self) -> bool:
        return self._comparisons > MAX_COMPARISONS

    def _add_name(self, value: dict[str, Any]) -> None:
        kind, metadata = value["kind"], _mapping(value.get("metadata"))
        if isinstance(metadata.get("name"), str):
            place = _namespace(value) if kind == "PersistentVolumeClaim" else None
            self._names.setdefault((kind, place), set()).add(metadata["name"])

    def warnings(self, value: dict[str, Any]) -> Iterator[FieldError]:
        """Those of one object."""
        for mention in _label_mentions(value):
            yield from self._label_warnings(mention)
        for reference in _references(value):
            yield from self._reference_warnings(reference)
        for word in chain(_words_of_few(value), _strategies(value)):
            meant = closest_spelling("", word.text, word.known)
            if meant and not self._is_stated(word.text):
                yield _misspelt(word.path, word.text, f"is not a known {word.what}", (meant,))
        yield from _class_kind_warnings(value)

    def _label_warnings(self, mention: _Mention) -> Iterator[FieldError]:
        if _is_of_known_domain(mention.key) and mention.key not in KNOWN_LABELS:
            label = suggest_label(mention.key, SUGGESTED_LABELS)
            if label and not self._is_stated(mention.key):
                yield _misspelt(mention.path, mention.key, "is not a well-known label", (label,))
            return
        for path, value in mention.values:
            meant = self._likely(mention.key, value, self._known(mention.key))
            if meant and not self._is_stated(value):
                yield _misspelt(path, value, f"is not a known value of {mention.key}", meant)

    def _likely(self, key: str, value: str, known: KnownSpellings) -> tuple[str, ...]:
        """The values that were probably meant; every distinct one is compared once."""
        if not known.values or value in known:
            return ()
        wanted = (key, value, known)
        if wanted not in self._meant:
            self._comparisons += known.count_candidates(value)
            found = () if self.is_over_budget else likely_spellings(key, value, known)
            self._meant[wanted] = found
        return self._meant[wanted]

    def _known(self, key: str) -> KnownSpellings:
        label = normalize_label(key)
        named = {NODEPOOL: "NodePool", EC2NODECLASS: "EC2NodeClass"}.get(label)
        if named is not None:
            return self._known_names(named, None)
        if label not in self._values:
            values = CLOSED_VALUES.get(label) or sorted(self._known_values(label))
            self._values[label] = KnownSpellings(values)
        return self._values[label]

    def _known_names(self, kind: str, namespace: str | None) -> KnownSpellings:
        place = (kind, namespace)
        if place not in self._known_by_place:
            known = self._names.get(place, set())
            more = SYSTEM_PRIORITIES if kind == "PriorityClass" else frozenset()
            self._known_by_place[place] = KnownSpellings(sorted(known | more))
        return self._known_by_place[place]

    def _is_stated(self, text: str) -> bool:
        """Whether the input itself says that there is such a label or value."""
        if self._stated is None:
            kinds = (each.value for each in self._documents)
            self._stated = {
                word
                for value in kinds
                if value.get("kind") in CATALOG_KINDS
                for word in _words(_mapping(value.get("metadata")) if _is_node(value) else value)
            }
        return text in self._stated

    def _reference_warnings(self, reference: _Reference) -> Iterator[FieldError]:
        known = self._known_names(reference.kind, reference.namespace)
        meant = self._likely("", reference.name, known)
        if meant:
            what = f"is not the name of a {reference.kind} in the input"
            yield _misspelt(reference.path, reference.name, what, meant)


def _is_of_known_domain(key: str) -> bool:
    """Also with k8s.io instead of kubernetes.io: both are reserved for Kubernetes."""
    domain = key.partition("/")[0]
    written_out = domain.removesuffix("k8s.io") + "kubernetes.io"
    return domain in LABEL_DOMAINS or (domain.endswith("k8s.io") and written_out in LABEL_DOMAINS)


def _misspelt(path: FieldPath, text: str, what: str, meant: Sequence[str]) -> FieldError:
    hint = f"did you mean {' or '.join(meant)}?"
    return field_warning(path, text, f"probably misspelt: {text} {what}", hint)


def _class_kind_warnings(value: dict[str, Any]) -> Iterator[FieldError]:
    """Kinds and groups are few: anything similar to one of them is a misspelling."""
    path = ("spec", "template", "spec", "nodeClassRef")
    reference = _mapping(_at(value, path)) if value.get("kind") == "NodePool" else {}
    for field, known in (("kind", [*CLASS_KINDS]), ("group", [*CLASS_KINDS.values()])):
        text = reference.get(field)
        is_unknown = isinstance(text, str) and text not in known and "/" not in text
        hint = did_you_mean(str(text), known) if is_unknown else ""
        if hint:  # a group with a version is an error already
            message = f"probably misspelt: {text} is not the {field} of a known node class"
            yield field_warning((*path, field), text, message, hint)


def _label_mentions(value: dict[str, Any]) -> Iterator[_Mention]:
    kind = value.get("kind")
    if kind in REQUIREMENTS:
        for path in REQUIREMENTS[kind]:
            yield from _requirement_mentions(value, path, CHECKED_BY_VALIDATION)
        yield from _mapping_mentions(value, ("spec", "template", "metadata", "labels"))
    if kind == "StorageClass":
        for index, _ in enumerate(_list(value.get("allowedTopologies"))):
            path = ("allowedTopologies", index, "matchLabelExpressions")
            yield from _requirement_mentions(value, path)
    if kind == "Cloud":
        yield from _cloud_mentions(value)
    if kind in POD_SPECS:
        yield from _pod_mentions(value, POD_SPECS[kind])


def _cloud_mentions(value: dict[str, Any]) -> Iterator[_Mention]:
    """The region, instance types and zones of a Cloud, which need not be in its region; patterns
    are not.
    """
    region = _at(value, ("spec", "region"))
    if isinstance(region, str):
        yield _Mention(("spec", "region"), REGION, ((("spec", "region"), region),))
    for name in ("prices", "unavailable", "capacityReservations"):
        for index, item in enumerate(_list(_at(value, ("spec", name)))):
            for field, label in CLOUD_FIELDS.items():
                text, path = _mapping(item).get(field), ("spec", name, index, field)
                if isinstance(text, str) and "*" not in text:
                    yield _Mention(path, label, ((path, text),))
    for index, zone in enumerate(_list(_at(value, ("spec", "zones")))):
        place = ("spec", "zones", index)
        yield _Mention(place, ZONE, ((place, str(zone)),))


CLOUD_FIELDS: Final = {"instanceType": INSTANCE_TYPE, "zone": ZONE, "availabilityZone": ZONE}


def _pod_mentions(value: dict[str, Any], spec: FieldPath) -> Iterator[_Mention]:
    yield from _mapping_mentions(value, (*spec, "nodeSelector"))
    affinity = (*spec, "affinity")
    if _at(value, affinity):
        for path in _expression_paths(value, (*affinity, "nodeAffinity")):
            yield from _requirement_mentions(value, path)
        for term in ("podAffinity", "podAntiAffinity"):
            yield from _pod_term_mentions(value, (*affinity, term))
    yield from _topology_mentions(value, (*spec, "topologySpreadConstraints"))


def _expression_paths(value: dict[str, Any], path: FieldPath) -> Iterator[FieldPath]:
    required = (*path, REQUIRED, "nodeSelectorTerms")
    for index, _ in enumerate(_list(_at(value, required))):
        yield (*required, index, "matchExpressions")
    for index, _ in enumerate(_list(_at(value, (*path, PREFERRED)))):
        yield (*path, PREFERRED, index, "preference", "matchExpressions")


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _pod_term_mentions(value: dict[str, Any], path: FieldPath) -> Iterator[_Mention]:
    yield from _topology_mentions(value, (*path, REQUIRED))
    for index, _ in enumerate(_list(_at(value, (*path, PREFERRED)))):
        yield from _topology_key(value, (*path, PREFERRED, index, "podAffinityTerm"))


def _topology_mentions(value: dict[str, Any], path: FieldPath) -> Iterator[_Mention]:
    for index, _ in enumerate(_list(_at(value, path))):
        yield from _topology_key(value, (*path, index))


def _topology_key(value: dict[str, Any], term: FieldPath) -> Iterator[_Mention]:
    key = _at(value, (*term, "topologyKey"))
    if isinstance(key, str):
        yield _Mention((*term, "topologyKey"), key)


def _mapping_mentions(value: dict[str, Any], path: FieldPath) -> Iterator[_Mention]:
    for key, item in _mapping(_at(value, path)).items():
        if isinstance(item, str):
            yield _Mention((*path, key), key, (((*path, key), item),))


def _requirement_mentions(
    value: dict[str, Any], path: FieldPath, checked: AbstractSet[str] = frozenset()
) -> Iterator[_Mention]:
    for index, item in enumerate(_list(_at(value, path))):
        key = _mapping(item).get("key")
        if isinstance(key, str):
            values = [] if key in checked else _list(item.get("values"))
            places = (((*path, index, "values", number), one) for number, one in enumerate(values))
            texts = tuple((place, one) for place, one in places if isinstance(one, str))
            yield _Mention((*path, index, "key"), key, texts)


def _words_of_few(value: dict[str, Any]) -> Iterator[_Word]:
    kind = value.get("kind")
    if kind == "NodePool":
        yield from _keys(value, ("spec", "limits"), RESOURCES, "resource")
        yield from _annotation_words(value, ("spec", "template", *ANNOTATED))
    if kind == "Cloud":
        for index, item in enumerate(_list(_at(value, ("spec", "capacityReservations")))):
            path = ("spec", "capacityReservations", index, "platform")
            yield _Word(path, str(_mapping(item).get("platform")), PLATFORMS, "platform")
    if kind == "EC2NodeClass":
        for index, term in enumerate(_list(_at(value, ("spec", "amiSelectorTerms")))):
            alias = str(_mapping(term).get("alias") or "")
            path = ("spec", "amiSelectorTerms", index, "alias")
            yield _Word(path, alias.partition("@")[2], ("latest",), "version of an alias")
    if kind == "StorageClass":
        yield _Word(("provisioner",), str(value.get("provisioner")), CSI_DRIVERS, "provisioner")
    if kind in POD_SPECS:
        yield from _pod_words(value, POD_SPECS[kind])


STRATEGIES: Final[dict[str, tuple[tuple[FieldPath, tuple[str, ...], str], ...]]] = {
    "Deployment": (
        (("spec", "strategy", "type"), ("Recreate", "RollingUpdate"), "strategy of a Deployment"),
    ),
    "DaemonSet": (
        (("spec", "updateStrategy", "type"), ("OnDelete", "RollingUpdate"), "update strategy"),
    ),
    "StatefulSet": (
        (("spec", "updateStrategy", "type"), ("OnDelete", "RollingUpdate"), "update strategy"),
        (("spec", "podManagementPolicy"), ("OrderedReady", "Parallel"), "pod management policy"),
    ),
    "CronJob": (
        (("spec", "concurrencyPolicy"), ("Allow", "Forbid", "Replace"), "concurrency policy"),
    ),
}
"""Fields that no plan depends on, so that nothing else reads their values."""


def _strategies(value: dict[str, Any]) -> Iterator[_Word]:
    for path, known, what in STRATEGIES.get(value["kind"], ()):
        yield _Word(path, str(_at(value, path) or ""), known, what)


ANNOTATED: Final = ("metadata", "annotations")
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
PLATFORMS: Final = (
    *("Linux/UNIX", "Red Hat Enterprise Linux", "SUSE Linux", "Windows", "Windows with SQL Server"),
    *("Linux with SQL Server Enterprise", "Linux with SQL Server Standard"),
    *("Linux with SQL Server Web", "RHEL with HA", "RHEL with HA and SQL Server Enterprise"),
    *("RHEL with HA and SQL Server Standard", "RHEL with SQL Server Enterprise"),
    *("RHEL with SQL Server Standard", "RHEL with SQL Server Web", "Ubuntu Pro"),
    *("Windows with SQL Server Enterprise", "Windows with SQL Server Standard"),
    "Windows with SQL Server Web",
)
"""Of capacity reservations, as EC2 spells them."""
CSI_DRIVERS: Final = ("ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "efs.csi.aws.com")
RESOURCES: Final = (
    *("cpu", "ephemeral-storage", "memory", "nodes", "pods"),
    *("amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi", "nvidia.com/gpu"),
    *("vpc.amazonaws.com/efa", "vpc.amazonaws.com/pod-eni"),
)


def _pod_words(value: dict[str, Any], spec: FieldPath) -> Iterator[_Word]:
    yield from _annotation_words(value, (*spec[:-1], *ANNOTATED))
    scheduler = _at(value, (*spec, "schedulerName"))
    path = (*spec, "schedulerName")
    yield _Word(path, str(scheduler), ("default-scheduler",), "scheduler")
    for index, _ in enumerate(_list(_at(value, (*spec, "containers")))):
        for field in ("requests", "limits"):
            path = (*spec, "containers", index, "resources", field)
            words = _keys(value, path, RESOURCES, "resource")
            yield from (each for each in words if "/" in each.text)  # others are errors


def _annotation_words(value: dict[str, Any], path: FieldPath) -> Iterator[_Word]:
    """A value of do-not-disrupt that is neither true nor a duration protects nothing."""
    yield from _keys(value, path, (DO_NOT_DISRUPT,), "annotation")
    stated = _mapping(_at(value, path)).get(DO_NOT_DISRUPT)
    if isinstance(stated, str):
        what = f"value of {DO_NOT_DISRUPT}"
        yield _Word((*path, DO_NOT_DISRUPT), stated, ("false", "true"), what)


def _keys(
    value: dict[str, Any], path: FieldPath, known: tuple[str, ...], what: str
) -> Iterator[_Word]:
    return (_Word((*path, key), key, known, what) for key in _mapping(_at(value, path)))


def _references(value: dict[str, Any]) -> Iterator[_Reference]:
    kind = value.get("kind")
    if kind == "NodePool":
        reference = ("spec", "template", "spec", "nodeClassRef")
        named = _at(value, (*reference, "kind")) or "EC2NodeClass"
        yield from _reference(value, (*reference, "name"), named)
    if kind == "PersistentVolumeClaim":
        yield from _reference(value, ("spec", "storageClassName"), "StorageClass")
    if kind == "StatefulSet":
        for index, _ in enumerate(_list(_at(value, ("spec", "volumeClaimTemplates")))):
            path = ("spec", "volumeClaimTemplates", index, "spec", "storageClassName")
            yield from _reference(value, path, "StorageClass")
    if kind in POD_SPECS:
        yield from _pod_references(value, POD_SPECS[kind])


def _pod_references(value: dict[str, Any], spec: FieldPath) -> Iterator[_Reference]:
    yield from _reference(value, (*spec, "priorityClassName"), "PriorityClass")
    for index, _ in enumerate(_list(_at(value, (*spec, "volumes")))):
        path = (*spec, "volumes", index, "persistentVolumeClaim", "claimName")
        yield from _reference(value, path, "PersistentVolumeClaim", _namespace(value))


def _reference(
    value: dict[str, Any], path: FieldPath, kind: Any, namespace: str | None = None
) -> Iterator[_Reference]:
    name = _at(value, path)
    if isinstance(name, str) and name and isinstance(kind, str):
        yield _Reference(path, kind, name, namespace)


def _namespace(value: dict[str, Any]) -> str:
    return str(_mapping(value.get("metadata")).get("namespace") or "default")


def _is_node(value: dict[str, Any]) -> bool:
    return value.get("kind") == "Node"


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)


def _at(value: Any, path: FieldPath) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
