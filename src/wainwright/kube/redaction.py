"""A snapshot without names: names and label values become words, equal ones the same word.

Words are numbered in the order of what they stand for, so that whatever is decided by the order of
names is decided alike. Kept are keys of labels, resources, and values that mean something to
scheduling by themselves: instance types, zones, capacity types, architectures.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from ipaddress import IPv4Network
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import InstanceType
from wainwright.api.karpenter.shared_fields import (
    AWS_LABELS,
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    KARPENTER_AWS_GROUP,
    NODEPOOL,
    PRICE_LABEL,
    ZONE,
)
from wainwright.kube.snapshot import ClusterSnapshot, Manifest
from wainwright.kube.snapshot_annotations import (
    CHOICE,
    NAMING_ANNOTATIONS,
    is_kept_annotation,
)

NAME_FIELDS: Final = frozenset(
    {
        *("name", "generateName", "namespace", "nodeName", "nominatedNodeName", "claimName"),
        *("volumeName", "storageClassName", "priorityClassName", "runtimeClassName", "handler"),
        *("schedulerName", "serviceName", "role", "instanceProfile", "resourceClaimName"),
        *("resourceClaimTemplateName", "volumeHandle", "server", "path", "shareName"),
        *("secretName", "volumeID", "pdName", "diskName", "diskURI", "volumePath", "request"),
    }
)
NAME_LIST_FIELDS: Final = frozenset({"namespaces", "volumesInUse"})
IDENTIFIER_FIELDS: Final = frozenset(
    {
        *("id", "imageID", "snapshotID", "nodeID", "providerID", "owner", "ownerID", "kmsKeyID"),
        *("ssmParameter", "reservationGroup", "reservationGroups"),
    }
)
"""Keep the form of an identifier, an account or an ARN, and else are names."""
ADDRESS_FIELDS: Final = frozenset({"hostIP", "clusterDNS"})
CONDITION_WORD_FIELDS: Final = frozenset({"type", "reason"})
"""Of conditions: those that are no such word have the names of what a controller watches."""
CONDITION_WORD: Final = re.compile(r"[A-Z][A-Za-z0-9]*|")
LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "tags"})
LABEL_MAP_LISTS: Final = frozenset({"offerings"})
NAME_MAPS: Final = frozenset({"disruptedPods"})
"""Their keys are names."""
DRIVER_LISTS: Final = frozenset({"drivers"})
"""Volumes and StorageClasses refer to drivers by names that are domains, which stay as keys do."""
DROPPED_FIELDS: Final = frozenset({"message", "userData", "context", "finalizers", "osImage"})
"""Free text, and what only the real cluster needs."""
PLACES_OF_PROVISIONERS: Final = frozenset({"zone", "zones"})
"""The parameters of a StorageClass that decide where volumes are; others name keys and secrets."""
KEPT_NAMES: Final = frozenset(
    {
        *("", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"),
        *("system-cluster-critical", "system-node-critical"),
    }
)
KEPT_IDENTIFIERS: Final = frozenset({"self", "amazon", "aws-marketplace"})
"""Owners of images that are no accounts."""
PRIVATE_NETWORK: Final = IPv4Network("10.0.0.0/8")
KEPT_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::", "127.0.0.1", "::1"})  # of ports
NAMING_LABELS: Final = frozenset({NODEPOOL, f"{KARPENTER_AWS_GROUP}/ec2nodeclass"})
KEPT_LABELS: Final = (
    frozenset(AWS_LABELS) - NAMING_LABELS
    | {label.replace(KARPENTER_AWS_GROUP, "eks.amazonaws.com") for label in AWS_LABELS}
    | {CAPACITY_TYPE, PRICE_LABEL, INSTANCE_TYPE, ZONE}
    | {
        *("karpenter.sh/initialized", "karpenter.sh/registered"),
        *("kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/windows-build"),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type"),
        *("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"),
        *("topology.k8s.aws/zone-id", "eks.amazonaws.com/capacityType"),
        "eks.amazonaws.com/compute-type",
    }
    - {"eks.amazonaws.com/ec2nodeclass"}
)
"""Labels whose values mean something to scheduling by themselves. Whole keys and no domains: people
put labels of their own into node.kubernetes.io, and tags of Karpenter's domain name clusters.
"""
NUMERIC_OPERATORS: Final = ("Gt", "Lt", "Gte", "Lte")
ACCOUNT: Final = re.compile(r"^[0-9]{12}$")
RESOURCE: Final = re.compile(r"^(aws:///[^/]*/)?((?:i|ami|subnet|sg|snap|vol)-)([0-9a-f]+)$")
RESERVED_RESOURCE: Final = re.compile(r"^(cr|pg)-[0-9a-z]+$")
"""Kept, as in labels: a file of EC2's answers beside the snapshot has the same."""
ARN: Final = re.compile(r"^arn:")

