"""EKS Auto Mode offline: its node classes as the catalogue reads them, its built-in NodePools."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from wainwright.api.karpenter.auto_mode import (
    AUTO_MODE_AMI_FAMILY,
    AUTO_MODE_GROUP,
    AUTO_MODE_KIND,
    AUTO_MODE_POD_DEVICE,
    NodeClass,
)
from wainwright.api.karpenter.ec2nodeclass import (
    BlockDeviceMapping,
    CapacityReservationSelectorTerm,
    EBSVolume,
    EC2NodeClass,
)
from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.karpenter.shared_fields import KARPENTER_AWS_GROUP, NODEPOOL
from wainwright.api.kubernetes.workloads import Pod, PodSpec, PodTemplateSpec
from wainwright.api.wire import WireStruct

JsonObject = dict[str, Any]

KNOWN_CLASSES: Final = ((KARPENTER_AWS_GROUP, "EC2NodeClass"), (AUTO_MODE_GROUP, AUTO_MODE_KIND))
"""Group and kind of the node classes whose instance types are known."""
AUTO_MODE_REF: Final = {"group": AUTO_MODE_GROUP, "kind": AUTO_MODE_KIND}
DEFAULT_AUTO_MODE_CLASS: Final = "default"
"""The class that EKS makes for the built-in NodePools."""


def is_auto_mode(pool: NodePool) -> bool:
    reference = pool.spec.template.spec.nodeClassRef
    return (reference.group, reference.kind) == (AUTO_MODE_GROUP, AUTO_MODE_KIND)


def has_known_class(pool: NodePool) -> bool:
    reference = pool.spec.template.spec.nodeClassRef
    return (reference.group, reference.kind) in KNOWN_CLASSES


def auto_mode_class(base: EC2NodeClass, name: str, classes: Iterable[NodeClass]) -> EC2NodeClass:
    """The Auto Mode class of this name in the form of an EC2NodeClass, whose catalogue it gets.

    `base` has the fields that every EC2NodeClass needs. A class that is not in the input has the
    settings of the one that EKS makes.
    """
    given = next((each for each in classes if each.metadata.name == name), NodeClass())
    storage = given.spec.ephemeralStorage
    size = storage.size if storage is not None else None
    device = BlockDeviceMapping(deviceName=AUTO_MODE_POD_DEVICE, ebs=EBSVolume(volumeSize=size))
    terms = [
        CapacityReservationSelectorTerm(id=term.id, ownerID=term.owner, tags=term.tags)
        for term in given.spec.capacityReservationSelectorTerms or ()
    ]
    spec = msgspec.structs.replace(
        base.spec,
        amiFamily=AUTO_MODE_AMI_FAMILY,
        blockDeviceMappings=[device] if size is not None else None,
        instanceStorePolicy="RAID0",
        capacityReservationSelectorTerms=terms or None,
    )
    metadata = msgspec.structs.replace(base.metadata, name=name)
    return msgspec.structs.replace(
        base, apiVersion=given.apiVersion, kind=given.kind, metadata=metadata, spec=spec
    )


BUILT_IN_ARCHITECTURES: Final = {"general-purpose": ["amd64"], "system": ["amd64", "arm64"]}
BUILT_IN_POOLS: Final = tuple(BUILT_IN_ARCHITECTURES)


def built_in_pool(name: str) -> JsonObject:
    """The NodePool that EKS makes under this name: on-demand, c, m and r from generation 5."""
    label = f"{AUTO_MODE_GROUP}/instance-"
    requirements = [
        _requirement("karpenter.sh/capacity-type", "on-demand"),
        _requirement(f"{label}category", "c", "m", "r"),
        {"key": f"{label}generation", "operator": "Gt", "values": ["4"]},
        _requirement("kubernetes.io/arch", *BUILT_IN_ARCHITECTURES[name]),
        _requirement("kubernetes.io/os", "linux"),
    ]
    template_spec: JsonObject = {
        "nodeClassRef": {**AUTO_MODE_REF, "name": DEFAULT_AUTO_MODE_CLASS},
        "requirements": requirements,
        "expireAfter": "336h",
        "terminationGracePeriod": "24h",
    }
    if name == "system":
        template_spec["taints"] = [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": template_spec},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "30s",
                "budgets": [{"nodes": "10%"}],
            },
        },
    }


def selected_built_in_pools(objects: Iterable[WireStruct]) -> set[str]:
    """The built-in pools that pods or pod templates select by name.

    None where all pools of the input are of another kind of class: then the name is that of a pool
    that is not in the input.
    """
    items = list(objects)
    pools = [item for item in items if isinstance(item, NodePool)]
    if pools and not any(map(is_auto_mode, pools)):
        return set()
    specs = {id(spec): spec for item in items if (spec := _pod_spec(item)) is not None}
    return {name for spec in specs.values() for name in _selected_pools(spec)} & {*BUILT_IN_POOLS}


def _pod_spec(item: WireStruct) -> PodSpec | None:
    if isinstance(item, Pod):
        return item.spec
    template = getattr(getattr(item, "spec", None), "template", None)
    return template.spec if isinstance(template, PodTemplateSpec) else None


def _selected_pools(spec: PodSpec) -> Iterator[str]:
    yield (spec.nodeSelector or {}).get(NODEPOOL, "")
    node_affinity = spec.affinity.nodeAffinity if spec.affinity is not None else None
    required = (
        node_affinity.requiredDuringSchedulingIgnoredDuringExecution
        if node_affinity is not None
        else None
    )
    for term in (required.nodeSelectorTerms if required is not None else None) or ():
        for each in term.matchExpressions or ():
            if each.key == NODEPOOL and each.operator == "In":
                yield from each.values or ()


def _requirement(key: str, *values: str) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


def fill_built_in_pool(value: JsonObject) -> JsonObject | None:
    """The built-in pool, where a NodePool has its name and class and no requirements of its own."""
    name = _mapping(value, "metadata").get("name")
    if not isinstance(name, str) or name not in BUILT_IN_ARCHITECTURES:
        return None
    spec = _mapping(value, "spec")
    template_spec = _mapping(_mapping(spec, "template"), "spec")
    reference = _mapping(template_spec, "nodeClassRef")
    ours = reference.get("group") == AUTO_MODE_GROUP and reference.get("kind") == AUTO_MODE_KIND
    if not ours or template_spec.get("requirements"):
        return None
    built_in = built_in_pool(name)["spec"]
    filled = {**built_in["template"]["spec"], **template_spec}
    filled["requirements"] = built_in["template"]["spec"]["requirements"]
    template = {**_mapping(spec, "template"), "spec": filled}
    return {**value, "spec": {**spec, "template": template}}


def _mapping(value: JsonObject, key: str) -> JsonObject:
    """The mapping under the key; an empty one in place of anything else, which is an error."""
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}
