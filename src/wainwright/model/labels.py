"""Well-known labels: names, aliases, which are restricted, and suggestions for misspelled ones."""

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
WINDOWS_BUILD: Final = "node.kubernetes.io/windows-build"
EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_ID: Final = "topology.k8s.aws/zone-id"

NODEPOOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INITIALIZED: Final = "karpenter.sh/initialized"
REGISTERED: Final = "karpenter.sh/registered"
DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"
PRICE: Final = "karpenter.sh/price"  # only inside the offerings of an InstanceType object

EC2NODECLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"
RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE: Final = "karpenter.k8s.aws/capacity-reservation-interruptible"
PLACEMENT_GROUP_ID: Final = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_GROUP_PARTITION: Final = "karpenter.k8s.aws/placement-group-partition"
INSTANCE_HYPERVISOR: Final = "karpenter.k8s.aws/instance-hypervisor"
INSTANCE_ENCRYPTION_IN_TRANSIT: Final = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
INSTANCE_CATEGORY: Final = "karpenter.k8s.aws/instance-category"
INSTANCE_CAPABILITY_FLEX: Final = "karpenter.k8s.aws/instance-capability-flex"
INSTANCE_FAMILY: Final = "karpenter.k8s.aws/instance-family"
INSTANCE_GENERATION: Final = "karpenter.k8s.aws/instance-generation"
INSTANCE_SIZE: Final = "karpenter.k8s.aws/instance-size"
INSTANCE_LOCAL_NVME: Final = "karpenter.k8s.aws/instance-local-nvme"
INSTANCE_CPU: Final = "karpenter.k8s.aws/instance-cpu"
INSTANCE_CPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-cpu-manufacturer"
INSTANCE_CPU_SPEED: Final = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
INSTANCE_MEMORY: Final = "karpenter.k8s.aws/instance-memory"
INSTANCE_EBS_BANDWIDTH: Final = "karpenter.k8s.aws/instance-ebs-bandwidth"
INSTANCE_NETWORK_BANDWIDTH: Final = "karpenter.k8s.aws/instance-network-bandwidth"
INSTANCE_GPU_NAME: Final = "karpenter.k8s.aws/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT: Final = "karpenter.k8s.aws/instance-gpu-count"
INSTANCE_GPU_MEMORY: Final = "karpenter.k8s.aws/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME: Final = "karpenter.k8s.aws/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER: Final = "karpenter.k8s.aws/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT: Final = "karpenter.k8s.aws/instance-accelerator-count"
DEVICE_LABELS: Final = frozenset(
    {
        INSTANCE_GPU_NAME,
        INSTANCE_GPU_MANUFACTURER,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_NAME,
        INSTANCE_ACCELERATOR_MANUFACTURER,
        INSTANCE_ACCELERATOR_COUNT,
    }
)
"""Those of GPUs and accelerators."""
INSTANCE_TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
NITRO_SANDBOX: Final = "karpenter.k8s.aws/nitro-sandbox"

AUTO_MODE_DOMAIN: Final = "eks.amazonaws.com"
AUTO_MODE_NODECLASS: Final = "eks.amazonaws.com/nodeclass"
COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"

SPOT: Final = "spot"
ON_DEMAND: Final = "on-demand"
RESERVED: Final = "reserved"

INTEGER_LABELS: Final = frozenset(
    {
        INSTANCE_GENERATION,
        INSTANCE_LOCAL_NVME,
        INSTANCE_CPU,
        INSTANCE_CPU_SPEED,
        INSTANCE_MEMORY,
        INSTANCE_EBS_BANDWIDTH,
        INSTANCE_NETWORK_BANDWIDTH,
        INSTANCE_GPU_COUNT,
        INSTANCE_GPU_MEMORY,
        INSTANCE_ACCELERATOR_COUNT,
        PLACEMENT_GROUP_PARTITION,
    }
)

INSTANCE_TYPE_LABELS: Final = INTEGER_LABELS | {
    INSTANCE_TYPE,
    ARCH,
    OS,
    WINDOWS_BUILD,
    PLACEMENT_GROUP_ID,
    INSTANCE_HYPERVISOR,
    INSTANCE_ENCRYPTION_IN_TRANSIT,
    INSTANCE_CATEGORY,
    INSTANCE_CAPABILITY_FLEX,
    INSTANCE_FAMILY,
    INSTANCE_SIZE,
    INSTANCE_CPU_MANUFACTURER,
    INSTANCE_GPU_NAME,
    INSTANCE_GPU_MANUFACTURER,
    INSTANCE_ACCELERATOR_NAME,
    INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_TENANCY,
    NITRO_SANDBOX,
}
"""Labels of instance types: a type without one is incompatible with pods that require it."""

AUTO_MODE_LABELS: Final = {
    label: f"{AUTO_MODE_DOMAIN}/{label.partition('/')[2]}"
    for label in sorted(INSTANCE_TYPE_LABELS - {INSTANCE_TENANCY})
    if label.startswith("karpenter.k8s.aws/instance-")
}
"""How labels of instance types are called on nodes of EKS Auto Mode."""

RESERVATION_LABELS: Final = frozenset({RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE})
"""Labels that an offering lacks unless it names them; any other label it would leave open."""

OFFERING_LABELS: Final = RESERVATION_LABELS | {CAPACITY_TYPE, ZONE, ZONE_ID, REGION}
"""Labels that a type without them leaves open: the offering it is launched from decides."""

