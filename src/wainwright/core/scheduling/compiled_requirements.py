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
        ground: CompilationContext,
        requirements: Requirements,
        known: "dict[Requirements, CompiledRequirements]",
    ) -> None:
        index = ground.index
        admitted = index.compatible_groups(requirements)
        self.requirements = requirements
        self.types: BitSet = ground.usable & index.compatible_types(requirements)
        """Types with the labels, sold or not."""
        self.reserved: OfferingGroupSet = admitted & ground.reserved
        self.offering_groups: OfferingGroupSet = admitted ^ self.reserved
        """Where anybody may buy as much as he likes."""
        self.offered: BitSet = index.available_in(self.offering_groups)
        """Types sold in those."""
        self._context = ground
        self._cache = known
        self._combined: dict[Requirements, CompiledRequirements | None] = {}

    def combine(self, asked: Requirements) -> "CompiledRequirements | None":
        """Both at once, or None if no node can be both."""
        if asked in self._combined:
            return self._combined[asked]
        found = self._compile_combined(asked)
        self._combined[asked] = found
        return found

    def _compile_combined(self, asked: Requirements) -> "CompiledRequirements | None":
        if not self.requirements.is_compatible(asked, self._context.well_known):
            return None
        together = self.requirements.narrow(asked)
        if together is self.requirements:
            return self
        found = self._cache.get(together)
        if found is None:
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            found = self._cache[together] = CompiledRequirements(
                self._context, together, self._cache
            )
        return found


def compile_requirements(
    ground: CompilationContext, requirements: Requirements
) -> CompiledRequirements:
    """The first of a pool, of which all others come."""
    return CompiledRequirements(ground, requirements, {})
