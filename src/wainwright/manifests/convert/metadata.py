"""What an object keeps of its metadata: its name and what people wrote, not what servers wrote."""

from typing import Any, Final

from wainwright.manifests.convert.draft import Draft

WRITTEN: Final = ("name", "generateName", "labels", "annotations")
RECORDED: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
"""What a claim keeps besides: it is a record of a node, and a plan asks whether it is going."""

STALE: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/provisioner-hash",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.k8s.aws/nodetemplate-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
)
"""Annotations about the old object; on the new one they would be read as its own and be wrong."""


def begun(draft: Draft, api_version: str, kind: str, *, record: bool = False) -> dict[str, Any]:
    """The new object as far as it is the same for every kind: type and metadata."""
    return {"apiVersion": api_version, "kind": kind, "metadata": _kept(draft, record=record)}


def _kept(draft: Draft, *, record: bool) -> dict[str, Any]:
    given = draft.source["metadata"]
    wanted = (*WRITTEN, *RECORDED) if record else WRITTEN
    kept = {key: given[key] for key in wanted if given.get(key)}
    for key in ("labels", "annotations"):
        entries = {name: text for name, text in kept.pop(key, {}).items() if text is not None}
        if key == "annotations":
            entries = _without_stale(entries, draft)
        if entries:
            kept[key] = entries
    _say_what_is_left_out(draft, [key for key in given if key not in wanted])
    return kept


def _without_stale(annotations: dict[str, str], draft: Draft) -> dict[str, str]:
    for key in STALE:
        if key in annotations:
            draft.lost(
                ("metadata", "annotations", key),
                f"{key} describes the old object and is left out; it is written anew",
            )
    return {key: text for key, text in annotations.items() if key not in STALE}


def _say_what_is_left_out(draft: Draft, keys: list[str]) -> None:
    if keys:
        draft.lost(
            ("metadata",),
            f"this belongs to the old object and is left out: {', '.join(sorted(keys))}",
        )
    if not draft.name and not draft.source["metadata"].get("generateName"):
        draft.missing(("metadata", "name"), "the object has no name; give it one")
