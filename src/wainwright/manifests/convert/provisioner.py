"""Provisioner to NodePool, and to an EC2NodeClass where it carries the cloud's side itself."""

from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.api.names import CAPACITY_TYPE, INSTANCE_TYPE
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.kubelet import kubelet
from wainwright.manifests.convert.labels import annotations, labels, requirements, taints
from wainwright.manifests.convert.metadata import begun
from wainwright.manifests.convert.nodeclass import API_VERSION, KIND, template_spec
from wainwright.manifests.convert.sharing import Classes, Wish

DEFAULT_CLASS: Final = "default"
NODE_TEMPLATE: Final = "AWSNodeTemplate"
SPEC: Final[Path] = ("spec",)

IMPLIED: Final = (
    (("kubernetes.io/os",), "kubernetes.io/os In [linux]"),
    (("kubernetes.io/arch",), "kubernetes.io/arch In [amd64]"),
    ((CAPACITY_TYPE,), f"{CAPACITY_TYPE} In [on-demand]"),
    (
        (
            INSTANCE_TYPE,
            "karpenter.k8s.aws/instance-family",
            "karpenter.k8s.aws/instance-category",
            "karpenter.k8s.aws/instance-generation",
        ),
        "karpenter.k8s.aws/instance-category In [c, m, r] and "
        "karpenter.k8s.aws/instance-generation Gt [2]",
    ),
)
"""What a Provisioner meant where it said nothing about any of the labels."""

Spec = dict[str, Any]


def provisioner(draft: Draft, classes: Classes) -> Wish | None:
    """Fill the draft; what is returned is still to be agreed on with the other pools."""
    old: Spec = draft.source.get("spec", {})
    metadata = _template_metadata(old, draft)
    template: Spec = {"spec": _template_spec(old, metadata.get("labels", {}), draft)}
    draft.made = begun(draft, "karpenter.sh/v1", "NodePool")
    draft.made["spec"] = {
        "template": {"metadata": metadata, **template} if metadata else template,
        "disruption": _disruption(old, draft),
    }
    limits = _limits(old.get("limits", {}), draft)
    if limits:
        draft.made["spec"]["limits"] = limits
    if "weight" in old:
        draft.made["spec"]["weight"] = old["weight"]
    _status(draft)
    return _class(old, template["spec"]["nodeClassRef"], draft, classes)


def _template_metadata(old: Spec, draft: Draft) -> Spec:
    made = {
        "labels": labels(old.get("labels", {}), ("spec", "labels"), draft),
        "annotations": annotations(old.get("annotations", {}), ("spec", "annotations"), draft),
    }
    return {key: entries for key, entries in made.items() if entries}


def _template_spec(old: Spec, given: dict[str, str], draft: Draft) -> Spec:
    wanted = requirements(old.get("requirements", []), ("spec", "requirements"), draft)
    _say_what_was_implied(wanted, given, draft)
    made: Spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": KIND, "name": DEFAULT_CLASS},
        "requirements": wanted,
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            made[field] = taints(old[field])
    made["expireAfter"] = _expire_after(old, draft)
    return made


def _say_what_was_implied(wanted: list[Spec], given: dict[str, str], draft: Draft) -> None:
    named = {item["key"] for item in wanted} | given.keys()
    implied = [meaning for keys, meaning in IMPLIED if named.isdisjoint(keys)]
    if implied:
        draft.changed(
            ("spec", "requirements"),
            "a Provisioner implied what it did not say, a NodePool does not; to keep it, add "
            + "; ".join(implied),
        )


def _expire_after(old: Spec, draft: Draft) -> str:
    if "ttlSecondsUntilExpired" in old:
        return duration(old["ttlSecondsUntilExpired"])
    draft.assumed(SPEC, "without ttlSecondsUntilExpired nodes did not expire; expireAfter is Never")
    return "Never"


