"""A pod as it asks at one moment: with what it has not given up, where others leave it a place."""

import msgspec

from wainwright.core.topology.restriction import Restriction
from wainwright.core.wishes import Stage, Wish
from wainwright.model.columns import Rows
from wainwright.model.pod import Pod
from wainwright.model.requirements import Requirements


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes and pools are asked for."""

    stage: Stage
    wishes: tuple[Wish, ...]
    """The alternatives in question, of those that the stage has."""
    limits: Restriction | None = None
    """What others leave it; None where it minds nobody, or where they leave it nothing."""

    @property
    def nodes(self) -> Rows:
        """The nodes where others let it be."""
        if self.stage.bound is None:
            return -1
        return 0 if self.limits is None else self.limits.nodes

    @property
    def new_node_will_do(self) -> bool:
        return self.stage.bound is None or bool(self._options)

    @property
    def later(self) -> tuple[Wish, ...]:
        """The alternatives of the stage that are tried only after these."""
        return self.stage.wishes[self.stage.wishes.index(self.wishes[-1]) + 1 :]

    def by(self, pod: Pod) -> Pod:
        """The pod as if it required all of that, as pools are asked."""
        places = tuple(wish.ask.requirements for wish in self.wishes)
        narrowed = tuple(dict.fromkeys(p.narrow(o) for p in places for o in self._options))
        tolerations = self.wishes[0].ask.tolerations
        return msgspec.structs.replace(
            pod, alternatives=narrowed or places, tolerations=tolerations
        )

    @property
    def _options(self) -> list[Requirements]:
        """What is required of a new node besides, in one way or another."""
        limits = self.limits
        return [] if limits is None or limits.near_a_node else limits.options
