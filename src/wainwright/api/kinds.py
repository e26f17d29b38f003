"""Every kind that can be read, its validator, and the CustomResourceDefinitions of our kinds.
The CRDs are generated from the wire structs and committed under deploy/chart/crds.
"""

from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import (
    CapacityReservations,
    Catalog,
    Cloud,
    InstanceType,
    NodeOverlay,
)
from wainwright.api.field_error import did_you_mean
from wainwright.api.karpenter.auto_mode import NodeClass
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import OWN_GROUPS
from wainwright.api.kubernetes.object_reader import KUBERNETES_KINDS as KUBERNETES
from wainwright.api.legacy.legacy_validation import LEGACY_KINDS
from wainwright.api.pod_template_paths import PodTemplatePaths
from wainwright.api.wire import WireStruct, object_schema, publishable_schema

SIMILAR_GROUP: Final = 0.85  # of 1: how similar a group must be to ours to be a typing error

PrinterColumn = dict[str, Any]


def _printer_column(
    name: str, path: str, kind: str = "string", *, wide: bool = False
) -> PrinterColumn:
    made: PrinterColumn = {"name": name, "type": kind, "jsonPath": path}
    return {**made, "priority": 1} if wide else made


def _label_column(name: str, key: str, *, wide: bool = False) -> PrinterColumn:
    escaped = key.replace(".", "\\.")
    return _printer_column(name, f".metadata.labels.{escaped}", wide=wide)


def _condition_column(kind: str, *, wide: bool = False) -> PrinterColumn:
    return _printer_column(kind, f'.status.conditions[?(@.type=="{kind}")].status', wide=wide)


READY_COLUMN: Final = _condition_column("Ready")
AGE_COLUMN: Final = _printer_column("Age", ".metadata.creationTimestamp", "date")


class CustomResource(msgspec.Struct, frozen=True, kw_only=True):
    """One of our kinds, with the names and columns of its CRD."""

    type: type[WireStruct]
    plural: str
    short_names: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = (READY_COLUMN, AGE_COLUMN)
    scale: dict[str, str] | None = None

    @property
    def api_version(self) -> str:
        return str(_field_default(self.type, "apiVersion"))

    @property
    def kind(self) -> str:
        return str(_field_default(self.type, "kind"))

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.partition("/")[2]


def _field_default(kind: type[WireStruct], name: str) -> Any:
    return next(f.default for f in msgspec.structs.fields(kind) if f.name == name)


CUSTOM_RESOURCES: Final = (
    CustomResource(
        type=NodePool,
        plural="nodepools",
        scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
        columns=(
            _printer_column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            _printer_column("Nodes", ".status.nodes"),
            READY_COLUMN,
            AGE_COLUMN,
            _printer_column("Weight", ".spec.weight", "integer", wide=True),
            _printer_column("CPU", ".status.resources.cpu", wide=True),
            _printer_column("Memory", ".status.resources.memory", wide=True),
        ),
    ),
    CustomResource(
        type=NodeClaim,
        plural="nodeclaims",
        columns=(
            _label_column("Type", "node.kubernetes.io/instance-type"),
            _label_column("Capacity", "karpenter.sh/capacity-type"),
            _label_column("Zone", "topology.kubernetes.io/zone"),
            _printer_column("Node", ".status.nodeName"),
            READY_COLUMN,
            AGE_COLUMN,
            _printer_column("ImageID", ".status.imageID", wide=True),
            _printer_column("ID", ".status.providerID", wide=True),
            _label_column("NodePool", "karpenter.sh/nodepool", wide=True),
            _printer_column("NodeClass", ".spec.nodeClassRef.name", wide=True),
            _condition_column("Drifted", wide=True),
        ),
    ),
    CustomResource(
        type=EC2NodeClass,
        plural="ec2nodeclasses",
        short_names=("ec2nc", "ec2ncs"),
        columns=(READY_COLUMN, AGE_COLUMN, _printer_column("Role", ".spec.role", wide=True)),
    ),
    CustomResource(type=InstanceType, plural="instancetypes"),
    CustomResource(
        type=NodeOverlay,
        plural="nodeoverlays",
        short_names=("overlays",),
        columns=(
            READY_COLUMN,
            AGE_COLUMN,
            _printer_column("Weight", ".spec.weight", "integer", wide=True),
        ),
    ),
)