def _disruption(old: Spec, draft: Draft) -> Spec:
    """Always with consolidateAfter: the first CRDs of v1 ask for it."""
    draft.changed(
        SPEC,
        "a Provisioner had no disruption budget; a NodePool disrupts at most 10% of its nodes at a "
        "time unless spec.disruption.budgets says otherwise",
    )
    if old.get("consolidation", {}).get("enabled"):
        return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    if "ttlSecondsAfterEmpty" in old:
        draft.changed(
            ("spec", "ttlSecondsAfterEmpty"),
            "consolidateAfter counts from the last pod that came or went",
        )
        after = duration(old["ttlSecondsAfterEmpty"])
        return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after}
    draft.assumed(
        ("spec", "consolidation") if "consolidation" in old else SPEC,
        "no node was removed for being empty or underused; consolidateAfter is Never",
    )
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}


def duration(seconds: float) -> str:
    """2592000 is 720h, 90 is 1m30s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def _limits(given: Spec, draft: Draft) -> Spec:
    """`limits.resources` is the API; texts also write the resources directly under limits."""
    nested = given.get("resources", {})
    direct = {name: amount for name, amount in given.items() if name != "resources"}
    for name, amount in direct.items():
        if str(nested.get(name, amount)) != str(amount):
            draft.lost(
                ("spec", "limits", name),
                f"limits.resources says {nested[name]} and is the one that counts",
            )
    return {**direct, **nested}


def _status(draft: Draft) -> None:
    old = draft.source.get("status", {})
    if old.get("resources"):
        draft.made["status"] = {"resources": old["resources"]}
    for field in ("lastScaleTime", "conditions"):
        if old.get(field):
            draft.lost(("status", field), f"{field} of a Provisioner says nothing of a NodePool")


def _class(old: Spec, made: Spec, draft: Draft, classes: Classes) -> Wish | None:
    """Where the cloud's side comes from: the Provisioner itself, a template, or nowhere."""
    path = ("spec", "kubeletConfiguration")
    settings = kubelet(old.get("kubeletConfiguration", {}), path, draft)
    if "provider" in old:
        made["name"] = _own_class(old["provider"], settings, draft, classes)
        return None
    ref = old.get("providerRef")
    if ref is None:
        draft.assumed(SPEC, f"no provider is named; it refers to EC2NodeClass {DEFAULT_CLASS}")
        ref = {"name": DEFAULT_CLASS}
    made["name"] = ref["name"]
    if (ref.get("kind") or NODE_TEMPLATE) not in (NODE_TEMPLATE, KIND):
        _refer_to_foreign(ref, made, settings, draft)
        return None
    place = path if settings else ("spec", "providerRef") if "providerRef" in old else SPEC
    return Wish(class_name=ref["name"], settings=settings, path=place, draft=draft)


def _own_class(provider: Spec, settings: Spec, draft: Draft, classes: Classes) -> str:
    """The class that the Provisioner carries in itself, named after it."""
    name = classes.free(draft.name or f"pool-{draft.index}")
    place = ("spec", "provider")
    draft.changed(place, f"the cloud's side of the nodes is EC2NodeClass {name} now")
    spec = template_spec(provider, place, draft)
    draft.followers.append(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {**spec, "kubelet": settings} if settings else spec,
        }
    )
    return name


def _refer_to_foreign(ref: Spec, made: Spec, settings: Spec, draft: Draft) -> None:
    """Somebody else's template: refer to it as it is."""
    made["kind"] = ref["kind"]
    made["group"] = (ref.get("apiVersion") or made["group"]).partition("/")[0]
    draft.assumed(
        ("spec", "providerRef"),
        f"{ref['kind']} is not a kind that is converted here; the pool refers to it as it is",
    )
    if settings:
        draft.lost(
            ("spec", "kubeletConfiguration"),
            f"kubelet settings belong to the class now; write them into {ref['kind']} "
            f"{ref['name']}, if it can have any",
        )
