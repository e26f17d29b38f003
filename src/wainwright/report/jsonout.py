"""JSON as the commands print it: the same answer is the same bytes, whichever command gives it."""

from typing import Any

import msgspec


def dump(value: Any) -> str:
    """Indented text. Fields stand in the order in which they were put there.

    That order is part of what is documented (a funnel is read from its first step to its last), so
    keys are not sorted; a set has no order, and no document has one in it.
    """
    return msgspec.json.format(msgspec.json.encode(value)).decode()
