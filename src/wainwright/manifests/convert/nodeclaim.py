"""NodeClaim of v1beta1 to v1: a record of a node, which follows its pool."""

from collections.abc import Mapping
from typing import Any

from wainwright.api.names import NODEPOOL
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.kubelet import kubelet
from wainwright.manifests.convert.labels import requirements, taints
from wainwright.manifests.convert.metadata import begun
from wainwright.manifests.convert.nodepool import class_reference
from wainwright.manifests.convert.sharing import Wish
from wainwright.manifests.convert.status import with_conditions
from wainwright.manifests.convert.today import inside

Document = dict[str, Any]


def node_claim(draft: Draft, pools: Mapping[str, Document], wishes: Mapping[str, Wish]) -> None:
    """Fill the draft; pools and what they wished for are by name."""
    old: Document = draft.source["spec"]
    made: Document = {
        "nodeClassRef": class_reference(old.get("nodeClassRef"), ("spec",), draft),
        "requirements": requirements(
            old.get("requirements", []), ("spec", "requirements"), draft, pool_is_free=True
        ),
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            made[field] = taints(old[field])
    if old.get("resources"):
        made["resources"] = old["resources"]
    pool = draft.source["metadata"].get("labels", {}).get(NODEPOOL)
    _expiry(made, pools.get(pool), draft)
    _kubelet(old.get("kubelet", {}), made, wishes.get(pool), draft)
    draft.made = begun(draft, "karpenter.sh/v1", "NodeClaim", record=True)
    draft.made["spec"] = made
    with_conditions(draft)


def _expiry(made: Document, pool: Document | None, draft: Draft) -> None:
    """Claims expired when their pool said so; now each carries its own expiry."""
    if pool is None:
        draft.assumed(
            ("spec",),
            "the pool that told when the claim expires is not in the input; the default is 720h",
        )
        return
    expiry = inside(pool, "spec", "template", "spec", "expireAfter")
    if expiry is not None:
        made["expireAfter"] = expiry


def _kubelet(old: Document, made: Document, wish: Wish | None, draft: Draft) -> None:
    """Settings that are its pool's are in the class that the pool refers to."""
    path = ("spec", "kubelet")
    settings = kubelet(old, path, draft)
    if not settings:
        return
    named = made["nodeClassRef"]["name"]
    if wish is None or wish.draft is None or wish.settings != settings or wish.class_name != named:
        draft.lost(path, "a claim has no kubelet settings of its own any more; its class has them")
        return
    ref = wish.draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    made["nodeClassRef"] = dict(ref)
    draft.changed(path, f"kubelet settings belong to the class now: EC2NodeClass {ref['name']}")
