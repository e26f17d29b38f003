"""The kubelet's settings where they used to be: on the Provisioner, the NodePool, the NodeClaim."""

from typing import Annotated, ClassVar, Final

from wainwright.api.kubelet import (
    A_THRESHOLD,
    RESERVABLE,
    SIGNALS,
    THRESHOLD,
    Count,
    Percent,
)
from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import A_QUANTITY, POSITIVE_QUANTITY, Wire

Threshold = Annotated[str, wire(pattern=THRESHOLD, says=A_THRESHOLD)]


def _among(keys: tuple[str, ...], what: str) -> list[dict[str, str]]:
    listed = ", ".join(f"'{key}'" for key in keys)
    return [rule(f"self.all(k, k in [{listed}])", f"{what} is one of {', '.join(keys)}")]


OldReserved = Annotated[
    dict[
        str,
        Annotated[
            int | str,
            wire(
                pattern=POSITIVE_QUANTITY,
                says=f"{A_QUANTITY}, not negative",
                minimum=0,
                max_length=256,
            ),
        ],
    ],
    wire("Kept from pods.", rules=_among(RESERVABLE, "what can be reserved")),
]
OldThresholds = Annotated[
    dict[str, Threshold],
    wire("Below this the kubelet evicts pods.", rules=_among(SIGNALS, "an eviction signal")),
]
GracePeriods = Annotated[
    dict[str, str],
    wire("How long a threshold may be crossed.", rules=_among(SIGNALS, "an eviction signal")),
]


class BetaKubelet(Wire, frozen=True, kw_only=True):
    """Settings of the kubelet, as a NodePool of v1beta1 makes them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) "
                "|| self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
                "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
                at=".imageGCHighThresholdPercent",
            )
        ]
    }

    clusterDNS: Annotated[list[str] | None, wire("Addresses of the cluster's DNS.")] = None
    maxPods: Count | None = None
    podsPerCore: Count | None = None
    systemReserved: OldReserved | None = None
    kubeReserved: OldReserved | None = None
    evictionHard: OldThresholds | None = None
    evictionSoft: OldThresholds | None = None
    evictionSoftGracePeriod: GracePeriods | None = None
    evictionMaxPodGracePeriod: Annotated[
        int | None, wire("The longest grace period at a soft eviction.", format="int32")
    ] = None
    imageGCHighThresholdPercent: Percent | None = None
    imageGCLowThresholdPercent: Percent | None = None
    cpuCFSQuota: Annotated[bool | None, wire("Whether cpu limits are enforced.")] = None


class NamedThresholds(Wire, frozen=True, kw_only=True):
    """Eviction thresholds with the signals spelt as fields."""

    memoryAvailable: Threshold | None = None
    nodefsAvailable: Threshold | None = None
    nodefsInodesFree: Threshold | None = None
    imagefsAvailable: Threshold | None = None
    imagefsInodesFree: Threshold | None = None
    pidAvailable: Threshold | None = None


SIGNAL_OF: Final = {
    "memoryAvailable": "memory.available",
    "nodefsAvailable": "nodefs.available",
    "nodefsInodesFree": "nodefs.inodesFree",
    "imagefsAvailable": "imagefs.available",
    "imagefsInodesFree": "imagefs.inodesFree",
    "pidAvailable": "pid.available",
}


class EvictionThreshold(Wire, frozen=True, kw_only=True):
    """Hard and soft thresholds in one place, without grace periods."""

    hard: NamedThresholds | None = None
    soft: NamedThresholds | None = None


class AlphaKubelet(BetaKubelet, frozen=True, kw_only=True):
    """Settings of the kubelet, as a Provisioner makes them."""

    containerRuntime: Annotated[str | None, wire("dockerd or containerd.")] = None
    evictionThreshold: EvictionThreshold | None = None
