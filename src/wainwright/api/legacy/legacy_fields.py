"""Shared fields of the legacy kinds: disks, metadata options, kubelet, requirements, taints.
Alpha is karpenter.sh/v1alpha5 and karpenter.k8s.aws/v1alpha1, Beta is v1beta1 of both. The types
have no defaults: absent fields stay visible as absent, because the defaults of v1 differ.
"""

from typing import Annotated, ClassVar, Final

from wainwright.api.karpenter.ec2nodeclass import (
    ENABLED_OR_DISABLED,
    VOLUME_SIZE_PATTERN,
    VOLUME_TYPES,
)
from wainwright.api.karpenter.kubelet import (
    EVICTION_SIGNALS,
    EXPECTED_THRESHOLD,
    RESERVABLE_RESOURCES,
    THRESHOLD_PATTERN,
    Percent,
    PodCount,
)
from wainwright.api.karpenter.shared_fields import (
    MIN_VALUES_RULE,
    TAINT_EFFECTS,
    MinValues,
    RequirementValues,
)
from wainwright.api.wire import (
    DNS_NAME_PATTERN,
    EXPECTED_LABEL_KEY,
    EXPECTED_QUANTITY,
    LABEL_KEY_PATTERN,
    NON_NEGATIVE_QUANTITY_PATTERN,
    NUMBER_PATTERN,
    LabelValue,
    Schema,
    Timestamp,
    WireStruct,
    cel_rule,
    field_meta,
)

