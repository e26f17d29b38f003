"""How core kinds choose pods, nodes and places: selectors over labels and fields."""

from wainwright.api.builtin.part import Part


class LabelSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Part, frozen=True, kw_only=True):
    """Chooses pods or namespaces. An empty one takes all; an absent one takes none."""

    matchLabels: dict[str, str] | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Part, frozen=True, kw_only=True):
    """All requirements together; a term without any takes no node."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Part, frozen=True, kw_only=True):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[NodeSelectorTerm] | None = None


class TopologySelectorLabelRequirement(Part, frozen=True, kw_only=True):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(Part, frozen=True, kw_only=True):
    """Where volumes of a storage class may be made."""

    matchLabelExpressions: list[TopologySelectorLabelRequirement] | None = None
