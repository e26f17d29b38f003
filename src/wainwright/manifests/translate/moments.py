"""Moments as Kubernetes writes them."""

from datetime import datetime


def seconds(written: str | None) -> float | None:
    """Seconds since 1970; None where it is no moment."""
    if not written:
        return None
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        return None
    # Without an offset the answer would hang on where this machine stands.
    return moment.timestamp() if moment.tzinfo is not None else None
