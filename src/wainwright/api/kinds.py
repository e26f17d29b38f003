"""Every kind that can be read, and what is to be done with it."""

from enum import Enum
from functools import lru_cache

import msgspec

from wainwright.api.builtin import KINDS as BUILTIN
from wainwright.api.cloud import Catalog, Cloud
from wainwright.api.crd import DEFINITIONS
from wainwright.api.fault import did_you_mean
from wainwright.api.names import OUR_GROUPS
from wainwright.api.old import OLD_KINDS
from wainwright.api.wire import Wire


class Family(Enum):
    """Who judges a kind."""

    CUSTOM = "a kind of ours with a CRD: judged as the API server would"
    OFFLINE = "a kind of ours that only offline commands read"
    BUILTIN = "Kubernetes' own: checked as far as scheduling depends on it"
    OLD = "a kind of the past: converted, not used"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    api_version: str
    name: str
    family: Family
    type: type[Wire]


Entry = tuple[str, str, Family, type[Wire]]


def _kinds() -> list[Kind]:
    custom: list[Entry] = [(d.api_version, d.kind, Family.CUSTOM, d.type) for d in DEFINITIONS]
    offline: list[Entry] = [
        ("wainwright.dev/v1alpha1", "Cloud", Family.OFFLINE, Cloud),
        ("wainwright.dev/v1alpha1", "Catalog", Family.OFFLINE, Catalog),
    ]
    builtin: list[Entry] = [(*key, Family.BUILTIN, kind) for key, kind in BUILTIN.items()]
    old: list[Entry] = [(*key, Family.OLD, kind) for key, kind in OLD_KINDS.items()]
    return [
        Kind(api_version=version, name=name, family=family, type=kind)
        for version, name, family, kind in [*custom, *offline, *builtin, *old]
    ]


@lru_cache(maxsize=1)
def known() -> dict[tuple[str, str], Kind]:
    return {(kind.api_version, kind.name): kind for kind in _kinds()}


def is_ours(api_version: str) -> bool:
    """Whether the group is one of ours, so that an unknown kind in it is a mistake."""
    return api_version.partition("/")[0] in OUR_GROUPS


def suggestion(api_version: str, kind: str) -> str:
    """What somebody who wrote this unknown kind of ours probably meant."""
    names = {f"{k.name} of {k.api_version}" for k in known().values() if is_ours(k.api_version)}
    same = sorted(name for name in names if name.startswith(f"{kind} of "))
    if same:
        return f"did you mean {' or '.join(same)}?"
    return did_you_mean(f"{kind} of {api_version}", sorted(names))
