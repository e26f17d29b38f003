"""The state of a simulated cluster at one moment, as expectations and laws look at it.

Counts are kept as things change and cost nothing to read. The methods build their answer from the
objects: to be called only where an expectation of that moment needs it.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from wainwright.api.wire import WireStruct
from wainwright.model.simulation import EndClaim, EndNode, EventEntry


class ReservationCount(msgspec.Struct, frozen=True, kw_only=True):
    """Both are 0 while it is not active."""

    used: int
    total: int


class ObservedState(Protocol):
    """After everything that was due at that moment."""

    @property
    def at(self) -> float:
        """Seconds since the start."""
        ...

    @property
    def pending_pods(self) -> int: ...

    @property
    def running_pods(self) -> int: ...

    @property
    def longest_wait(self) -> float:
        """Seconds that the pod which waits longest has waited; pods bound at this moment too."""
        ...

    @property
    def nodes(self) -> int:
        """Managed nodes, joined or not."""
        ...

    @property
    def nodes_by_capacity_type(self) -> Mapping[str, int]:
        """`reserved`, `spot` and `on-demand`."""
        ...

    @property
    def price_per_hour(self) -> float: ...

    @property
    def reservations(self) -> Mapping[str, ReservationCount]:
        """All reservations of the account, by id."""
        ...

    @property
    def new_events(self) -> Sequence[EventEntry]:
        """Kubernetes Events since the state before."""
        ...

    def node_views(self) -> Sequence[EndNode]: ...

    def claim_views(self) -> Sequence[EndClaim]: ...

    def find_object(self, kind: str, namespace: str, name: str) -> WireStruct | None:
        """An object of any kind that the API server serves, by the name of the kind."""
        ...

    def object_names(self, kind: str) -> Sequence[tuple[str, str]]:
        """Namespace and name of every object of a kind."""
        ...
