"""Hashes by which nodes drift, of a snapshot whose names have become words.

A NodeClaim carries a hash of the template and of the class that it was launched from. Both have
other names in a redacted snapshot, and other hashes: without these in the claims, every node of
the cluster would have drifted.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from wainwright.kube.snapshot import ClusterSnapshot, Manifest


class LaunchHash(msgspec.Struct, frozen=True, kw_only=True):
    """What a kind of object writes on the claims that are launched from it."""

    kind: str
    annotation: str
    hash_of: Callable[[Manifest], str]


def restate_hashes(
    before: ClusterSnapshot, after: ClusterSnapshot, hashes: Sequence[LaunchHash]
) -> ClusterSnapshot:
    """The snapshot `after`, whose items are those of `before` under other names, in their order.

    A hash of what a class or pool was before its last change stays: it differs from the current one
    as before.
    """
    changed = {each.annotation: _changed_hashes(before, after, each) for each in hashes}
    return msgspec.structs.replace(after, items=[_restated(item, changed) for item in after.items])


def _changed_hashes(
    before: ClusterSnapshot, after: ClusterSnapshot, launch_hash: LaunchHash
) -> dict[str, str]:
    return {
        launch_hash.hash_of(old): launch_hash.hash_of(new)
        for old, new in zip(before.items, after.items, strict=True)
        if old["kind"] == launch_hash.kind
    }


def _restated(item: Manifest, changed: Mapping[str, Mapping[str, str]]) -> Manifest:
    annotations = item["metadata"].get("annotations")
    if not annotations:
        return item
    restated = {key: changed.get(key, {}).get(text, text) for key, text in annotations.items()}
    return {**item, "metadata": {**item["metadata"], "annotations": restated}}
