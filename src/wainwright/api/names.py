"""Public names of the API: groups, labels, annotations, and the values that have a meaning."""

from typing import Final

KARPENTER: Final = "karpenter.sh"
AWS: Final = "karpenter.k8s.aws"
WAINWRIGHT: Final = "wainwright.dev"
OUR_GROUPS: Final = (KARPENTER, AWS, WAINWRIGHT)

NODEPOOL: Final = "karpenter.sh/nodepool"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
PRICE: Final = "karpenter.sh/price"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
RESERVATION_ID: Final = "karpenter.k8s.aws/capacity-reservation-id"

CAPACITY_TYPES: Final = ("on-demand", "reserved", "spot")
TENANCIES: Final = ("dedicated", "default")

AWS_LABELS: Final = tuple(
    f"{AWS}/{name}"
    for name in (
        "capacity-reservation-id",
        "capacity-reservation-interruptible",
        "capacity-reservation-type",
        "ec2nodeclass",
        "instance-accelerator-count",
        "instance-accelerator-manufacturer",
        "instance-accelerator-name",
        "instance-capability-flex",
        "instance-category",
        "instance-cpu",
        "instance-cpu-manufacturer",
        "instance-cpu-sustained-clock-speed-mhz",
        "instance-ebs-bandwidth",
        "instance-encryption-in-transit-supported",
        "instance-family",
        "instance-generation",
        "instance-gpu-count",
        "instance-gpu-manufacturer",
        "instance-gpu-memory",
        "instance-gpu-name",
        "instance-hypervisor",
        "instance-local-nvme",
        "instance-memory",
        "instance-network-bandwidth",
        "instance-size",
        "instance-tenancy",
        "nitro-sandbox",
        "placement-group-id",
        "placement-group-partition",
    )
)
"""Labels of the provider that a requirement may name; the rest of its domain is its own."""
