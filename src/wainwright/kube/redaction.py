"""A snapshot without names: names and label values become words, equal ones the same word.

Words are numbered in the order of what they stand for, so that whatever is decided by the order of
names is decided alike. Kept are keys of labels, resources, and values that mean something to
scheduling by themselves: instance types, zones, capacity types, architectures.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from wainwright.kube.snapshot import ClusterSnapshot, Manifest

NAME_FIELDS: Final = frozenset(
    {
        *("name", "generateName", "namespace", "nodeName", "nominatedNodeName", "claimName"),
        *("volumeName", "storageClassName", "priorityClassName", "runtimeClassName"),
        *("schedulerName", "serviceName", "role", "instanceProfile", "resourceClaimName"),
        *("resourceClaimTemplateName", "volumeHandle", "server", "path", "shareName"),
        *("secretName", "volumeID", "pdName", "diskName", "diskURI", "volumePath"),
    }
)
NAME_LIST_FIELDS: Final = frozenset({"namespaces"})
LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "tags"})
DROPPED_FIELDS: Final = frozenset({"message", "userData", "context", "finalizers"})
"""Free text, and what only the real cluster needs."""
KEPT_NAMES: Final = frozenset(
    {
        *("", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"),
        *("system-cluster-critical", "system-node-critical"),
    }
)
KEPT_LABEL_PREFIXES: Final = (
    "beta.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "karpenter.k8s.aws/",
    "karpenter.sh/",
    "node-role.kubernetes.io/",
    "node.kubernetes.io/",
    "topology.",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "eks.amazonaws.com/capacityType",
    "eks.amazonaws.com/instance-",
    "eks.amazonaws.com/compute-type",
)
NAMING_LABELS: Final = frozenset(
    {"karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass", "karpenter.k8s.aws/cluster"}
)
"""Labels of those domains whose values are names."""
NAMING_ANNOTATIONS: Final = frozenset(
    {"volume.kubernetes.io/selected-node", "karpenter.k8s.aws/instance-profile-name"}
)
NUMERIC_OPERATORS: Final = ("Gt", "Lt", "Gte", "Lte")
ACCOUNT: Final = re.compile(r"^[0-9]{12}$")
INSTANCE: Final = re.compile(r"^(aws:///[^/]*/)?i-[0-9a-f]+$")
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
        return {key: self._field(key, value) for key, value in manifest.items()}

    def _mapping(self, value: Manifest) -> Manifest:
        if "key" in value and ("values" in value or "value" in value):
            return self._requirement(value)
        return {
            key: self._field(key, item) for key, item in value.items() if key not in DROPPED_FIELDS
        }

    def _field(self, key: str, value: Any) -> Any:
        if key in LABEL_MAPS and _is_text_map(value):
            return {name: self.label(name, text) for name, text in value.items()}
        if key == "annotations" and isinstance(value, dict):
            return {name: self._annotation(name, text) for name, text in value.items()}
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list):
            return [self._element(key, each) for each in value]
        return self.text(key, value) if isinstance(value, str) else value

    def _element(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, str):
            return self.name(value) if key in NAME_LIST_FIELDS else self.text(key, value)
        return value

    def text(self, key: str, value: str) -> str:
        if key in NAME_FIELDS:
            return self.name(value)
        if ACCOUNT.match(value):
            return f"{int(self._number(value)):012d}"
        if INSTANCE.match(value):
            prefix, _, _ = value.rpartition("i-")
            return f"{prefix}i-{int(self._number(value[len(prefix) :])):017x}"
        if ARN.match(value):
            return self._arn(value)
        return value

    def _number(self, value: str) -> str:
        word = self._rename(value)
        return word[1:] if word != value else "0"

    def _arn(self, value: str) -> str:
        parts = value.split(":")
        kind, slash, name = parts[-1].partition("/")
        account = self.text("", parts[4]) if len(parts) > 4 else ""
        return ":".join((*parts[:4], account, f"{kind}{slash}{self.name(name)}"))

    def name(self, value: str) -> str:
        if value in KEPT_NAMES or value.startswith("system:"):
            return value
        if value in self._composed:
            parts = self._composed[value]
            return "-".join(each[1:] if each[0] == "#" else self.name(each) for each in parts)
        prefixed = value.endswith("-")  # a generateName
        return f"{self._rename(value)}-" if prefixed else self._rename(value)

    def label(self, key: str, value: str) -> str:
        is_kept = key.startswith(KEPT_LABEL_PREFIXES) and key not in NAMING_LABELS
        if is_kept or key in self._numeric or value in ("", "*", "true", "false"):
            return value
        return self.name(value)

    def _annotation(self, key: str, value: str) -> str:
        return self.name(value) if key in NAMING_ANNOTATIONS else value

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
