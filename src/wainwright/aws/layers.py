"""Layers: everything between the provider and AWS, put together once."""

from random import Random

from wainwright.aws.pace import Paced
from wainwright.aws.retry import Retrying
from wainwright.aws.seam import Seam
from wainwright.aws.watchful import Watchful
from wainwright.clock import Clock
from wainwright.metrics import Registry


def layered(seam: Seam, clock: Clock, random: Random, metrics: Registry) -> Seam:
    """Each attempt waits for its turn, and each is counted."""
    watched = Watchful(seam, clock, metrics)
    return Retrying(Paced(watched, clock, metrics), clock, random, metrics)
