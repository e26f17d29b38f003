"""Numbers of things in sentences: 1 pod, 2 pods, 1,000 pods."""

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """1 pod, 2 pods; `plural` where an s at the end is not enough."""
    return f"1 {noun}" if number == 1 else f"{number:,} {plural or noun + 's'}"


def listed(things: Sequence[str]) -> str:
    """One, two and three."""
    if len(things) < 2:
        return "".join(things)
    return f"{', '.join(things[:-1])} and {things[-1]}"


def placed_said(placed: int, pods: int) -> str:
    """3 of 4 pods have a place."""
    return f"{placed:,} of {counted(pods, 'pod')} {'has' if pods == 1 else 'have'} a place"
