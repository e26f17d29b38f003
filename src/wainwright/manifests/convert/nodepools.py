"""Provisioner, and NodePool and NodeClaim of v1beta1, to v1.

Expiry moves into the template, kubelet settings into the class. A claim is a record of a node and
follows its pool.
"""

from collections.abc import Mapping
from typing import Final

from wainwright.api.field_error import FieldPath
from wainwright.api.karpenter.shared_fields import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL
from wainwright.manifests.convert.conversion_draft import (
    ConversionDraft,
    JsonObject,
    convert_annotations,
    convert_labels,
    convert_requirements,
    convert_taints,
    copy_status,
    get_nested,
    new_object,
)
from wainwright.manifests.convert.kubelet_settings import (
    ClassSettings,
    NodeClasses,
    convert_kubelet,
)
from wainwright.manifests.convert.nodeclasses import (
    NODE_CLASS_API_VERSION,
    NODE_CLASS_KIND,
    convert_template_spec,
)

RENAMED_POLICIES: Final = {"WhenUnderutilized": "WhenEmptyOrUnderutilized"}
TEMPLATE_PATH: Final[FieldPath] = ("spec", "template")
TEMPLATE_SPEC_PATH: Final[FieldPath] = (*TEMPLATE_PATH, "spec")


def convert_node_pool(draft: ConversionDraft) -> ClassSettings | None:
    """Fill the draft; what is returned is still to be agreed on with the other pools."""
    old: JsonObject = draft.source["spec"]
    template: JsonObject = {"spec": _convert_pool_template(old, draft)}
    metadata = _convert_template_metadata(old["template"].get("metadata", {}), draft)
    draft.made = new_object(draft, "karpenter.sh/v1", "NodePool")
    draft.made["spec"] = {"template": {"metadata": metadata, **template} if metadata else template}
    disruption = _convert_disruption(old.get("disruption", {}), draft)
    if disruption:
        draft.made["spec"]["disruption"] = disruption
    for field in ("limits", "weight"):
        if field in old:
            draft.made["spec"][field] = old[field]
    copy_status(draft)
    return _class_settings(old["template"]["spec"].get("kubelet", {}), draft)


