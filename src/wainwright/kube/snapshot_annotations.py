"""Which annotations a snapshot keeps, and what of their values a redacted one may show.

Of Kubernetes' domains only those are kept that scheduling, disruption or a simulation reads: tools
write whole command lines, addresses and the ids of instances into others of the same domains.
"""

import re
from typing import Final

OWN_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws", "wainwright.dev")
CORE_ANNOTATIONS: Final = frozenset(
    {
        "controller.kubernetes.io/pod-deletion-cost",
        "kubernetes.io/config.mirror",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/provisioned-by",
        "storageclass.beta.kubernetes.io/is-default-class",
        "storageclass.kubernetes.io/is-default-class",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
NAMING_ANNOTATIONS: Final = frozenset(
    {
        "karpenter.k8s.aws/instance-profile-name",
        "pv.kubernetes.io/provisioned-by",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "wainwright.dev/replaces",
    }
)
"""Their values are names, with commas between several."""
CHOICE: Final = re.compile(
    r"true|false|EKS|GKE|Never|wain-\d+|v\d+|[0-9a-f]{16,64}"
    r"|\s*(?i:true|false|yes|no|none|off|all|provisioning|disruption)\s*"
    r"|[-+$]?[0-9.]+(%|m|[kMGTP]i?)?|([0-9.]+(ms|s|m|h))+|[0-9-]{10}T[0-9:.]+Z|"
)
"""Switches, amounts, times and hashes. Whatever else somebody has written into an annotation means
nothing to decisions, and a word in its place means as little.
"""


def is_kept_annotation(annotation: str) -> bool:
    """Whether scheduling or disruption may depend on it."""
    domain = annotation.rpartition("/")[0]
    is_own = any(domain == own or domain.endswith(f".{own}") for own in OWN_DOMAINS)
    return is_own or annotation in CORE_ANNOTATIONS
