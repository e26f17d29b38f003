"""Which pods a ReplicaSet that shrinks gives up first: those of nodes that go, or soon may."""

from typing import Final

from wainwright.core.disruption.candidates import Candidate
from wainwright.core.disruption.disruption_pass import DisruptionPass

GOING: Final = -(2**31)
"""Of the pods of a node that is being deleted."""
MAX_RANKED: Final = 50


def rank_deletion_costs(looked: DisruptionPass) -> dict[str, int | None]:
    """By node the deletion cost of its pods: the lowest where a node is going, then −n to −1 in the
    order in which nodes would be disrupted; None where a node cannot be disrupted now.
    """
    costs: dict[str, int | None] = {each.name: None for each in looked.candidates}
    costs |= {each.name: GOING for each in looked.candidates if each.node.deleting}
    ranked = looked.disruptable()
    ranked = sorted(ranked, key=_rank)[:MAX_RANKED]
    for place, candidate in enumerate(ranked):
        costs[candidate.name] = place - len(ranked)
    return costs


def _rank(candidate: Candidate) -> tuple[bool, float, str]:
    return candidate.drift is None, -candidate.saving_ratio, candidate.name
