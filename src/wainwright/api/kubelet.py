"""The kubelet's settings that a class may make, as far as they change what pods get."""

from typing import Annotated, ClassVar, Final

from wainwright.api.schema import Schema, rule, wire
from wainwright.api.wire import AMOUNT, QUANTITY, Wire

SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
VARIABLES: Final = (
    "instance_type",
    "vcpus",
    "memory_mib",
    "default_enis",
    "ips_per_eni",
    "max_pods",
)
"""What an expression may compute with; a text with none of these is a mistyped number."""

THRESHOLD: Final = f"^(([0-9]{{1,2}}([.][0-9]{{1,2}})?|100([.]0{{1,2}})?)%|[+-]?{AMOUNT}|)$"
A_THRESHOLD: Final = "a quantity such as 1Gi, or 0% to 100%"


def _expression(name: str) -> str:
    return f"{name}.matches('(^|[^a-z_])({'|'.join(VARIABLES)})([^a-z_]|$)')"


def _among(keys: tuple[str, ...], what: str) -> dict[str, str]:
    listed = ", ".join(f"'{key}'" for key in keys)
    return rule(f"self.all(k, k in [{listed}])", f"{what} is one of {', '.join(keys)}")


RESERVED_RULES: Final = [
    _among(RESERVABLE, "what can be reserved"),
    rule(
        "self.all(k, !self[k].startsWith('-'))",
        "a reservation cannot be negative",
    ),
    rule(
        f"self.all(k, self[k].matches('{QUANTITY}') || {_expression('self[k]')})",
        "a reservation is a quantity such as 300m or 1Gi, or an expression over "
        + ", ".join(VARIABLES),
    ),
]
Reserved = Annotated[
    dict[str, Annotated[str, wire(max_length=256)]],
    wire("Kept from pods.", max_properties=20, rules=RESERVED_RULES),
]
Thresholds = Annotated[
    dict[str, Annotated[str, wire(pattern=THRESHOLD, says=A_THRESHOLD)]],
    wire(
        "Below this the kubelet evicts pods: a quantity or a percentage.",
        max_properties=20,
        rules=[_among(SIGNALS, "an eviction signal")],
    ),
]
Percent = Annotated[int, wire("Percent.", minimum=0, maximum=100, format="int32")]
Count = Annotated[int, wire("A number of pods.", minimum=0, format="int32")]


class Kubelet(Wire, frozen=True, kw_only=True):
    """Settings of the kubelet on every node of the class."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            rule(
                "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) "
                "|| self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
                "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
                at=".imageGCHighThresholdPercent",
            ),
            rule(
                "!has(self.evictionSoft) || self.evictionSoft.all(k, "
                "has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)",
                "every signal of evictionSoft needs a grace period in evictionSoftGracePeriod",
                at=".evictionSoft",
            ),
            rule(
                "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, "
                "has(self.evictionSoft) && k in self.evictionSoft)",
                "every signal of evictionSoftGracePeriod needs a threshold in evictionSoft",
                at=".evictionSoftGracePeriod",
            ),
        ]
    }

    clusterDNS: Annotated[list[str] | None, wire("Addresses of the cluster's DNS.")] = None
    maxPods: Annotated[
        int | str | None,
        wire(
            "The most pods a node may run: a number, or an expression over the instance type.",
            max_length=256,
            rules=[
                rule("type(self) != int || self >= 0", "maxPods cannot be negative"),
                rule(
                    "type(self) != string || self.matches('^[0-9]+$') || " + _expression("self"),
                    "maxPods is a number or an expression over " + ", ".join(VARIABLES),
                ),
            ],
        ),
    ] = None
    podsPerCore: Count | None = None
    systemReserved: Reserved | None = None
    kubeReserved: Reserved | None = None
    evictionHard: Thresholds | None = None
    evictionSoft: Thresholds | None = None
    evictionSoftGracePeriod: Annotated[
        dict[str, str] | None,
        wire(
            "How long a soft threshold may be crossed.",
            max_properties=20,
            rules=[_among(SIGNALS, "an eviction signal")],
        ),
    ] = None
    evictionMaxPodGracePeriod: Annotated[
        int | None, wire("The longest grace period at a soft eviction.", format="int32")
    ] = None
    imageGCHighThresholdPercent: Percent | None = None
    imageGCLowThresholdPercent: Percent | None = None
    cpuCFSQuota: Annotated[bool | None, wire("Whether cpu limits are enforced.")] = None
