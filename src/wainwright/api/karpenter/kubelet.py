"""The kubelet's settings that a class may make, as far as they change what pods get."""

from typing import Annotated, ClassVar, Final

from wainwright.api.wire import (
    AMOUNT_PATTERN,
    QUANTITY_PATTERN,
    Schema,
    WireStruct,
    cel_rule,
    field_meta,
)

EVICTION_SIGNALS: Final = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
RESERVABLE_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pid")
EXPRESSION_VARIABLES: Final = (
    "instance_type",
    "vcpus",
    "memory_mib",
    "default_enis",
    "ips_per_eni",
    "max_pods",
)
"""What an expression may compute with; a text with none of these is a mistyped number."""

THRESHOLD_PATTERN: Final = (
    f"^(([0-9]{{1,2}}([.][0-9]{{1,2}})?|100([.]0{{1,2}})?)%|[+-]?{AMOUNT_PATTERN}|)$"
)
EXPECTED_THRESHOLD: Final = "a quantity such as 1Gi, or 0% to 100%"


def _is_expression(name: str) -> str:
    return f"{name}.matches('(^|[^a-z_])({'|'.join(EXPRESSION_VARIABLES)})([^a-z_]|$)')"


def _one_of_rule(keys: tuple[str, ...], what: str) -> dict[str, str]:
    listed = ", ".join(f"'{key}'" for key in keys)
    return cel_rule(f"self.all(k, k in [{listed}])", f"{what} is one of {', '.join(keys)}")


RESERVED_RULES: Final = [
    _one_of_rule(RESERVABLE_RESOURCES, "what can be reserved"),
    cel_rule(
        "self.all(k, !self[k].startsWith('-'))",
        "a reservation cannot be negative",
    ),
    cel_rule(
        f"self.all(k, self[k].matches('{QUANTITY_PATTERN}') || {_is_expression('self[k]')})",
        "a reservation is a quantity such as 300m or 1Gi, or an expression over "
        + ", ".join(EXPRESSION_VARIABLES),
    ),
]
ReservedResources = Annotated[
    dict[str, Annotated[str, field_meta(max_length=256)]],
    field_meta("Kept from pods.", max_properties=20, rules=RESERVED_RULES),
]
EvictionThresholds = Annotated[
    dict[str, Annotated[str, field_meta(pattern=THRESHOLD_PATTERN, expected=EXPECTED_THRESHOLD)]],
    field_meta(
        "Below this the kubelet evicts pods: a quantity or a percentage.",
        max_properties=20,
        rules=[_one_of_rule(EVICTION_SIGNALS, "an eviction signal")],
    ),
]
Percent = Annotated[int, field_meta("Percent.", minimum=0, maximum=100, format="int32")]
PodCount = Annotated[int, field_meta("A number of pods.", minimum=0, format="int32")]


class KubeletConfiguration(WireStruct, frozen=True, kw_only=True):
    """Settings of the kubelet on every node of the class."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) "
                "|| self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
                "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
                at=".imageGCHighThresholdPercent",
            ),
            cel_rule(
                "!has(self.evictionSoft) || self.evictionSoft.all(k, "
                "has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)",
                "every signal of evictionSoft needs a grace period in evictionSoftGracePeriod",
                at=".evictionSoft",
            ),
            cel_rule(
                "!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, "
                "has(self.evictionSoft) && k in self.evictionSoft)",
                "every signal of evictionSoftGracePeriod needs a threshold in evictionSoft",
                at=".evictionSoftGracePeriod",
            ),
        ]
    }

    clusterDNS: Annotated[list[str] | None, field_meta("Addresses of the cluster's DNS.")] = None
    maxPods: Annotated[
        int | str | None,
        field_meta(
            "The most pods a node may run: a number, or an expression over the instance type.",
            max_length=256,
            rules=[
                cel_rule(
                    "type(self) != int || (self >= 0 && self <= 2147483647)",
                    "maxPods is from 0 to 2147483647",
                ),
                cel_rule(
                    "type(self) != string || " + _is_expression("self"),
                    "maxPods is a number without quotes, or an expression over "
                    + ", ".join(EXPRESSION_VARIABLES),
                ),
            ],
        ),
    ] = None
    podsPerCore: PodCount | None = None
    systemReserved: ReservedResources | None = None
    kubeReserved: ReservedResources | None = None
    evictionHard: EvictionThresholds | None = None
    evictionSoft: EvictionThresholds | None = None
    evictionSoftGracePeriod: Annotated[
        dict[str, str] | None,
        field_meta(
            "How long a soft threshold may be crossed.",
            max_properties=20,
            rules=[_one_of_rule(EVICTION_SIGNALS, "an eviction signal")],
        ),
    ] = None
    evictionMaxPodGracePeriod: Annotated[
        int | None, field_meta("The longest grace period at a soft eviction.", format="int32")
    ] = None
    imageGCHighThresholdPercent: Percent | None = None
    imageGCLowThresholdPercent: Percent | None = None
    cpuCFSQuota: Annotated[bool | None, field_meta("Whether cpu limits are enforced.")] = None
