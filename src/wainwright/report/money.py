"""Money as people say it: by the hour, and what that comes to in a month."""

from typing import Final

HOURS_A_MONTH: Final = 730  # as the cloud's own calculators count: 365 days / 12


def hourly(price: float) -> str:
    """Three digits after the point; reserved capacity is next to nothing, but not 0."""
    if 0 < price < 0.0005:
        return "≈$0/h"
    return f"${price:,.3f}/h"


def monthly(price: float) -> str:
    amount = price * HOURS_A_MONTH
    return f"${amount:,.0f}/month" if amount >= 10 else f"${amount:,.2f}/month"


def cost_line(nodes: int, price: float, fees: float = 0.0) -> str:
    """3 nodes · $0.584/h · $426/month"""
    noun = "node" if nodes == 1 else "nodes"
    beside = f" · fees {hourly(fees)}" if fees else ""
    return f"{nodes:,} {noun} · {hourly(price)} · {monthly(price + fees)}{beside}"
