"""Shared types of Kubernetes' own kinds: base struct, quantities, label and node selectors.
Only fields that scheduling uses are modelled; the rest of an object is dropped, so these structs
are never written back to the API server. Lists and maps may be null, as Go encodes empty ones.
"""

from wainwright.api import quantity
from wainwright.api.quantity import Quantity
from wainwright.api.wire import WireStruct


class KubernetesStruct(WireStruct, frozen=True, kw_only=True, gc=False):
    """A part of a core kind.

    Structs never form reference cycles, so `gc=False` is safe and saves the garbage collector from
    visiting millions of them.
    """


QuantityValue = int | float | str
"""A quantity as written: core kinds accept text or a number."""

ResourceList = dict[str, QuantityValue]


class TemplateObjectMeta(KubernetesStruct, frozen=True, kw_only=True):
    """Metadata of a template for the objects created from it."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ObjectReference(KubernetesStruct, frozen=True, kw_only=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


def to_quantity(written: QuantityValue) -> Quantity:
    """The quantity that the API server reads from this; raises InvalidQuantity."""
    return quantity.parse_quantity(written.strip() if isinstance(written, str) else str(written))


def to_quantities(resources: ResourceList | None) -> dict[str, Quantity]:
    """Every entry of a resource list as an exact quantity, in the order written."""
    return {name: to_quantity(written) for name, written in (resources or {}).items()}


class LabelSelectorRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(KubernetesStruct, frozen=True, kw_only=True):
    """Selects pods or namespaces. An empty one selects all; an absent one selects none."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(KubernetesStruct, frozen=True, kw_only=True):
    """All requirements must match; a term without any matches no node."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(KubernetesStruct, frozen=True, kw_only=True):
    """Terms of which one must match."""

    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class TopologySelectorLabelRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(KubernetesStruct, frozen=True, kw_only=True):
    """Where volumes of a storage class may be provisioned."""

    matchLabelExpressions: list[TopologySelectorLabelRequirement] | None = None
