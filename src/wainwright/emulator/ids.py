"""Ids as EC2 gives them: a prefix that says the kind, and 17 hexadecimal digits by chance."""

from wainwright.emulator.world import World


def new(world: World, prefix: str) -> str:
    """As `i-0…`; the same seed gives the same ids in the same order."""
    return f"{prefix}-0{world.random.getrandbits(64):016x}"
