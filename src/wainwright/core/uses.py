"""Uses of reservations: what claims under way will take of them, and what a plan takes."""

from collections import Counter
from collections.abc import Iterable, Mapping

from wainwright.model.node import Node
from wainwright.model.plan import PlannedClaim, ReservationUse
from wainwright.model.snapshot import Reservation


def promised(nodes: Iterable[Node]) -> Counter[str]:
    """The slots that claims under way will take: the cloud does not know of those yet."""
    return Counter(
        node.reservation_id
        for node in nodes
        if node.reservation_id is not None and not node.launched and not node.deleting
    )


def without_promised(free: Mapping[str, int], nodes: Iterable[Node]) -> dict[str, int]:
    """Less the slots that claims under way will take."""
    taken = promised(nodes)
    return {name: max(0, count - taken[name]) for name, count in free.items()}


def reservation_uses(
    listed: Iterable[Reservation],
    free: Mapping[str, int],
    claimed: Iterable[PlannedClaim],
    promised: Mapping[str, int],
) -> tuple[ReservationUse, ...]:
    """Every reservation that is listed or on offer, with what the claims take of it."""
    used = Counter(claim.launch.reservation_id for claim in claimed)
    known = {name: Reservation(id=name, total=n, available=n) for name, n in free.items()}
    known |= {each.id: each for each in listed}
    return tuple(
        ReservationUse(
            id=name,
            total=one.total,
            available=one.available,
            used=used[name],
            promised=min(one.available, promised.get(name, 0)),
            unusable=one.unusable,
        )
        for name, one in sorted(known.items())
    )
