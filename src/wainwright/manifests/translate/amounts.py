"""Written amounts as whole numbers of what a machine offers or a pool may hold."""

from collections.abc import Mapping

from wainwright.api.builtin.part import Amount, amount
from wainwright.model.resources import offered, ordered


def offers(written: Mapping[str, Amount] | None) -> dict[str, int]:
    """Capacities and limits: what is not whole does not count."""
    found = {name: offered(name, amount(each).nano) for name, each in (written or {}).items()}
    return ordered(found)
