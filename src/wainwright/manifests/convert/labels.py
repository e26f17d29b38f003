"""Labels, annotations, requirements and taints of nodes: old names renamed, forbidden ones out."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from wainwright.api import cel
from wainwright.api.fault import Path
from wainwright.api.scheduling import label_rules
from wainwright.manifests.convert.draft import Draft

RENAMED: Final = {
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
}
"""Aliases that were translated on reading; in v1 they are labels like any other."""

DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
RENAMED_ANNOTATIONS: Final = {
    "karpenter.sh/do-not-consolidate": DO_NOT_DISRUPT,
    "karpenter.sh/do-not-evict": DO_NOT_DISRUPT,
}

Requirement = dict[str, Any]


def labels(given: dict[str, str], path: Path, draft: Draft) -> dict[str, str]:
    """The labels that nodes may get; one that is written under its new name stays as it is."""
    made: dict[str, str] = {}
    for key, value in given.items():
        alias = RENAMED.get(key)
        if alias in given:
            draft.lost((*path, key), f"{key} is left out, because {alias} is there as well")
            continue
        name = _name(key, (*path, key), draft, pool_is_free=False)
        if name is not None:
            made[name] = value
    return made


def annotations(given: dict[str, str], path: Path, draft: Draft) -> dict[str, str]:
    """The annotations that nodes get; what kept a node from being disrupted has one name now."""
    made: dict[str, str] = {}
    for key, value in given.items():
        name = RENAMED_ANNOTATIONS.get(key, key)
        if name != key and (name in given or name in made):
            draft.lost((*path, key), f"{key} is left out, because {name} is there as well")
            continue
        if name != key:
            draft.changed((*path, key), f"{key} is now called {name} and forbids every disruption")
        made[name] = value
    return made


def requirements(
    given: Iterable[Requirement], path: Path, draft: Draft, *, pool_is_free: bool = False
) -> list[Requirement]:
    """The requirements that v1 takes, in order."""
    made = []
    for index, item in enumerate(given):
        place = (*path, index)
        name = _name(item["key"], (*place, "key"), draft, pool_is_free=pool_is_free)
        if name is None:
            continue
        if item["operator"] == "NotIn" and not item.get("values"):
            draft.lost(place, "NotIn without values excludes nothing and is left out")
            continue
        made.append({**item, "key": name})
    return made


def _name(key: str, path: Path, draft: Draft, *, pool_is_free: bool) -> str | None:
    """What a label is called in v1, or nothing where v1 refuses it."""
    name = RENAMED.get(key, key)
    refusal = _refusal(name, pool_is_free=pool_is_free)
    if refusal:
        draft.lost(path, f"{key} is left out: {refusal}")
        return None
    if name != key:
        draft.changed(path, f"{key} is now called {name}")
    return name


@lru_cache(maxsize=4096)
def _refusal(name: str, *, pool_is_free: bool) -> str:
    """Why v1 refuses a label, by its very rules; claims by the thousand name the same few."""
    for rule, message in label_rules("self", pool_is_free=pool_is_free):
        if cel.holds(rule, name) is False:
            return message
    return ""


def taints(given: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The taints; an empty value, which v1 does not take, is the same as none."""
    return [{key: item for key, item in taint.items() if item != ""} for taint in given]
