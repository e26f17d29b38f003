"""The garbage collector, paused for work that makes many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector for the block.

    Reading manifests and building catalogues make millions of small objects without cycles: the
    collector would scan all of them again and again, which takes longer than the work itself.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
