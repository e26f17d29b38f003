"""What the structs of Kubernetes' own kinds share: their base, templates' metadata, amounts.

Only fields that scheduling looks at are modelled; the rest of an object is dropped, so nothing here
is ever sent back whole. Lists and maps may be null, as Go writes empty ones.
"""

from wainwright.api import quantity
from wainwright.api.quantity import Quantity
from wainwright.api.wire import Wire


class Part(Wire, frozen=True, kw_only=True, gc=False):
    """A piece of a core kind. It never refers back to its owner, so the collector may skip it."""


Amount = int | float | str
"""A quantity as written: core kinds take it as text or as a number."""

Resources = dict[str, Amount]


class TemplateMetadata(Part, frozen=True, kw_only=True):
    """What a template says of the objects made from it."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class ObjectReference(Part, frozen=True, kw_only=True):
    apiVersion: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


def amount(written: Amount) -> Quantity:
    """The quantity that the API server reads from this; raises NotAQuantity."""
    return quantity.parse(written.strip() if isinstance(written, str) else str(written))


def amounts(resources: Resources | None) -> dict[str, Quantity]:
    """Every entry of a resource list as an exact quantity, in the order written."""
    return {name: amount(written) for name, written in (resources or {}).items()}
