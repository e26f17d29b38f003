"""Constraints: what can keep a pod off a node, one module each, used by existing nodes, new nodes
and explanations alike.

Each module has both halves of its rule. `admits` is the fast one, for the scheduler: a set of nodes
or instance types at once where that is possible. `why` is the slow one, for explanations: of the
nodes or types that are not admitted, the reason. `core/explain` only puts them in order.

Two constraints with state of their own are packages beside this one: topology spread and pod
(anti-)affinity (`topology/allowed_domains.py`, `topology/topology_reasons.py`), and which instances
of capacity reservations are available (`reservation_manager.py`).
"""

from typing import TypeAlias

from wainwright.model.bitset import BitSet
from wainwright.model.reasons import NodeReason

NodeRejection: TypeAlias = tuple[BitSet, NodeReason]
"""Existing nodes that a constraint does not admit, and why."""