WELL_KNOWN_LABELS: Final = INSTANCE_TYPE_LABELS | OFFERING_LABELS | {NODEPOOL, EC2NODECLASS}
"""Labels that pods and NodePools may require although no NodePool defines them."""

KARPENTER_ONLY_LABELS: Final = frozenset({EC2NODECLASS, INSTANCE_TENANCY, NITRO_SANDBOX})

RESTRICTED_LABELS: Final = frozenset({HOSTNAME})
RESTRICTED_LABEL_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws")
NODE_STATE_LABELS: Final = frozenset({REGISTERED, INITIALIZED})
"""Restricted in NodePools, but every managed node gets them, so that pods may select them."""

LABEL_ALIASES: Final = {
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
    "beta.kubernetes.io/os": OS,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "topology.ebs.csi.aws.com/zone": ZONE,
    "eks.amazonaws.com/capacity-reservation-id": RESERVATION_ID,
    "eks.amazonaws.com/capacity-reservation-type": RESERVATION_TYPE,
    "eks.amazonaws.com/capacity-reservation-interruptible": RESERVATION_INTERRUPTIBLE,
}


def node_class_labels(name: str, *, auto_mode: bool = False) -> dict[str, str]:
    """The labels by which a node shows its node class."""
    if auto_mode:
        return {AUTO_MODE_NODECLASS: name, COMPUTE_TYPE: "auto"}
    return {EC2NODECLASS: name}


def well_known_labels(keys: AbstractSet[str]) -> frozenset[str]:
    """The labels that pods may require of a NodePool whose instance types have these.

    Where they have the names of EKS Auto Mode, no node has Karpenter's.
    """
    if AUTO_MODE_LABELS[INSTANCE_FAMILY] not in keys:
        return WELL_KNOWN_LABELS | keys
    return WELL_KNOWN_LABELS - AUTO_MODE_LABELS.keys() - KARPENTER_ONLY_LABELS | keys


def normalize_label(key: str) -> str:
    """The stable name of a label that has deprecated aliases."""
    return LABEL_ALIASES.get(key, key)


REGION_LABELS: Final = frozenset({REGION, ZONE, ZONE_ID})
"""Labels whose values tell a region."""

ZONE_NAME: Final = re.compile(r"([a-z]+(?:-[a-z]+)+-\d+)(?:[a-z]|-.+)")
"""The name of a region, and a letter or what a Local Zone adds: us-west-2a, us-west-2-lax-1a."""


def region_of_zone(zone: str) -> str | None:
    """The region in the name of a zone of AWS; None for any other name."""
    found = ZONE_NAME.fullmatch(zone)
    return None if found is None else found[1]


def is_restricted(key: str) -> bool:
    """Whether NodePools may not set this label, because a controller or the kubelet sets it."""
    if key in WELL_KNOWN_LABELS:
        return False
    domain = key.rpartition("/")[0]
    return key in RESTRICTED_LABELS or any(
        domain == restricted or domain.endswith(f".{restricted}")
        for restricted in RESTRICTED_LABEL_DOMAINS
    )


def is_restricted_for_pods(key: str) -> bool:
    """Whether a pod that selects this label can never be scheduled on a managed node."""
    return key not in NODE_STATE_LABELS and is_restricted(key)


def suggest_label(key: str, known: AbstractSet[str] = WELL_KNOWN_LABELS) -> str | None:
    """The known label that was probably intended: after a typo, a truncation, or a wrong domain."""
    return None if key in known else _suggest_label(key, frozenset(known))


@lru_cache(maxsize=1024)  # the same unknown label is on thousands of pods
def _suggest_label(key: str, known: frozenset[str]) -> str | None:
    ordered = sorted(known, key=lambda label: (len(label), label))
    for match in (_same_name, _truncated, _misspelled):
        label = next(match(key, ordered), None)
        if label is not None:
            return label
    return None


def _same_name(key: str, known: Iterable[str]) -> Iterator[str]:
    return (label for label in known if _name(label) == _name(key).lower())


def _misspelled(key: str, known: Iterable[str]) -> Iterator[str]:
    # Up to a fifth of the name may differ, more is another word; of the whole key one letter.
    pairs = [(_name(key), _name(label), len(_name(label)) // 5, label) for label in known]
    pairs += [(key, label, 1, label) for label in known]
    near = [
        (_edit_distance(one, other), max_distance, label)
        for one, other, max_distance, label in pairs
        if _can_be_near(one, other, max_distance)
    ]
    return (label for distance, max_distance, label in sorted(near) if distance <= max_distance)


def _can_be_near(left: str, right: str, limit: int) -> bool:
    """Whether the edit distance can be within the limit.

    A cheap lower bound by lengths and letters: it saves the quadratic distance for most pairs.
    """
    if abs(len(left) - len(right)) > limit:
        return False
    return len(set(left) ^ set(right)) <= 2 * limit


def _truncated(key: str, known: Iterable[str]) -> Iterator[str]:
    return (label for label in known if len(key) > 3 and key in label)


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _edit_distance(left: str, right: str) -> int:
    """How many letters to insert, drop or change to turn one text into the other (Levenshtein)."""
    row = list(range(len(right) + 1))
    for i, left_letter in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, right_letter in enumerate(right, start=1):
            replaced = previous + (left_letter != right_letter)
            previous, row[j] = row[j], min(replaced, row[j] + 1, row[j - 1] + 1)
    return row[-1]
