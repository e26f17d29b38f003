"""Preferences that a pod gave up to find a place."""

from typing import TypeAlias

import msgspec

from wainwright.model.topology import Company, Spread


class Preference(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """The root of all preferences; `kind` tells them apart on the wire."""


class NearPods(Preference, frozen=True, kw_only=True, tag="NearPods"):
    term: Company
    weight: int


class AwayFromPods(Preference, frozen=True, kw_only=True, tag="AwayFromPods"):
    term: Company
    weight: int


class OnNodes(Preference, frozen=True, kw_only=True, tag="OnNodes"):
    requirements: str
    weight: int


class SpreadEvenly(Preference, frozen=True, kw_only=True, tag="SpreadEvenly"):
    spread: Spread


class OnUntainted(Preference, frozen=True, kw_only=True, tag="OnUntainted"):
    """It goes where a taint asks it not to."""


GivenUp: TypeAlias = NearPods | AwayFromPods | OnNodes | SpreadEvenly | OnUntainted