def _convert_template_metadata(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    path = (*TEMPLATE_PATH, "metadata")
    made = {
        "labels": convert_labels(old.get("labels", {}), (*path, "labels"), draft),
        "annotations": convert_annotations(
            old.get("annotations", {}), (*path, "annotations"), draft
        ),
    }
    return {key: entries for key, entries in made.items() if entries}


def _convert_pool_template(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    inner: JsonObject = old["template"]["spec"]
    made: JsonObject = {
        "nodeClassRef": convert_class_reference(
            inner.get("nodeClassRef"), TEMPLATE_SPEC_PATH, draft
        ),
        "requirements": convert_requirements(
            inner.get("requirements", []), (*TEMPLATE_SPEC_PATH, "requirements"), draft
        ),
    }
    for field in ("taints", "startupTaints"):
        if inner.get(field):
            made[field] = convert_taints(inner[field])
    if "expireAfter" in old.get("disruption", {}):
        made["expireAfter"] = old["disruption"]["expireAfter"]
    if inner.get("resources"):
        draft.lost(
            (*TEMPLATE_SPEC_PATH, "resources"),
            "a pool does not say what its nodes must hold; pods and daemonsets do",
        )
    return made


def convert_class_reference(
    old: JsonObject | None, path: FieldPath, draft: ConversionDraft
) -> JsonObject:
    """group, kind and name; EC2NodeClass of karpenter.k8s.aws where it was left open."""
    if old is None:
        draft.assumed(path, "no nodeClassRef is written; it refers to EC2NodeClass default")
        old = {"name": "default"}
    return {
        "group": (old.get("apiVersion") or "karpenter.k8s.aws").partition("/")[0],
        "kind": old.get("kind") or "EC2NodeClass",
        "name": old["name"],
    }


def _convert_disruption(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    """Always with consolidateAfter where there is any: the first CRDs of v1 ask for it."""
    given = {key: item for key, item in old.items() if key != "expireAfter"}
    if not given:
        return {}
    made: JsonObject = {"consolidateAfter": old.get("consolidateAfter", "0s")}
    if "consolidationPolicy" in old:
        policy = old["consolidationPolicy"]
        made = {"consolidationPolicy": RENAMED_POLICIES.get(policy, policy), **made}
    if old.get("consolidateAfter", "Never") != "Never":
        draft.changed(
            ("spec", "disruption", "consolidateAfter"),
            "consolidateAfter counts from the last pod that came or went",
        )
    return {**made, "budgets": old["budgets"]} if old.get("budgets") else made


def _class_settings(old: JsonObject, draft: ConversionDraft) -> ClassSettings | None:
    path = (*TEMPLATE_SPEC_PATH, "kubelet")
    settings = convert_kubelet(old, path, draft)
    ref = draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    if (ref["group"], ref["kind"]) == ("karpenter.k8s.aws", "EC2NodeClass"):
        place = path if settings else TEMPLATE_SPEC_PATH
        return ClassSettings(class_name=ref["name"], settings=settings, path=place, draft=draft)
    if settings:
        draft.lost(
            path,
            f"kubelet settings belong to the class now; write them into {ref['kind']} "
            f"{ref['name']}, if it can have any",
        )
    return None


DEFAULT_CLASS_NAME: Final = "default"
NODE_TEMPLATE_KIND: Final = "AWSNodeTemplate"
SPEC_PATH: Final[FieldPath] = ("spec",)

IMPLIED_REQUIREMENTS: Final = (
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


def convert_provisioner(draft: ConversionDraft, classes: NodeClasses) -> ClassSettings | None:
    """Fill the draft; what is returned is still to be agreed on with the other pools."""
    old: JsonObject = draft.source.get("spec", {})
    metadata = _provisioner_template_metadata(old, draft)
    template: JsonObject = {
        "spec": _provisioner_template_spec(old, metadata.get("labels", {}), draft)
    }
    draft.made = new_object(draft, "karpenter.sh/v1", "NodePool")
    draft.made["spec"] = {
        "template": {"metadata": metadata, **template} if metadata else template,
        "disruption": _provisioner_disruption(old, draft),
    }
    limits = _convert_limits(old.get("limits", {}), draft)
    if limits:
        draft.made["spec"]["limits"] = limits
    if "weight" in old:
        draft.made["spec"]["weight"] = old["weight"]
    _convert_provisioner_status(draft)
    return _provisioner_class_settings(old, template["spec"]["nodeClassRef"], draft, classes)


def _provisioner_template_metadata(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    made = {
        "labels": convert_labels(old.get("labels", {}), ("spec", "labels"), draft),
        "annotations": convert_annotations(
            old.get("annotations", {}), ("spec", "annotations"), draft
        ),
    }
    return {key: entries for key, entries in made.items() if entries}


def _provisioner_template_spec(
    old: JsonObject, given: dict[str, str], draft: ConversionDraft
) -> JsonObject:
    wanted = convert_requirements(old.get("requirements", []), ("spec", "requirements"), draft)
    _note_implied_requirements(wanted, given, draft)
    made: JsonObject = {
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": NODE_CLASS_KIND,
            "name": DEFAULT_CLASS_NAME,
        },
        "requirements": wanted,
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            made[field] = convert_taints(old[field])
    made["expireAfter"] = _expire_after(old, draft)
    return made


def _note_implied_requirements(
    wanted: list[JsonObject], given: dict[str, str], draft: ConversionDraft
) -> None:
    named = {item["key"] for item in wanted} | given.keys()
    implied = [meaning for keys, meaning in IMPLIED_REQUIREMENTS if named.isdisjoint(keys)]
    if implied:
        draft.changed(
            ("spec", "requirements"),
            "a Provisioner implied what it did not say, a NodePool does not; to keep it, add "
            + "; ".join(implied),
        )


def _expire_after(old: JsonObject, draft: ConversionDraft) -> str:
    if "ttlSecondsUntilExpired" in old:
        return format_duration(old["ttlSecondsUntilExpired"])
    draft.assumed(
        SPEC_PATH, "without ttlSecondsUntilExpired nodes did not expire; expireAfter is Never"
    )
    return "Never"


def _provisioner_disruption(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    """Always with consolidateAfter: the first CRDs of v1 ask for it."""
    draft.changed(
        SPEC_PATH,
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
        after = format_duration(old["ttlSecondsAfterEmpty"])
        return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after}
    draft.assumed(
        ("spec", "consolidation") if "consolidation" in old else SPEC_PATH,
        "no node was removed for being empty or underused; consolidateAfter is Never",
    )
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}


def format_duration(seconds: float) -> str:
    """2592000 is 720h, 90 is 1m30s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0s"


def _convert_limits(given: JsonObject, draft: ConversionDraft) -> JsonObject:
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


def _convert_provisioner_status(draft: ConversionDraft) -> None:
    old = draft.source.get("status", {})
    if old.get("resources"):
        draft.made["status"] = {"resources": old["resources"]}
    for field in ("lastScaleTime", "conditions"):
        if old.get(field):
            draft.lost(("status", field), f"{field} of a Provisioner says nothing of a NodePool")


def _provisioner_class_settings(
    old: JsonObject, made: JsonObject, draft: ConversionDraft, classes: NodeClasses
) -> ClassSettings | None:
    """Where the cloud's side comes from: the Provisioner itself, a template, or nowhere."""
    path = ("spec", "kubeletConfiguration")
    settings = convert_kubelet(old.get("kubeletConfiguration", {}), path, draft)
    if "provider" in old:
        made["name"] = _embedded_class(old["provider"], settings, draft, classes)
        return None
    ref = old.get("providerRef")
    if ref is None:
        draft.assumed(
            SPEC_PATH, f"no provider is named; it refers to EC2NodeClass {DEFAULT_CLASS_NAME}"
        )
        ref = {"name": DEFAULT_CLASS_NAME}
    made["name"] = ref["name"]
    if (ref.get("kind") or NODE_TEMPLATE_KIND) not in (NODE_TEMPLATE_KIND, NODE_CLASS_KIND):
        _refer_to_foreign_class(ref, made, settings, draft)
        return None
    place = path if settings else ("spec", "providerRef") if "providerRef" in old else SPEC_PATH
    return ClassSettings(class_name=ref["name"], settings=settings, path=place, draft=draft)


def _embedded_class(
    provider: JsonObject, settings: JsonObject, draft: ConversionDraft, classes: NodeClasses
) -> str:
    """The class that the Provisioner carries in itself, named after it."""
    name = classes.free(draft.name or f"pool-{draft.index}")
    place = ("spec", "provider")
    draft.changed(place, f"the cloud's side of the nodes is EC2NodeClass {name} now")
    spec = convert_template_spec(provider, place, draft)
    draft.followers.append(
        {
            "apiVersion": NODE_CLASS_API_VERSION,
            "kind": NODE_CLASS_KIND,
            "metadata": {"name": name},
            "spec": {**spec, "kubelet": settings} if settings else spec,
        }
    )
    return name


def _refer_to_foreign_class(
    ref: JsonObject, made: JsonObject, settings: JsonObject, draft: ConversionDraft
) -> None:
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


def convert_node_claim(
    draft: ConversionDraft, pools: Mapping[str, JsonObject], wishes: Mapping[str, ClassSettings]
) -> None:
    """Fill the draft; pools and what they wished for are by name."""
    old: JsonObject = draft.source["spec"]
    made: JsonObject = {
        "nodeClassRef": convert_class_reference(old.get("nodeClassRef"), ("spec",), draft),
        "requirements": convert_requirements(
            old.get("requirements", []), ("spec", "requirements"), draft, pool_is_free=True
        ),
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            made[field] = convert_taints(old[field])
    if old.get("resources"):
        made["resources"] = old["resources"]
    pool = draft.source["metadata"].get("labels", {}).get(NODEPOOL)
    _convert_expiry(made, pools.get(pool), draft)
    _convert_claim_kubelet(old.get("kubelet", {}), made, wishes.get(pool), draft)
    draft.made = new_object(draft, "karpenter.sh/v1", "NodeClaim", record=True)
    draft.made["spec"] = made
    copy_status(draft)


def _convert_expiry(made: JsonObject, pool: JsonObject | None, draft: ConversionDraft) -> None:
    """Claims expired when their pool said so; now each carries its own expiry."""
    if pool is None:
        draft.assumed(
            ("spec",),
            "the pool that told when the claim expires is not in the input; the default is 720h",
        )
        return
    expiry = get_nested(pool, "spec", "template", "spec", "expireAfter")
    if expiry is not None:
        made["expireAfter"] = expiry


def _convert_claim_kubelet(
    old: JsonObject, made: JsonObject, wish: ClassSettings | None, draft: ConversionDraft
) -> None:
    """Settings that are its pool's are in the class that the pool refers to."""
    path = ("spec", "kubelet")
    settings = convert_kubelet(old, path, draft)
    if not settings:
        return
    named = made["nodeClassRef"]["name"]
    if wish is None or wish.draft is None or wish.settings != settings or wish.class_name != named:
        draft.lost(path, "a claim has no kubelet settings of its own any more; its class has them")
        return
    ref = wish.draft.made["spec"]["template"]["spec"]["nodeClassRef"]
    made["nodeClassRef"] = dict(ref)
    draft.changed(path, f"kubelet settings belong to the class now: EC2NodeClass {ref['name']}")
