"""Requirements compiled against a NodePool's catalogue: the instance types and offerings they
leave.

Equal requirements are one object, and the result of combining two is cached, so that the same
question is answered once in a plan however many pods ask it.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.requirements import Requirements

MAX_CACHED: Final = 16384  # narrowings kept for one pool; when there are more, all are forgotten


class CompilationContext:
    """What the narrowings of one pool share."""

    __slots__ = ("index", "reserved", "usable", "well_known")

    def __init__(
        self,
        index: InstanceTypeIndex,
        usable: BitSet,
        reserved: OfferingGroupSet,
        well_known: AbstractSet[str],
    ) -> None:
        self.index = index
        self.usable = usable
        """Types with any room at all once daemonsets have theirs."""
        self.reserved = reserved
        """The markets that sell slots of a reservation."""
        self.well_known = well_known


class CompiledRequirements:
    """One set of requirements on nodes of a pool."""

    __slots__ = (
        "_cache",
        "_combined",
        "_context",
        "offered",
        "offering_groups",
        "requirements",
        "reserved",
        "types",
    )

    def __init__(
        self,
        context: CompilationContext,
        requirements: Requirements,
        cache: "dict[Requirements, CompiledRequirements]",
    ) -> None:
        index = context.index
        admitted = index.compatible_groups(requirements)
        self.requirements = requirements
        self.types: BitSet = context.usable & index.compatible_types(requirements)
        """Types with the labels, sold or not."""
        self.reserved: OfferingGroupSet = admitted & context.reserved
        self.offering_groups: OfferingGroupSet = admitted ^ self.reserved
        """Where anybody may buy as much as he likes."""
        self.offered: BitSet = index.available_in(self.offering_groups)
        """Types sold in those."""
        self._context = context
        self._cache = cache
        self._combined: dict[Requirements, CompiledRequirements | None] = {}

    def combine(self, other: Requirements) -> "CompiledRequirements | None":
        """Both at once, or None if no node can be both."""
        if other in self._combined:
            return self._combined[other]
        result = self._compile_combined(other)
        self._combined[other] = result
        return result

    def _compile_combined(self, other: Requirements) -> "CompiledRequirements | None":
        if not self.requirements.is_compatible(other, self._context.well_known):
            return None
        combined = self.requirements.narrow(other)
        if combined is self.requirements:
            return self
        compiled = self._cache.get(combined)
        if compiled is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            compiled = self._cache[combined] = CompiledRequirements(
                self._context, combined, self._cache
            )
        return compiled


def compile_requirements(
    context: CompilationContext, requirements: Requirements
) -> CompiledRequirements:
    """The first of a pool, of which all others come."""
    return CompiledRequirements(context, requirements, {})