Rename = Callable[[str], str]


def redact(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The same cluster under other names; items stay in their order."""
    numeric, composed = set(_compared_keys(snapshot.items)), _composed_names(snapshot.items)
    found: set[str] = set()
    gathering = Redaction(numeric, composed, collecting(found))
    for item in snapshot.items:
        gathering.item(item)
    words = {text: f"r{number:06d}" for number, text in enumerate(sorted(found))}
    words |= pool_words(snapshot.items, words)
    renaming = Redaction(numeric, composed, words.__getitem__)
    return msgspec.structs.replace(snapshot, items=[renaming.item(each) for each in snapshot.items])


def pool_words(items: Sequence[Manifest], words: Mapping[str, str]) -> dict[str, str]:
    """Words for NodePools whose hashes are in the order of those of the names: at equal weight the
    hash decides which pool goes first.
    """
    pools = [each["metadata"]["name"] for each in items if each["kind"] == "NodePool"]
    named = sorted((name for name in pools if name in words), key=_name_hash)
    return {name: _word_in(words[name], at, len(named)) for at, name in enumerate(named)}


def _word_in(word: str, position: int, count: int) -> str:
    """The word with a number behind it that puts its hash into this part of all hashes."""
    candidates = (f"{word}-{number}" for number in itertools.count())
    return next(each for each in candidates if _name_hash(each) * count >> 256 == position)


def _name_hash(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16)


def collecting(found: set[str]) -> Rename:
    def collect(text: str) -> str:
        found.add(text)
        return text

    return collect


def _compared_keys(value: Any) -> Iterator[str]:
    """Keys whose values are compared as numbers: words would not do."""
    if isinstance(value, dict):
        if value.get("operator") in NUMERIC_OPERATORS and "key" in value:
            yield value["key"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _compared_keys(each)


def _composed_names(items: Sequence[Manifest]) -> dict[str, tuple[str, ...]]:
    """Names that controllers make of other names, by their parts; a number is marked by `#`. They
    are those of pods and claims of StatefulSets, and of claims of ephemeral volumes.
    """
    prefixes = dict(_stateful_prefixes(items))
    composed: dict[str, tuple[str, ...]] = {}
    for item in items:
        name = item["metadata"].get("name", "")
        prefix, _, number = name.rpartition("-")
        parts = prefixes.get((item["kind"], prefix))
        if parts is not None and number.isdigit():
            composed[name] = (*parts, f"#{number}")
        if item["kind"] == "Pod":
            for volume in item.get("spec", {}).get("volumes") or ():
                if "ephemeral" in volume:
                    composed[f"{name}-{volume['name']}"] = (name, volume["name"])
    return composed


def _stateful_prefixes(
    items: Sequence[Manifest],
) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
    """Kind and name, up to the number, of what StatefulSets create, and the parts of the name."""
    for item in items:
        if item["kind"] == "StatefulSet":
            name = item["metadata"]["name"]
            yield ("Pod", name), (name,)
            for template in item.get("spec", {}).get("volumeClaimTemplates") or ():
                volume = template.get("metadata", {}).get("name", "")
                yield ("PersistentVolumeClaim", f"{volume}-{name}"), (volume, name)


class Redaction:
    """Walks manifests and renames what stands where names and label values stand."""

    def __init__(
        self, numeric: set[str], composed: Mapping[str, tuple[str, ...]], rename: Rename
    ) -> None:
        self._numeric, self._composed, self._rename = numeric, composed, rename

    def item(self, manifest: Manifest) -> Manifest:
        changed = self._mapping(manifest)
        if manifest.get("kind") != InstanceType.__name__:
            return changed
        # The name of an InstanceType is that of the type which it overrides.
        return {
            **changed,
            "metadata": {**changed["metadata"], "name": manifest["metadata"]["name"]},
        }

    def _mapping(self, value: Manifest) -> Manifest:
        if "key" in value and ("values" in value or "value" in value):
            return self._requirement(value)
        return {
            key: self._field(key, item) for key, item in value.items() if key not in DROPPED_FIELDS
        }

    def _field(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._map_field(key, value)
        if isinstance(value, list):
            return [self._element(key, each) for each in value]
        return self.text(key, value) if isinstance(value, str) else value

    def _map_field(self, key: str, value: Manifest) -> Manifest:
        if key in LABEL_MAPS and _is_text_map(value):
            return self.labels(value)
        if key == "annotations":
            return self.annotations(value)
        if key == "parameters":
            return {name: value[name] for name in value if name.lower() in PLACES_OF_PROVISIONERS}
        if key in NAME_MAPS:
            return {self.name(name): each for name, each in value.items()}
        return self._mapping(value)

    def _element(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            if key in LABEL_MAP_LISTS:
                return self.labels(value)
            changed = self._mapping(value)
            return {**changed, "name": value["name"]} if key in DRIVER_LISTS else changed
        if isinstance(value, str):
            return self.name(value) if key in NAME_LIST_FIELDS else self.text(key, value)
        return value

    def labels(self, value: Manifest) -> Manifest:
        return {
            key: self.label(key, text) if isinstance(text, str) else text
            for key, text in value.items()
        }

    def annotations(self, value: Manifest) -> Manifest:
        kept = {key: value[key] for key in value if is_kept_annotation(key)}
        return {key: self._annotation(key, text) for key, text in kept.items()}

    def text(self, key: str, value: str) -> str:
        if key in NAME_FIELDS:
            return self.name(value)
        if key in CONDITION_WORD_FIELDS and not CONDITION_WORD.fullmatch(value):
            return self.name(value)
        if key in ADDRESS_FIELDS:
            return self.address(value)
        shown = self._identifier(value)
        return self.name(value) if shown is None and key in IDENTIFIER_FIELDS else shown or value

    def _identifier(self, value: str) -> str | None:
        """Another of the same form; None for what has none of these forms."""
        if ACCOUNT.match(value):
            return f"{self._number(value):012d}"
        if found := RESOURCE.match(value):
            zone, kind, number = found.groups("")
            return f"{zone}{kind}{self._number(kind + number):017x}"
        if ARN.match(value):
            return self._arn(value)
        is_kept = value in KEPT_IDENTIFIERS or RESERVED_RESOURCE.match(value)
        return value if is_kept else None

    def address(self, value: str) -> str:
        """Another IPv4 address, which a port can be bound to as well."""
        return value if value in KEPT_ADDRESSES else str(PRIVATE_NETWORK[self._number(value)])

    def _number(self, value: str) -> int:
        word = self._rename(value)
        return int(word[1:].partition("-")[0]) if word != value else 0

    def _arn(self, value: str) -> str:
        *head, account, resource = value.split(":", 5)
        kind, slash, name = resource.partition("/")
        if not slash:
            kind, name = "", resource
        return ":".join((*head, self.text("", account), f"{kind}{slash}{self.name(name)}"))

    def name(self, value: str) -> str:
        if value in KEPT_NAMES:
            return value
        if value in self._composed:
            parts = self._composed[value]
            return "-".join(each[1:] if each[0] == "#" else self.name(each) for each in parts)
        prefixed = value.endswith("-")  # a generateName
        return f"{self._rename(value)}-" if prefixed else self._rename(value)

    def label(self, key: str, value: str) -> str:
        is_number = key in self._numeric and value.removeprefix("-").isdigit()
        is_kept = is_number or key in KEPT_LABELS or value in ("", "*", "true", "false")
        return value if is_kept else self.name(value)

    def _annotation(self, key: str, value: str) -> str:
        if CHOICE.fullmatch(value) and key not in NAMING_ANNOTATIONS:
            return value
        return ",".join(map(self.name, value.split(",")))

    def _requirement(self, value: Manifest) -> Manifest:
        """A requirement, a taint or a toleration."""
        changed = self._plain(value)
        if isinstance(value.get("values"), list):
            changed["values"] = [self.label(value["key"], each) for each in value["values"]]
        if isinstance(value.get("value"), str):
            changed["value"] = self.label(value["key"], value["value"])
        return changed

    def _plain(self, value: Manifest) -> Manifest:
        return {key: item for key, item in value.items() if key not in DROPPED_FIELDS}


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
