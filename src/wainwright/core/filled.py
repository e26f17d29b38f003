"""The snapshot as a plan would leave it: its machines count against the limits of pools."""

from collections.abc import Mapping, Sequence

import msgspec

from wainwright.model.index import TypeIndex
from wainwright.model.plan import PlannedClaim
from wainwright.model.pool import NODES
from wainwright.model.resources import Resources, add
from wainwright.model.snapshot import Snapshot


def filled(
    snapshot: Snapshot, catalogs: Mapping[str, TypeIndex], claims: Sequence[PlannedClaim]
) -> Snapshot:
    """The snapshot with the machines of the plan counted as in use."""
    in_use: dict[str, Resources] = {pool.name: pool.in_use for pool in snapshot.pools}
    capacities = {
        name: {kind.name: kind.capacity for kind in catalogs[name].types}
        for name in {claim.pool for claim in claims}
    }
    for claim in claims:
        taken = {**capacities[claim.pool][claim.launch.instance_type], NODES: 1}
        in_use[claim.pool] = add(in_use[claim.pool], taken)
    pools = [msgspec.structs.replace(pool, in_use=in_use[pool.name]) for pool in snapshot.pools]
    return msgspec.structs.replace(snapshot, pools=tuple(pools))
