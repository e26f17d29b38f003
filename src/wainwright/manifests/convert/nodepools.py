"""Provisioner, and NodePool and NodeClaim of v1beta1, to v1.

Expiry moves into the template, kubelet settings into the class. A NodeClaim follows its pool.
"""

import re
from collections.abc import Mapping
from typing import Final

from wainwright.api.field_error import FieldPath
from wainwright.api.karpenter.shared_fields import CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL
from wainwright.manifests.convert.conversion_draft import (
    RENAMED_LABELS,
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
from wainwright.translate.disruption import format_duration

RENAMED_POLICIES: Final = {"WhenUnderutilized": "WhenEmptyOrUnderutilized"}
TEMPLATE_PATH: Final[FieldPath] = ("spec", "template")
TEMPLATE_SPEC_PATH: Final[FieldPath] = (*TEMPLATE_PATH, "spec")


def convert_node_pool(draft: ConversionDraft) -> ClassSettings | None:
    """Fills the draft; the returned settings are assigned to a class once all pools are known."""
    old: JsonObject = draft.source["spec"]
    template: JsonObject = {"spec": _convert_pool_template(old, draft)}
    metadata = _convert_template_metadata(old["template"].get("metadata", {}), draft)
    draft.converted = new_object(draft, "karpenter.sh/v1", "NodePool")
    draft.converted["spec"] = {
        "template": {"metadata": metadata, **template} if metadata else template
    }
    disruption = _convert_disruption(old.get("disruption", {}), draft)
    if disruption:
        draft.converted["spec"]["disruption"] = disruption
    for field in ("limits", "weight"):
        if field in old:
            draft.converted["spec"][field] = old[field]
    copy_status(draft)
    return _class_settings(old["template"]["spec"].get("kubelet", {}), draft)


def _convert_template_metadata(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    path = (*TEMPLATE_PATH, "metadata")
    converted = {
        "labels": convert_labels(old.get("labels", {}), (*path, "labels"), draft),
        "annotations": convert_annotations(
            old.get("annotations", {}), (*path, "annotations"), draft
        ),
    }
    return {key: entries for key, entries in converted.items() if entries}


def _convert_pool_template(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    inner: JsonObject = old["template"]["spec"]
    converted: JsonObject = {
        "nodeClassRef": convert_class_reference(
            inner.get("nodeClassRef"), TEMPLATE_SPEC_PATH, draft
        ),
        "requirements": convert_requirements(
            inner.get("requirements", []), (*TEMPLATE_SPEC_PATH, "requirements"), draft
        ),
    }
    for field in ("taints", "startupTaints"):
        if inner.get(field):
            converted[field] = convert_taints(inner[field])
    if "expireAfter" in old.get("disruption", {}):
        converted["expireAfter"] = old["disruption"]["expireAfter"]
    if inner.get("resources"):
        draft.lost(
            (*TEMPLATE_SPEC_PATH, "resources"),
            "a pool does not say what its nodes must hold; pods and daemonsets do",
        )
    return converted


def convert_class_reference(
    old: JsonObject | None, path: FieldPath, draft: ConversionDraft
) -> JsonObject:
    """group, kind and name; by default EC2NodeClass of karpenter.k8s.aws."""
    if old is None:
        draft.assumed(path, "no nodeClassRef is written; it refers to EC2NodeClass default")
        old = {"name": "default"}
    return {
        "group": (old.get("apiVersion") or "karpenter.k8s.aws").partition("/")[0],
        "kind": old.get("kind") or "EC2NodeClass",
        "name": old["name"],
    }


def _convert_disruption(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    """With consolidateAfter unless it is empty: the first CRDs of v1 require it."""
    disruption = {key: item for key, item in old.items() if key != "expireAfter"}
    if not disruption:
        return {}
    converted: JsonObject = {"consolidateAfter": old.get("consolidateAfter", "0s")}
    if "consolidationPolicy" in old:
        policy = old["consolidationPolicy"]
        converted = {"consolidationPolicy": RENAMED_POLICIES.get(policy, policy), **converted}
    if old.get("consolidateAfter", "Never") != "Never":
        draft.changed(
            ("spec", "disruption", "consolidateAfter"),
            "consolidateAfter counts from the last pod that came or went",
        )
    return {**converted, "budgets": old["budgets"]} if old.get("budgets") else converted


def _class_settings(old: JsonObject, draft: ConversionDraft) -> ClassSettings | None:
    path = (*TEMPLATE_SPEC_PATH, "kubelet")
    settings = convert_kubelet(old, path, draft)
    ref = draft.converted["spec"]["template"]["spec"]["nodeClassRef"]
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

FAMILY_NAME: Final = re.compile(r"[a-z]+[0-9][a-z0-9-]*")
INSTANCE_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
INSTANCE_FAMILY: Final = "karpenter.k8s.aws/instance-family"
INSTANCE_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
IMPLIED_REQUIREMENTS: Final = (
    (("kubernetes.io/os",), [("kubernetes.io/os", "In", ("linux",))]),
    (("kubernetes.io/arch",), [("kubernetes.io/arch", "In", ("amd64",))]),
    ((CAPACITY_TYPE,), [(CAPACITY_TYPE, "In", ("on-demand",))]),
    (
        (INSTANCE_TYPE, INSTANCE_FAMILY, INSTANCE_CATEGORY, INSTANCE_GENERATION),
        [(INSTANCE_CATEGORY, "In", ("c", "m", "r")), (INSTANCE_GENERATION, "Gt", ("2",))],
    ),
)
"""Requirements that a Provisioner implied where it constrained none of the labels before them."""


def convert_provisioner(
    draft: ConversionDraft, classes: NodeClasses, *, ignore_defaults: bool = False
) -> ClassSettings | None:
    """Fills the draft; the returned settings are assigned to a class once all pools are known."""
    old: JsonObject = draft.source.get("spec", {})
    metadata = _provisioner_template_metadata(old, draft)
    template: JsonObject = {"spec": _provisioner_template_spec(old, draft)}
    template["spec"]["requirements"] += _implied_requirements(old, draft, ignore_defaults)
    draft.converted = new_object(draft, "karpenter.sh/v1", "NodePool")
    draft.converted["spec"] = {
        "template": {"metadata": metadata, **template} if metadata else template,
        "disruption": _provisioner_disruption(old, draft),
    }
    limits = _convert_limits(old.get("limits", {}), draft)
    if limits:
        draft.converted["spec"]["limits"] = limits
    if "weight" in old:
        draft.converted["spec"]["weight"] = old["weight"]
    _convert_provisioner_status(draft)
    return _provisioner_class_settings(old, template["spec"]["nodeClassRef"], draft, classes)


def _provisioner_template_metadata(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    converted = {
        "labels": convert_labels(old.get("labels", {}), ("spec", "labels"), draft),
        "annotations": convert_annotations(
            old.get("annotations", {}), ("spec", "annotations"), draft
        ),
    }
    return {key: entries for key, entries in converted.items() if entries}


def _provisioner_template_spec(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    path = ("spec", "requirements")
    requirements = convert_requirements(old.get("requirements", []), path, draft)
    converted: JsonObject = {
        "nodeClassRef": {
            "group": "karpenter.k8s.aws",
            "kind": NODE_CLASS_KIND,
            "name": DEFAULT_CLASS_NAME,
        },
        "requirements": [_families_by_name(item, path, draft) for item in requirements],
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            converted[field] = convert_taints(old[field])
    converted["expireAfter"] = _expire_after(old, draft)
    return converted


def _families_by_name(item: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """Families given as instance types, of which none is called so, are families."""
    values = item.get("values") or []
    if item["key"] != INSTANCE_TYPE or not values:
        return item
    if not all(FAMILY_NAME.fullmatch(value) for value in values):
        return item
    draft.changed(
        path,
        f"{', '.join(values)}: no instance type is called so, a family is; {INSTANCE_FAMILY} is "
        "required",
    )
    return {**item, "key": INSTANCE_FAMILY}


def _implied_requirements(
    old: JsonObject, draft: ConversionDraft, ignore_defaults: bool
) -> list[JsonObject]:
    """What the Provisioner meant without saying so; a NodePool must say it."""
    keys = [item["key"] for item in old.get("requirements", [])] + list(old.get("labels", {}))
    constrained = {RENAMED_LABELS.get(key, key) for key in keys}
    implied = [
        {"key": key, "operator": operator, "values": list(values)}
        for labels, requirements in IMPLIED_REQUIREMENTS
        if constrained.isdisjoint(labels)
        for key, operator, values in requirements
    ]
    if not implied:
        return []
    summary = "; ".join(f"{r['key']} {r['operator']} [{', '.join(r['values'])}]" for r in implied)
    if ignore_defaults:
        draft.lost(SPEC_PATH, f"a Provisioner implied this, the NodePool does not: {summary}")
        return []
    draft.assumed(SPEC_PATH, f"a Provisioner implied this, a NodePool must say it: {summary}")
    return implied


def _expire_after(old: JsonObject, draft: ConversionDraft) -> str:
    if "ttlSecondsUntilExpired" in old:
        return format_duration(old["ttlSecondsUntilExpired"])
    draft.assumed(
        SPEC_PATH, "without ttlSecondsUntilExpired nodes did not expire; expireAfter is Never"
    )
    return "Never"


def _provisioner_disruption(old: JsonObject, draft: ConversionDraft) -> JsonObject:
    """Always with consolidateAfter: the first CRDs of v1 require it."""
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


def _convert_limits(source: JsonObject, draft: ConversionDraft) -> JsonObject:
    """`limits.resources` is the API; some manifests have the resources directly under limits."""
    nested = source.get("resources", {})
    direct = {name: amount for name, amount in source.items() if name != "resources"}
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
        draft.converted["status"] = {"resources": old["resources"]}
    for field in ("lastScaleTime", "conditions"):
        if old.get(field):
            draft.lost(("status", field), f"{field} of a Provisioner says nothing of a NodePool")


def _provisioner_class_settings(
    old: JsonObject, converted: JsonObject, draft: ConversionDraft, classes: NodeClasses
) -> ClassSettings | None:
    """The class settings: from the Provisioner itself, a template, or the default class."""
    path = ("spec", "kubeletConfiguration")
    settings = convert_kubelet(old.get("kubeletConfiguration", {}), path, draft)
    if "provider" in old:
        converted["name"] = _embedded_class(old["provider"], settings, draft, classes)
        return None
    ref = old.get("providerRef")
    if ref is None:
        draft.assumed(
            SPEC_PATH, f"no provider is named; it refers to EC2NodeClass {DEFAULT_CLASS_NAME}"
        )
        ref = {"name": DEFAULT_CLASS_NAME}
    converted["name"] = ref["name"]
    if (ref.get("kind") or NODE_TEMPLATE_KIND) not in (NODE_TEMPLATE_KIND, NODE_CLASS_KIND):
        _refer_to_foreign_class(ref, converted, settings, draft)
        return None
    place = path if settings else ("spec", "providerRef") if "providerRef" in old else SPEC_PATH
    return ClassSettings(class_name=ref["name"], settings=settings, path=place, draft=draft)


def _embedded_class(
    provider: JsonObject, settings: JsonObject, draft: ConversionDraft, classes: NodeClasses
) -> str:
    """The class embedded in the Provisioner, named after it."""
    name = classes.unused_name(draft.name or f"pool-{draft.index}")
    place = ("spec", "provider")
    draft.changed(place, f"the cloud's side of the nodes is EC2NodeClass {name} now")
    spec = convert_template_spec(provider, place, draft)
    draft.extra_documents.append(
        {
            "apiVersion": NODE_CLASS_API_VERSION,
            "kind": NODE_CLASS_KIND,
            "metadata": {"name": name},
            "spec": {**spec, "kubelet": settings} if settings else spec,
        }
    )
    return name


def _refer_to_foreign_class(
    ref: JsonObject, converted: JsonObject, settings: JsonObject, draft: ConversionDraft
) -> None:
    """Refers to a template of another kind unchanged."""
    converted["kind"] = ref["kind"]
    converted["group"] = (ref.get("apiVersion") or converted["group"]).partition("/")[0]
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
    draft: ConversionDraft,
    pools: Mapping[str, JsonObject],
    pool_settings: Mapping[str, ClassSettings],
) -> None:
    """Fills the draft; pools and their class settings are by pool name."""
    old: JsonObject = draft.source["spec"]
    converted: JsonObject = {
        "nodeClassRef": convert_class_reference(old.get("nodeClassRef"), ("spec",), draft),
        "requirements": convert_requirements(
            old.get("requirements", []), ("spec", "requirements"), draft, pool_is_free=True
        ),
    }
    for field in ("taints", "startupTaints"):
        if old.get(field):
            converted[field] = convert_taints(old[field])
    if old.get("resources"):
        converted["resources"] = old["resources"]
    pool = draft.source["metadata"].get("labels", {}).get(NODEPOOL)
    _convert_expiry(converted, pools.get(pool), draft)
    _convert_claim_kubelet(old.get("kubelet", {}), converted, pool_settings.get(pool), draft)
    draft.converted = new_object(draft, "karpenter.sh/v1", "NodeClaim", record=True)
    draft.converted["spec"] = converted
    copy_status(draft)


def _convert_expiry(converted: JsonObject, pool: JsonObject | None, draft: ConversionDraft) -> None:
    """Claims expired by their pool's setting; now each has its own expireAfter."""
    if pool is None:
        draft.assumed(
            ("spec",),
            "the pool that told when the claim expires is not in the input; the default is 720h",
        )
        return
    expiry = get_nested(pool, "spec", "template", "spec", "expireAfter")
    if expiry is not None:
        converted["expireAfter"] = expiry


def _convert_claim_kubelet(
    old: JsonObject,
    converted: JsonObject,
    pool_settings: ClassSettings | None,
    draft: ConversionDraft,
) -> None:
    """Settings equal to the pool's are in the pool's class."""
    path = ("spec", "kubelet")
    settings = convert_kubelet(old, path, draft)
    if not settings:
        return
    constrained_labels = converted["nodeClassRef"]["name"]
    if (
        pool_settings is None
        or pool_settings.draft is None
        or pool_settings.settings != settings
        or pool_settings.class_name != constrained_labels
    ):
        draft.lost(path, "a claim has no kubelet settings of its own any more; its class has them")
        return
    ref = pool_settings.draft.converted["spec"]["template"]["spec"]["nodeClassRef"]
    converted["nodeClassRef"] = dict(ref)
    draft.changed(path, f"kubelet settings belong to the class now: EC2NodeClass {ref['name']}")
