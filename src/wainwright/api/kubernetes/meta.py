"""What Kubernetes' own kinds share: base struct, quantities as written, label and node selectors.

Only fields that scheduling looks at are modelled; the rest of an object is dropped, so nothing here
is ever sent back whole. Lists and maps may be null, as Go writes empty ones.
"""

from wainwright.api import quantity
from wainwright.api.quantity import Quantity
from wainwright.api.wire import WireStruct


class KubernetesStruct(WireStruct, frozen=True, kw_only=True, gc=False):
    """A piece of a core kind. It never refers back to its owner, so the collector may skip it."""


QuantityValue = int | float | str
"""A quantity as written: core kinds take it as text or as a number."""

ResourceList = dict[str, QuantityValue]


class TemplateObjectMeta(KubernetesStruct, frozen=True, kw_only=True):
    """What a template says of the objects made from it."""

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
    """The quantity that the API server reads from this; raises NotAQuantity."""
    return quantity.parse_quantity(written.strip() if isinstance(written, str) else str(written))


def to_quantities(resources: ResourceList | None) -> dict[str, Quantity]:
    """Every entry of a resource list as an exact quantity, in the order written."""
    return {name: to_quantity(written) for name, written in (resources or {}).items()}


class LabelSelectorRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(KubernetesStruct, frozen=True, kw_only=True):
    """Chooses pods or namespaces. An empty one takes all; an absent one takes none."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(KubernetesStruct, frozen=True, kw_only=True):
    """All requirements together; a term without any takes no node."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(KubernetesStruct, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class TopologySelectorLabelRequirement(KubernetesStruct, frozen=True, kw_only=True):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(KubernetesStruct, frozen=True, kw_only=True):
    """Where volumes of a storage class may be made."""

    matchLabelExpressions: list[TopologySelectorLabelRequirement] | None = None
