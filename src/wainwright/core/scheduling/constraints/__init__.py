"""Constraints: what can keep a pod off a node, one module each, used by existing nodes, new nodes
and explanations alike.

Each module has both halves of its rule. `admits…` is the fast one, for the scheduler: a set of
nodes or instance types at once where that is possible. Limits keep that set up to date instead
(`PoolLimits.admitted`), so that a pod costs no call. `why…` is the slow one, for explanations: of
the nodes or types that are not admitted, the reason. `core/explain` only puts them in order;
`label_diagnosis.py` is what several modules need for their reasons.

Two constraints with state of their own are beside this package. Topology spread and pod
(anti-)affinity: `topology/allowed_domains.py` has the fast half, `topology/topology_reasons.py` the
slow one. Which instances of capacity reservations are available: `reservation_manager.py` has the
fast half (`PoolReservations.available_in`), and `offerings.py` the slow one, as pods are kept off a
node only if nothing else is available either; why a reservation is idle is explained in
`core/explain/idle_reservations/obstacles.py`.
"""

from typing import TypeAlias

from wainwright.model.bitset import BitSet
from wainwright.model.reasons import NodeReason

NodeRejection: TypeAlias = tuple[BitSet, NodeReason]
"""Existing nodes that a constraint does not admit, and why."""
