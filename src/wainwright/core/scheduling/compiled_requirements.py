"""Requirements compiled against a NodePool's catalogue: the instance types and offerings they
leave.

Equal requirements are one object, and the result of combining two is cached. Without that every pod
would repeat the set operations over the whole catalogue.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from wainwright.model.bitset import BitSet
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.offering_groups import OfferingGroupSet
from wainwright.model.requirements import Requirements

MAX_CACHED: Final = 16384  # per pool; the cache is cleared when it is full


class CompilationContext:
    """What the compiled requirements of one pool share."""

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
        """Types with allocatable resources left after daemonset overhead."""
        self.reserved = reserved
        """The offering groups of capacity reservations."""
        self.well_known = well_known


class CompiledRequirements:
    """Node requirements of a pool, with the types and offering groups that satisfy them."""

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
        """Types with compatible labels, available or not."""
        self.reserved: OfferingGroupSet = admitted & context.reserved
        self.offering_groups: OfferingGroupSet = admitted ^ self.reserved
        """Compatible groups without a reservation, in which the number of launches is not limited.
        """
        self.offered: BitSet = index.available_in(self.offering_groups)
        """Types available in these groups."""
        self._context = context
        self._cache = cache
        """All of one template, by requirements: whichever way drafts get to the same requirements,
        these are compiled once and are one object, so that others can cache by it. Cleared when it
        is full, as what is lost is only compiled again.
        """
        self._combined: dict[Requirements, CompiledRequirements | None] = {}
        """Results of `combine`: every pod that is tried on a draft asks for one. Saves narrowing
        the requirements to find out that they are in `_cache`.
        """

    def combine(self, other: Requirements) -> "CompiledRequirements | None":
        """Both requirements at once; None if no node can satisfy both."""
        if other in self._combined:
            return self._combined[other]
        result = self._compile_combined(other)
        self._combined[other] = result
        return result

    def _compile_combined(self, other: Requirements) -> "CompiledRequirements | None":
        if not self.requirements.is_compatible(other, self._context.well_known):
            return None
        combined = self.requirements.narrow(other)
        # `narrow` returns the same object if nothing changes: saves compiling it again.
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
    """The pool's own requirements; all others of the pool are combinations with these."""
    return CompiledRequirements(context, requirements, {})
