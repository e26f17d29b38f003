"""The content of a launch template, which alone determines its name."""

from base64 import b64decode
from typing import Any

import msgspec
import pytest
from tests.support import aws_account

from wainwright.api.karpenter.ec2nodeclass import (
    AMISelectorTerm,
    BlockDeviceMapping,
    CapacityReservationSelectorTerm,
    ConnectionTracking,
    CPUOptions,
    EBSVolume,
    EC2NodeClassSpec,
    MetadataOptions,
    NetworkInterface,
    SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
)
from wainwright.aws.launchtemplate.template_data import (
    LaunchTemplate,
    SharedTemplateSettings,
    TargetReservation,
    TemplateVariant,
    build_template,
    resized_block_devices,
)
from wainwright.aws.userdata.user_data import UserData
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily
from wainwright.errors import InvalidInputError

SPEC = EC2NodeClassSpec(
    amiSelectorTerms=[AMISelectorTerm(alias="al2023@latest")],
    subnetSelectorTerms=[SubnetSelectorTerm(id="subnet-1")],
    securityGroupSelectorTerms=[SecurityGroupSelectorTerm(id="sg-1")],
)
COMMON = SharedTemplateSettings(
    spec=SPEC,
    family=AmiFamily.AL2023,
    groups=("sg-2", "sg-1"),
    profile="wain_profile",
    tags={"team": "web", "eks:eks-cluster-name": "wain"},
    capacity_type="on-demand",
)
VARIANT = TemplateVariant(image="ami-1", user_data=UserData("hello"))
TERMS = [CapacityReservationSelectorTerm(tags={"team": "web"})]


def made(
    *, variant: TemplateVariant = VARIANT, spec: dict[str, Any] | None = None, **changes: Any
) -> LaunchTemplate:
    changed = msgspec.structs.replace(SPEC, **(spec or {}))
    return build_template(msgspec.structs.replace(COMMON, spec=changed, **changes), variant)


def data(**changes: Any) -> Any:
    return made(**changes).data


def check(found: LaunchTemplate) -> None:
    """Validates as botocore does before it sends a request."""
    request = {"LaunchTemplateName": found.name, "LaunchTemplateData": found.data}
    aws_account.check_params("ec2", "CreateLaunchTemplate", request)


def test_a_plain_class_sets_only_the_necessary_fields() -> None:
    found = made()
    check(found)
    assert found.data == {
        "ImageId": "ami-1",
        "UserData": "aGVsbG8=",
        "IamInstanceProfile": {"Name": "wain_profile"},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True},
            }
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": False},
        "EnclaveOptions": {"Enabled": False},
        "Placement": {"Tenancy": "default"},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}],
        "TagSpecifications": [
            {
                "ResourceType": "network-interface",
                "Tags": [
                    {"Key": "eks:eks-cluster-name", "Value": "wain"},
                    {"Key": "team", "Value": "web"},
                ],
            }
        ],
    }
    assert b64decode(found.data["UserData"]) == b"hello"


def test_a_class_with_all_fields_is_a_valid_ec2_request() -> None:
    found = made(
        spec={
            "blockDeviceMappings": [
                BlockDeviceMapping(
                    deviceName="/dev/xvda",
                    ebs=EBSVolume(
                        volumeSize="100Gi",
                        volumeType="io2",
                        snapshotID="snap-1",
                        encrypted=True,
                        kmsKeyID="key",
                        deleteOnTermination=True,
                        iops=3000,
                        throughput=125,
                        volumeInitializationRate=100,
                    ),
                )
            ],
            "networkInterfaces": [
                NetworkInterface(networkCardIndex=0, deviceIndex=0, interfaceType="interface"),
                NetworkInterface(networkCardIndex=1, deviceIndex=1, interfaceType="efa-only"),
            ],
            "ipPrefixCount": 2,
            "connectionTracking": ConnectionTracking(udpTimeout=30),
            "cpuOptions": CPUOptions(nestedVirtualization="enabled"),
            "detailedMonitoring": True,
            "capacityReservationSelectorTerms": TERMS,
        },
        variant=msgspec.structs.replace(
            VARIANT,
            reservation=TargetReservation(
                id="cr-1", available_count=1, reservation_type="capacity-block"
            ),
        ),
        ipv6=True,
        tenancy="dedicated",
        enclave=True,
        placement={"GroupId": "pg-1", "PartitionNumber": 2},
    )
    check(found)
    assert found.data["Monitoring"] == {"Enabled": True}
    assert found.data["EnclaveOptions"] == {"Enabled": True}
    assert found.data["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert found.data["Placement"] == {
        "Tenancy": "dedicated",
        "GroupId": "pg-1",
        "PartitionNumber": 2,
    }
    assert found.data["BlockDeviceMappings"][0]["Ebs"] == {
        "VolumeSize": 100,
        "VolumeType": "io2",
        "SnapshotId": "snap-1",
        "Encrypted": True,
        "KmsKeyId": "key",
        "DeleteOnTermination": True,
        "Iops": 3000,
        "Throughput": 125,
        "VolumeInitializationRate": 100,
    }