def custom_resource_definition(item: CustomResource) -> dict[str, Any]:
    """The CustomResourceDefinition document of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{item.plural}.{item.group}"},
        "spec": {
            "group": item.group,
            "scope": "Cluster",
            "names": _crd_names(item),
            "versions": [_crd_version(item)],
        },
    }


def _crd_names(item: CustomResource) -> dict[str, Any]:
    short = {"shortNames": list(item.short_names)} if item.short_names else {}
    return {
        "kind": item.kind,
        "listKind": f"{item.kind}List",
        "plural": item.plural,
        "singular": item.kind.lower(),
        **short,
        "categories": ["karpenter"],
    }


def _crd_version(item: CustomResource) -> dict[str, Any]:
    scale = {"scale": item.scale} if item.scale else {}
    return {
        "name": item.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **scale},
        "additionalPrinterColumns": list(item.columns),
        "schema": {"openAPIV3Schema": publishable_schema(object_schema(item.type))},
    }


class KindFamily(Enum):
    """How a kind is validated."""

    CUSTOM = "a kind of ours with a CRD: judged as the API server would"
    OFFLINE = "a kind of ours that only offline commands read"
    KUBERNETES = "Kubernetes' own: checked as far as scheduling depends on it"
    LEGACY = "a kind of the past: converted, not used"
    AUTO_MODE = "EKS Auto Mode's: checked as far as planning depends on it"


class KnownKind(msgspec.Struct, frozen=True, kw_only=True):
    api_version: str
    name: str
    family: KindFamily
    type: type[WireStruct]


KindEntry = tuple[str, str, KindFamily, type[WireStruct]]


def _all_kinds() -> list[KnownKind]:
    custom: list[KindEntry] = [
        (d.api_version, d.kind, KindFamily.CUSTOM, d.type) for d in CUSTOM_RESOURCES
    ]
    offline: list[KindEntry] = [
        ("wainwright.dev/v1alpha1", "Cloud", KindFamily.OFFLINE, Cloud),
        ("wainwright.dev/v1alpha1", "Catalog", KindFamily.OFFLINE, Catalog),
        (
            "wainwright.dev/v1alpha1",
            "CapacityReservations",
            KindFamily.OFFLINE,
            CapacityReservations,
        ),
        ("wainwright.dev/v1alpha1", "PodTemplatePaths", KindFamily.OFFLINE, PodTemplatePaths),
    ]
    auto_mode: list[KindEntry] = [
        ("eks.amazonaws.com/v1", "NodeClass", KindFamily.AUTO_MODE, NodeClass)
    ]
    kubernetes_reader: list[KindEntry] = [
        (*key, KindFamily.KUBERNETES, kind) for key, kind in KUBERNETES.items()
    ]
    old: list[KindEntry] = [(*key, KindFamily.LEGACY, kind) for key, kind in LEGACY_KINDS.items()]
    return [
        KnownKind(api_version=version, name=name, family=family, type=kind)
        for version, name, family, kind in [*custom, *offline, *auto_mode, *kubernetes_reader, *old]
    ]


@lru_cache(maxsize=1)
def known_kinds() -> dict[tuple[str, str], KnownKind]:
    return {(kind.api_version, kind.name): kind for kind in _all_kinds()}


def is_own_group(api_version: str) -> bool:
    """Whether the group is one of ours, so that an unknown kind in it is a mistake."""
    return api_version.partition("/")[0] in OWN_GROUPS


def is_misplaced_kind(api_version: str, name: str) -> bool:
    """Whether the kind is one of ours under a group by mistake: none, Kubernetes' own, or one that
    is nearly ours. Other groups have kinds of these names too, such as NodePool of HyperShift.
    """
    if not any(
        kind.name == name and is_own_group(kind.api_version) for kind in known_kinds().values()
    ):
        return False
    group = api_version.partition("/")[0] if "/" in api_version else ""
    is_plain = "." not in group or group.endswith(".k8s.io")
    return is_plain or bool(get_close_matches(group, OWN_GROUPS, cutoff=SIMILAR_GROUP))


def suggest_kind(api_version: str, kind: str) -> str:
    """A hint with the known kind that is most similar to an unknown one."""
    names = {
        f"{k.name} of {k.api_version}"
        for k in known_kinds().values()
        if is_own_group(k.api_version)
    }
    same = sorted(name for name in names if name.startswith(f"{kind} of "))
    if same:
        return f"did you mean {' or '.join(same)}?"
    return did_you_mean(f"{kind} of {api_version}", sorted(names))
