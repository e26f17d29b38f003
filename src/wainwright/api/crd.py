"""CustomResourceDefinitions, made from the wire types and committed under deploy/crds."""

from functools import lru_cache
from typing import Any, Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.nodeclaim import NodeClaim
from wainwright.api.nodepool import NodePool
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.api.schema import SAYS, Schema, schema_of
from wainwright.api.wire import Wire

Column = dict[str, Any]


def _column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> Column:
    made: Column = {"name": name, "type": kind, "jsonPath": path}
    return {**made, "priority": 1} if wide else made


def _label(name: str, key: str, *, wide: bool = False) -> Column:
    escaped = key.replace(".", "\\.")
    return _column(name, f".metadata.labels.{escaped}", wide=wide)


def _condition(kind: str, *, wide: bool = False) -> Column:
    return _column(kind, f'.status.conditions[?(@.type=="{kind}")].status', wide=wide)


READY: Final = _condition("Ready")
AGE: Final = _column("Age", ".metadata.creationTimestamp", "date")


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of ours as the cluster knows it."""

    type: type[Wire]
    plural: str
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = (READY, AGE)
    scale: dict[str, str] | None = None

    @property
    def api_version(self) -> str:
        return str(_default(self.type, "apiVersion"))

    @property
    def kind(self) -> str:
        return str(_default(self.type, "kind"))

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.partition("/")[2]


def _default(kind: type[Wire], name: str) -> Any:
    return next(f.default for f in msgspec.structs.fields(kind) if f.name == name)


DEFINITIONS: Final = (
    Definition(
        type=NodePool,
        plural="nodepools",
        scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
        columns=(
            _column("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            _column("Nodes", ".status.nodes"),
            READY,
            AGE,
            _column("Weight", ".spec.weight", "integer", wide=True),
            _column("CPU", ".status.resources.cpu", wide=True),
            _column("Memory", ".status.resources.memory", wide=True),
        ),
    ),
    Definition(
        type=NodeClaim,
        plural="nodeclaims",
        columns=(
            _label("Type", "node.kubernetes.io/instance-type"),
            _label("Capacity", "karpenter.sh/capacity-type"),
            _label("Zone", "topology.kubernetes.io/zone"),
            _column("Node", ".status.nodeName"),
            READY,
            AGE,
            _column("ImageID", ".status.imageID", wide=True),
            _column("ID", ".status.providerID", wide=True),
            _label("NodePool", "karpenter.sh/nodepool", wide=True),
            _column("NodeClass", ".spec.nodeClassRef.name", wide=True),
            _condition("Drifted", wide=True),
        ),
    ),
    Definition(
        type=EC2NodeClass,
        plural="ec2nodeclasses",
        short_names=("ec2nc", "ec2ncs"),
        columns=(READY, AGE, _column("Role", ".spec.role", wide=True)),
    ),
    Definition(type=InstanceType, plural="instancetypes"),
    Definition(
        type=NodeOverlay,
        plural="nodeoverlays",
        short_names=("overlays",),
        columns=(READY, AGE, _column("Weight", ".spec.weight", "integer", wide=True)),
    ),
)


def definition(item: Definition) -> dict[str, Any]:
    """The CustomResourceDefinition document of one kind."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{item.plural}.{item.group}"},
        "spec": {
            "group": item.group,
            "scope": "Cluster",
            "names": _names(item),
            "versions": [_version(item)],
        },
    }


def _names(item: Definition) -> dict[str, Any]:
    short = {"shortNames": list(item.short_names)} if item.short_names else {}
    return {
        "kind": item.kind,
        "listKind": f"{item.kind}List",
        "plural": item.plural,
        "singular": item.kind.lower(),
        **short,
        "categories": ["karpenter"],
    }


def _version(item: Definition) -> dict[str, Any]:
    scale = {"scale": item.scale} if item.scale else {}
    return {
        "name": item.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}, **scale},
        "additionalPrinterColumns": list(item.columns),
        "schema": {"openAPIV3Schema": published(root_schema(item.type))},
    }


@lru_cache(maxsize=64)
def root_schema(kind: type[Wire]) -> Schema:
    """The schema of a whole object; metadata is the API server's own business."""
    made = schema_of(kind)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    properties = {**made["properties"], **own, "metadata": {"type": "object"}}
    description = {"description": " ".join((kind.__doc__ or "").split())}
    return {**description, **made, "properties": properties}


def published(schema: Any) -> Any:
    """The schema as a CRD may carry it: without the words that only we understand."""
    if isinstance(schema, dict):
        return {key: published(item) for key, item in schema.items() if key != SAYS}
    if isinstance(schema, list):
        return [published(item) for item in schema]
    return schema