def sizes(family: AmiFamily) -> list[tuple[str, int]]:
    devices = data(family=family).get("BlockDeviceMappings", [])
    return [(each["DeviceName"], each["Ebs"]["VolumeSize"]) for each in devices]


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (AmiFamily.AL2, [("/dev/xvda", 20)]),
        (AmiFamily.AL2023, [("/dev/xvda", 20)]),
        (AmiFamily.BOTTLEROCKET, [("/dev/xvda", 4), ("/dev/xvdb", 20)]),
        (AmiFamily.WINDOWS2019, [("/dev/sda1", 50)]),
        (AmiFamily.WINDOWS2022, [("/dev/sda1", 50)]),
        (AmiFamily.WINDOWS2025, [("/dev/sda1", 50)]),
        (AmiFamily.CUSTOM, []),
    ],
)
def test_each_family_has_its_disks(family: AmiFamily, expected: list[tuple[str, int]]) -> None:
    assert sizes(family) == expected


@pytest.mark.parametrize(
    ("size", "gibibytes"), [("20Gi", 20), ("20G", 19), ("100G", 94), ("1Ti", 1024), ("1T", 932)]
)
def test_sizes_are_rounded_up_to_whole_gibibytes(size: str, gibibytes: int) -> None:
    disks = [BlockDeviceMapping(deviceName="/dev/xvda", ebs=EBSVolume(volumeSize=size))]
    assert data(spec={"blockDeviceMappings": disks})["BlockDeviceMappings"] == [
        {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": gibibytes}}
    ]


def test_a_disk_without_a_name_is_rejected() -> None:
    disks = [BlockDeviceMapping(ebs=EBSVolume(volumeSize="1Gi"))]
    with pytest.raises(InvalidInputError, match="deviceName"):
        made(spec={"blockDeviceMappings": disks})


GIB = 2**30


@pytest.mark.parametrize(
    ("family", "device"),
    [(AmiFamily.AL2023, "/dev/xvda"), (AmiFamily.BOTTLEROCKET, "/dev/xvdb")],
)
def test_the_disk_of_the_pods_grows_for_a_type(family: AmiFamily, device: str) -> None:
    found = {
        each["DeviceName"]: each["Ebs"]["VolumeSize"]
        for each in resized_block_devices(SPEC, family, 60 * GIB + 1)
    }
    assert found.pop(device) == 61
    assert all(size == 4 for size in found.values())


def test_the_disk_that_the_class_calls_root_holds_the_pods() -> None:
    disks = [
        BlockDeviceMapping(deviceName="/dev/a", ebs=EBSVolume(volumeSize="5Gi")),
        BlockDeviceMapping(deviceName="/dev/b", ebs=EBSVolume(volumeSize="6Gi"), rootVolume=True),
        BlockDeviceMapping(deviceName="/dev/c", ebs=EBSVolume(volumeSize="7Gi")),
    ]
    spec = msgspec.structs.replace(SPEC, blockDeviceMappings=disks)
    found = resized_block_devices(spec, AmiFamily.CUSTOM, 9 * GIB)
    assert [each["Ebs"]["VolumeSize"] for each in found] == [5, 9, 7]
    assert resized_block_devices(SPEC, AmiFamily.CUSTOM, 9 * GIB) == []


def interfaces(**changes: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data(**changes)["NetworkInterfaces"]
    for each in found:
        assert each.pop("Groups") == ["sg-1", "sg-2"]
    return found


@pytest.mark.parametrize("flag", [True, False])
def test_a_public_address_is_set_only_if_the_class_sets_it(flag: bool) -> None:
    found = interfaces(spec={"associatePublicIPAddress": flag})
    assert found == [{"DeviceIndex": 0, "AssociatePublicIpAddress": flag}]


@pytest.mark.parametrize(
    ("ipv6", "expected"),
    [
        (False, {"Ipv4PrefixCount": 3}),
        (True, {"Ipv6PrefixCount": 3, "Ipv6AddressCount": 1, "PrimaryIpv6": True}),
    ],
)
def test_prefixes_have_the_ip_family_of_the_cluster(ipv6: bool, expected: dict[str, Any]) -> None:
    assert interfaces(spec={"ipPrefixCount": 3}, ipv6=ipv6) == [{"DeviceIndex": 0} | expected]


def test_each_efa_interface_has_a_card_of_its_own() -> None:
    variant = msgspec.structs.replace(VARIANT, efa=3)
    # EC2 rejects a public address with several interfaces.
    found = interfaces(variant=variant, spec={"associatePublicIPAddress": True})
    assert found == [
        {"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa"},
        {"NetworkCardIndex": 1, "DeviceIndex": 1, "InterfaceType": "efa"},
        {"NetworkCardIndex": 2, "DeviceIndex": 1, "InterfaceType": "efa"},
    ]


def test_interfaces_of_the_class_are_attached_as_listed() -> None:
    listed = [
        NetworkInterface(networkCardIndex=1, deviceIndex=1, interfaceType="efa-only"),
        NetworkInterface(networkCardIndex=0, deviceIndex=0, interfaceType="interface"),
    ]
    tracking = ConnectionTracking(tcpEstablishedTimeout=600, udpStreamTimeout=90)
    found = interfaces(
        spec={"networkInterfaces": listed, "connectionTracking": tracking, "ipPrefixCount": 1}
    )
    timeouts = {"TcpEstablishedTimeout": 600, "UdpStreamTimeout": 90}
    assert found == [
        {
            "NetworkCardIndex": 0,
            "DeviceIndex": 0,
            "InterfaceType": "interface",
            "Ipv4PrefixCount": 1,
            "ConnectionTrackingSpecification": timeouts,
        },
        {"NetworkCardIndex": 1, "DeviceIndex": 1, "InterfaceType": "efa-only"},
    ]


def test_metadata_options_are_those_of_the_class() -> None:
    options = MetadataOptions(
        httpEndpoint="disabled",
        httpProtocolIPv6="enabled",
        httpPutResponseHopLimit=2,
        httpTokens="optional",
    )
    found = data(spec={"metadataOptions": options}, isolated_region=True)["MetadataOptions"]
    assert found == {
        "HttpEndpoint": "disabled",
        "HttpProtocolIpv6": "enabled",
        "HttpPutResponseHopLimit": 2,
        "HttpTokens": "optional",
    }


def test_a_spot_request_is_tagged_as_well() -> None:
    found = data(capacity_type="spot")["TagSpecifications"]
    assert [each["ResourceType"] for each in found] == [
        "network-interface",
        "spot-instances-request",
    ]


HELD = TargetReservation(id="cr-1", available_count=2)
ONLY = {
    "CapacityReservationPreference": "capacity-reservations-only",
    "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
}
NONE = {"CapacityReservationPreference": "none"}


@pytest.mark.parametrize(
    ("terms", "gate", "reservation", "expected"),
    [
        (TERMS, True, HELD, ONLY),
        (TERMS, True, None, NONE),
        (None, True, None, None),
        ([], True, None, None),
        (TERMS, False, None, None),
        (None, False, None, None),
    ],
)
def test_only_classes_that_select_reservations_have_a_reservation_specification(
    terms: list[CapacityReservationSelectorTerm] | None,
    gate: bool,
    reservation: TargetReservation | None,
    expected: dict[str, Any] | None,
) -> None:
    variant = msgspec.structs.replace(VARIANT, reservation=reservation)
    found = data(
        variant=variant,
        spec={"capacityReservationSelectorTerms": terms},
        reservations_on=gate,
    )
    assert found.get("CapacityReservationSpecification") == expected


@pytest.mark.parametrize(
    ("reservation", "market_type"),
    [
        (None, None),
        (HELD, None),
        (
            TargetReservation(id="cr-1", available_count=1, reservation_type="capacity-block"),
            "capacity-block",
        ),
        (
            TargetReservation(id="cr-1", available_count=1, interruptible=True),
            "interruptible-capacity-reservation",
        ),
    ],
)
def test_blocks_and_interruptible_reservations_have_their_own_market_type(
    reservation: TargetReservation | None, market_type: str | None
) -> None:
    found = data(variant=msgspec.structs.replace(VARIANT, reservation=reservation))
    options = None if market_type is None else {"MarketType": market_type}
    assert found.get("InstanceMarketOptions") == options


def test_the_name_follows_from_the_content() -> None:
    one = made()
    assert one.name.startswith("karpenter.k8s.aws/")
    assert one.name == made(groups=("sg-1", "sg-2")).name
    assert one.name == made(tags=dict(reversed(dict(COMMON.tags).items()))).name
    others = [
        made(tags={"team": "ops"}),
        made(groups=("sg-1",)),
        made(capacity_type="spot"),
        made(variant=msgspec.structs.replace(VARIANT, image="ami-2")),
        made(variant=msgspec.structs.replace(VARIANT, user_data=UserData("other"))),
        made(variant=msgspec.structs.replace(VARIANT, reservation=HELD)),
        made(spec={"detailedMonitoring": True}),
    ]
    assert len({one.name, *(each.name for each in others)}) == len(others) + 1


def test_empty_user_data_is_omitted() -> None:
    assert "UserData" not in data(variant=TemplateVariant(image="ami-1", user_data=UserData("")))
