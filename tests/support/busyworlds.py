"""Random worlds in which it pays to pack by cost: many pods, and large machines are the dearer.

In plain random worlds a price has nothing to do with the size, so that whoever fills the largest
type has mostly found the cheapest plan already.
"""

from random import Random

import msgspec
from tests.support.randomworlds import World, random_world

from wainwright.model.instance_type import InstanceType
from wainwright.model.pod import Pod

LARGER = 1.2  # the price goes with the cpus to this power
ABOUT = (0.8, 1.0, 1.25)


def busy_world(seed: int) -> World:
    """The same seed gives the same world."""
    dice, world = Random(seed), random_world(seed)
    pods = tuple(twin for pod in world.snapshot.pods for twin in _twins(pod, dice))
    shared = {id(kinds): kinds for kinds in world.types.values()}
    priced = {each: tuple(_priced(kind, seed) for kind in kinds) for each, kinds in shared.items()}
    return msgspec.structs.replace(
        world,
        snapshot=msgspec.structs.replace(world.snapshot, pods=pods),
        types={pool: priced[id(kinds)] for pool, kinds in world.types.items()},
    )


def _twins(pod: Pod, dice: Random) -> list[Pod]:
    """A few pods like it, smaller than it was so that several share a machine."""
    requests = {name: amount // 4 if amount > 1 else 1 for name, amount in pod.requests.items()}
    return [
        msgspec.structs.replace(pod, name=f"{pod.name}-{number}", requests=requests)
        for number in range(dice.randint(1, 8))
    ]


def _priced(kind: InstanceType, seed: int) -> InstanceType:
    """What it costs goes by its cpus; slots of reservations cost what they did."""
    dice = Random(f"{seed} {kind.name}")  # a type costs the same whichever pool buys it
    factor = (kind.capacity["cpu"] / 2000) ** LARGER
    offerings = tuple(
        each
        if each.reservation_id is not None
        else msgspec.structs.replace(each, price=factor * each.price * dice.choice(ABOUT))
        for each in kind.offerings
    )
    return msgspec.structs.replace(kind, offerings=offerings)