LEGACY_OPERATORS: Final = ["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]
OPTIONAL_LABEL_KEY_PATTERN: Final = f"^({LABEL_KEY_PATTERN[1:-1]})?$"

LEGACY_VALUES_RULES: Final = [
    cel_rule(
        "self.operator != 'In' || (has(self.values) && self.values.size() != 0)",
        "the operator In needs at least one value",
        at=".values",
    ),
    cel_rule(
        "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 "
        "&& self.values[0].matches('^[0-9]+$'))",
        "the operators Gt and Lt need exactly one value, a whole number of 0 or more",
        at=".values",
    ),
]
"""NotIn without values was legal: it excludes nothing."""

LegacyRequirementKey = Annotated[
    str,
    field_meta(
        "The label that the requirement is about.",
        max_length=316,
        pattern=LABEL_KEY_PATTERN,
        expected=EXPECTED_LABEL_KEY,
    ),
]
LegacyOperator = Annotated[str, field_meta("How the label is compared.", enum=LEGACY_OPERATORS)]
Labels = Annotated[dict[str, LabelValue], field_meta("Labels of the nodes.", max_properties=100)]
Annotations = Annotated[dict[str, str], field_meta("Annotations of the nodes.")]


class AlphaRequirement(WireStruct, frozen=True, kw_only=True):
    """A condition on one label of the nodes; any label may be named, also those set elsewhere."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-validations": LEGACY_VALUES_RULES}

    key: LegacyRequirementKey
    operator: LegacyOperator
    values: RequirementValues | None = None


class BetaRequirement(WireStruct, frozen=True, kw_only=True):
    """The same, with a number of values that must stay possible."""

    SCHEMA: ClassVar[Schema] = {"x-kubernetes-validations": [*LEGACY_VALUES_RULES, MIN_VALUES_RULE]}

    key: LegacyRequirementKey
    operator: LegacyOperator
    values: RequirementValues | None = None
    minValues: MinValues | None = None


class LegacyTaint(WireStruct, frozen=True, kw_only=True):
    """What keeps pods away from a node; an empty value was legal and meant none."""

    key: Annotated[
        str,
        field_meta(
            "The taint's name.",
            min_length=1,
            pattern=LABEL_KEY_PATTERN,
            expected=EXPECTED_LABEL_KEY,
        ),
    ]
    effect: Annotated[
        str, field_meta("What happens to pods without toleration.", enum=TAINT_EFFECTS)
    ]
    value: (
        Annotated[
            str,
            field_meta(
                "The taint's value.",
                pattern=OPTIONAL_LABEL_KEY_PATTERN,
                expected="a value such as true",
            ),
        ]
        | None
    ) = None
    timeAdded: Annotated[Timestamp, field_meta("When it was put on the node.")] | None = None


AlphaRequirements = Annotated[
    list[AlphaRequirement], field_meta("Conditions that every node meets.", max_items=100)
]
BetaRequirements = Annotated[
    list[BetaRequirement], field_meta("Conditions that every node meets.", max_items=100)
]
LegacyTaints = Annotated[list[LegacyTaint], field_meta("Taints that nodes keep.")]
LegacyStartupTaints = Annotated[
    list[LegacyTaint], field_meta("Taints that are removed once the node is set up.")
]
NodeClassName = Annotated[
    str,
    field_meta(
        "Its name.",
        max_length=253,
        pattern=f"^{DNS_NAME_PATTERN}$",
        expected="a name: lower case letters, digits, '-' and '.'",
    ),
]


class LegacyCondition(WireStruct, frozen=True, kw_only=True):
    """One aspect of an object's state, with a severity, as controllers wrote it before v1."""

    type: Annotated[str, field_meta("Which aspect.", max_length=316)]
    status: Annotated[str, field_meta("True, False or Unknown.", enum=["True", "False", "Unknown"])]
    lastTransitionTime: Annotated[Timestamp, field_meta("When the status last changed.")] | None = (
        None
    )
    severity: Annotated[str | None, field_meta("How bad it is.")] = None
    reason: Annotated[str | None, field_meta("Why, in one word.", max_length=1024)] = None
    message: Annotated[str | None, field_meta("Why, in a sentence.", max_length=32768)] = None
    observedGeneration: Annotated[
        int | None, field_meta("The generation this was said of.", minimum=0, format="int64")
    ] = None


LegacyConditions = Annotated[
    list[LegacyCondition], field_meta("What was known of the object's state.")
]


class BetaNodeClassRef(WireStruct, frozen=True, kw_only=True):
    """Which class holds the cloud's side of the node; group and version in one."""

    name: NodeClassName
    kind: Annotated[str | None, field_meta("The class's kind; EC2NodeClass when absent.")] = None
    apiVersion: Annotated[str | None, field_meta("The class's group and version.")] = None


LEGACY_AMI_FAMILIES: Final = [
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Ubuntu",
    "Windows2019",
    "Windows2022",
]
AlphaVolumeSize = Annotated[
    int | str,
    field_meta(
        "Any quantity of bytes.",
        pattern=f"^[+]?{NUMBER_PATTERN}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{{1,2}})?$",
        expected="a size such as 100Gi",
        minimum=0,
    ),
]
BetaVolumeSize = Annotated[
    str,
    field_meta(
        "1Gi to 64Ti.",
        pattern=VOLUME_SIZE_PATTERN,
        expected="1Gi to 64Ti, as in 100Gi",
        max_length=10,
    ),
]
LegacyTags = Annotated[
    dict[str, str],
    field_meta(
        "Tags of everything that is launched.",
        rules=[cel_rule("self.all(k, k != '')", "a tag needs a key")],
    ),
]


class AlphaVolume(WireStruct, frozen=True, kw_only=True):
    """An EBS volume of an AWSNodeTemplate."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "has(self.snapshotID) || has(self.volumeSize)",
                "a volume needs a volumeSize or a snapshotID",
            )
        ]
    }

    volumeSize: AlphaVolumeSize | None = None
    volumeType: Annotated[str | None, field_meta("The kind of volume.", enum=VOLUME_TYPES)] = None
    snapshotID: Annotated[str | None, field_meta("The snapshot it starts from.")] = None
    encrypted: Annotated[bool | None, field_meta("Whether it is encrypted.")] = None
    kmsKeyID: Annotated[str | None, field_meta("The key it is encrypted with.")] = None
    deleteOnTermination: Annotated[
        bool | None, field_meta("Whether it goes with the instance.")
    ] = None
    iops: Annotated[int | None, field_meta("Operations per second.", format="int64")] = None
    throughput: Annotated[int | None, field_meta("MiB per second.", format="int64")] = None


class BetaVolume(AlphaVolume, frozen=True, kw_only=True):
    """An EBS volume of an EC2NodeClass: the size is text in the units that people write."""

    volumeSize: BetaVolumeSize | None = None


class AlphaBlockDevice(WireStruct, frozen=True, kw_only=True):
    """A disk of the node."""

    deviceName: Annotated[str | None, field_meta("Where it is attached, as /dev/xvda.")] = None
    ebs: AlphaVolume | None = None


class BetaBlockDevice(WireStruct, frozen=True, kw_only=True):
    """A disk of the node, perhaps the one that ephemeral storage lies on."""

    deviceName: Annotated[str | None, field_meta("Where it is attached, as /dev/xvda.")] = None
    ebs: BetaVolume | None = None
    rootVolume: Annotated[
        bool | None, field_meta("Whether pods' ephemeral storage lies on this disk.")
    ] = None


class LegacyMetadataOptions(WireStruct, frozen=True, kw_only=True):
    """How the instance metadata service is reached."""

    httpEndpoint: Annotated[
        str | None, field_meta("Whether it answers.", enum=ENABLED_OR_DISABLED)
    ] = None
    httpProtocolIPv6: Annotated[
        str | None, field_meta("Whether it answers over IPv6.", enum=ENABLED_OR_DISABLED)
    ] = None
    httpPutResponseHopLimit: Annotated[
        int | None, field_meta("How far its answers travel.", minimum=1, maximum=64, format="int64")
    ] = None
    httpTokens: Annotated[
        str | None, field_meta("Whether a session token is needed.", enum=["optional", "required"])
    ] = None


LegacyThreshold = Annotated[str, field_meta(pattern=THRESHOLD_PATTERN, expected=EXPECTED_THRESHOLD)]


def _one_of_rules(keys: tuple[str, ...], what: str) -> list[dict[str, str]]:
    listed = ", ".join(f"'{key}'" for key in keys)
    return [cel_rule(f"self.all(k, k in [{listed}])", f"{what} is one of {', '.join(keys)}")]


LegacyReserved = Annotated[
    dict[
        str,
        Annotated[
            int | str,
            field_meta(
                pattern=NON_NEGATIVE_QUANTITY_PATTERN,
                expected=f"{EXPECTED_QUANTITY}, not negative",
                minimum=0,
                max_length=256,
            ),
        ],
    ],
    field_meta(
        "Kept from pods.", rules=_one_of_rules(RESERVABLE_RESOURCES, "what can be reserved")
    ),
]
LegacyThresholds = Annotated[
    dict[str, LegacyThreshold],
    field_meta(
        "Below this the kubelet evicts pods.",
        rules=_one_of_rules(EVICTION_SIGNALS, "an eviction signal"),
    ),
]
LegacyGracePeriods = Annotated[
    dict[str, str],
    field_meta(
        "How long a threshold may be crossed.",
        rules=_one_of_rules(EVICTION_SIGNALS, "an eviction signal"),
    ),
]


class BetaKubelet(WireStruct, frozen=True, kw_only=True):
    """Settings of the kubelet, as a NodePool of v1beta1 makes them."""

    SCHEMA: ClassVar[Schema] = {
        "x-kubernetes-validations": [
            cel_rule(
                "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) "
                "|| self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",
                "imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
                at=".imageGCHighThresholdPercent",
            )
        ]
    }

    clusterDNS: Annotated[list[str] | None, field_meta("Addresses of the cluster's DNS.")] = None
    maxPods: PodCount | None = None
    podsPerCore: PodCount | None = None
    systemReserved: LegacyReserved | None = None
    kubeReserved: LegacyReserved | None = None
    evictionHard: LegacyThresholds | None = None
    evictionSoft: LegacyThresholds | None = None
    evictionSoftGracePeriod: LegacyGracePeriods | None = None
    evictionMaxPodGracePeriod: Annotated[
        int | None, field_meta("The longest grace period at a soft eviction.", format="int32")
    ] = None
    imageGCHighThresholdPercent: Percent | None = None
    imageGCLowThresholdPercent: Percent | None = None
    cpuCFSQuota: Annotated[bool | None, field_meta("Whether cpu limits are enforced.")] = None


class NamedThresholds(WireStruct, frozen=True, kw_only=True):
    """Eviction thresholds with the signals spelt as fields."""

    memoryAvailable: LegacyThreshold | None = None
    nodefsAvailable: LegacyThreshold | None = None
    nodefsInodesFree: LegacyThreshold | None = None
    imagefsAvailable: LegacyThreshold | None = None
    imagefsInodesFree: LegacyThreshold | None = None
    pidAvailable: LegacyThreshold | None = None


SIGNAL_OF_FIELD: Final = {
    "memoryAvailable": "memory.available",
    "nodefsAvailable": "nodefs.available",
    "nodefsInodesFree": "nodefs.inodesFree",
    "imagefsAvailable": "imagefs.available",
    "imagefsInodesFree": "imagefs.inodesFree",
    "pidAvailable": "pid.available",
}


class EvictionThreshold(WireStruct, frozen=True, kw_only=True):
    """Hard and soft thresholds in one place, without grace periods."""

    hard: NamedThresholds | None = None
    soft: NamedThresholds | None = None


class AlphaKubelet(BetaKubelet, frozen=True, kw_only=True):
    """Settings of the kubelet, as a Provisioner makes them."""

    containerRuntime: Annotated[str | None, field_meta("dockerd or containerd.")] = None
    evictionThreshold: EvictionThreshold | None = None
