"""Reasons as sentences."""

from wainwright.model.reason import PodReason, PoolReason
from wainwright.model.suggestion import Suggestion


def pod(reason: PodReason) -> str:
    return str(reason)


def pool(reason: PoolReason) -> str:
    return str(reason)


def suggestion(fix: Suggestion) -> str:
    return str(fix)
