"""NodePool of v1beta1 to v1: expiry moves into the template, kubelet settings into the class."""

from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.kubelet import kubelet
from wainwright.manifests.convert.labels import annotations, labels, requirements, taints
from wainwright.manifests.convert.metadata import begun
from wainwright.manifests.convert.sharing import Wish
from wainwright.manifests.convert.status import with_conditions

POLICIES: Final = {"WhenUnderutilized": "WhenEmptyOrUnderutilized"}
TEMPLATE: Final[Path] = ("spec", "template")
INNER: Final[Path] = (*TEMPLATE, "spec")

Spec = dict[str, Any]


def node_pool(draft: Draft) -> Wish | None:
    """Fill the draft; what is returned is still to be agreed on with the other pools."""
    old: Spec = draft.source["spec"]
    template: Spec = {"spec": _template_spec(old, draft)}
    metadata = _template_metadata(old["template"].get("metadata", {}), draft)
    draft.made = begun(draft, "karpenter.sh/v1", "NodePool")
    draft.made["spec"] = {"template": {"metadata": metadata, **template} if metadata else template}
    disruption = _disruption(old.get("disruption", {}), draft)
    if disruption:
        draft.made["spec"]["disruption"] = disruption
    for field in ("limits", "weight"):
        if field in old:
            draft.made["spec"][field] = old[field]
    with_conditions(draft)
    return _wish(old["template"]["spec"].get("kubelet", {}), draft)


def _template_metadata(old: Spec, draft: Draft) -> Spec:
    path = (*TEMPLATE, "metadata")
    made = {
        "labels": labels(old.get("labels", {}), (*path, "labels"), draft),
        "annotations": annotations(old.get("annotations", {}), (*path, "annotations"), draft),
    }
    return {key: entries for key, entries in made.items() if entries}


def _template_spec(old: Spec, draft: Draft) -> Spec:
    inner: Spec = old["template"]["spec"]
    made: Spec = {
        "nodeClassRef": class_reference(inner.get("nodeClassRef"), INNER, draft),
        "requirements": requirements(
            inner.get("requirements", []), (*INNER, "requirements"), draft
        ),
    }
    for field in ("taints", "startupTaints"):
        if inner.get(field):
            made[field] = taints(inner[field])
    if "expireAfter" in old.get("disruption", {}):
        made["expireAfter"] = old["disruption"]["expireAfter"]
    if inner.get("resources"):
        draft.lost(
            (*INNER, "resources"),
            "a pool does not say what its nodes must hold; pods and daemonsets do",
        )
    return made


def class_reference(old: Spec | None, path: Path, draft: Draft) -> Spec:
    """group, kind and name; EC2NodeClass of karpenter.k8s.aws where it was left open."""
    if old is None:
        draft.assumed(path, "no nodeClassRef is written; it refers to EC2NodeClass default")
        old = {"name": "default"}
    return {
        "group": (old.get("apiVersion") or "karpenter.k8s.aws").partition("/")[0],
        "kind": old.get("kind") or "EC2NodeClass",
        "name": old["name"],
    }


def _disruption(old: Spec, draft: Draft) -> Spec:
    """Always with consolidateAfter where there is any: the first CRDs of v1 ask for it."""
    given = {key: item for key, item in old.items() if key != "expireAfter"}
    if not given:
        return {}
    made: Spec = {"consolidateAfter": old.get("consolidateAfter", "0s")}
    if "consolidationPolicy" in old:
        policy = old["consolidationPolicy"]
        made = {"consolidationPolicy": POLICIES.get(policy, policy), **made}
    if old.get("consolidateAfter", "Never") != "Never":
        draft.changed(
            ("spec", "disruption", "consolidateAfter"),
            "consolidateAfter counts from the last pod that came or went",
        )
    return {**made, "budgets": old["budgets"]} if old.get("budgets") else made


def _wish(old: Spec, draft: Draft) -> Wish | None:
    path = (*INNER, "kubelet")
    settings = kubelet(old, path, draft)
    ref = draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    if (ref["group"], ref["kind"]) == ("karpenter.k8s.aws", "EC2NodeClass"):
        place = path if settings else INNER
        return Wish(class_name=ref["name"], settings=settings, path=place, draft=draft)
    if settings:
        draft.lost(
            path,
            f"kubelet settings belong to the class now; write them into {ref['kind']} "
            f"{ref['name']}, if it can have any",
        )
    return None
