"""Instances boot from user data of launch and provider, with their actual capacity."""

import string
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.emulator_accounts import CheckedAccount
from tests.support.node_boot import boot_node

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.api.quantity import parse_quantity
from wainwright.aws.launchtemplate.launch_templates import launch_instance_type
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import MAX_PODS_LOOKUP_FAMILIES, build_user_data
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import (
    compute_memory,
    derive_resources,
    to_node_resources,
)
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    CatalogOptions,
    InstanceStorePolicy,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.catalogue.instancetypes.node_class_settings import KubeletSettings as Planned
from wainwright.emulator.boot.node_boot import BootedNode, NodeBooter, actual_memory
from wainwright.emulator.boot.user_data import BootFailure, BootFailureReason
from wainwright.emulator.ec2.instance.lifecycle import Instance, InstanceTimings
from wainwright.emulator.settings import EmulatorSettings
from wainwright.model.requirements import Requirements
from wainwright.model.taints import UNREGISTERED_TAINT, Taint


def node_booter(account: CheckedAccount) -> NodeBooter:
    parts = account.cloud.services
    return NodeBooter(
        region=parts.context.region,
        instance_types=instance_type_info.built_in_instance_types(),
        instances=parts.instances,
        images=parts.images,
        eks=parts.eks,
    )


def config(account: CheckedAccount, **changed: str) -> str:
    cluster = account.call_service("eks", "DescribeCluster", {"name": "wain"})["cluster"]
    known = {
        "name": "wain",
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
    }
    lines = [f"    {key}: {value}" for key, value in (known | changed).items()]
    head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n"
    return head + "\n".join(lines)


def image(account: CheckedAccount, folder: str = "amazon-linux-2023/x86_64/standard") -> str:
    name = f"/aws/service/eks/optimized-ami/1.32/{folder}/recommended/image_id"
    return str(account.call_service("ssm", "GetParameter", {"Name": name})["Parameter"]["Value"])


def launched(
    account: CheckedAccount, text: str | None, folder: str | None = None, **more: Any
) -> Instance:
    params: dict[str, Any] = {
        "ImageId": image(account) if folder is None else image(account, folder),
        "InstanceType": "m5.large",
        "MinCount": 1,
        "MaxCount": 1,
    }
    params |= more
    if text is not None:
        params["UserData"] = b64encode(text.encode()).decode()
    (row,) = account.call("RunInstances", **params)["Instances"]
    created = account.cloud.services.instances.get(row["InstanceId"])
    assert created is not None
    return created


def test_an_instance_joins_the_cluster_of_its_user_data() -> None:
    account = CheckedAccount()
    instance = launched(account, config(account))
    node = node_booter(account).outcome(instance)
    assert isinstance(node, BootedNode)
    assert node.cluster_name == "wain"
    assert node.capacity["cpu"] == 2000
    assert node.capacity["ephemeral-storage"] == 20 * 2**30


def disk(device: str = "/dev/xvda", **content: Any) -> dict[str, Any]:
    return {"DeviceName": device, "Ebs": content}


def storage(account: CheckedAccount, instance: Instance) -> int:
    node = node_booter(account).outcome(instance)
    assert isinstance(node, BootedNode), node
    return node.capacity["ephemeral-storage"] // 2**30


@pytest.mark.parametrize(
    ("disks", "gib"),
    [
        ([disk(VolumeSize=80)], 80),
        ([disk(VolumeSize=80), disk("/dev/xvdb", VolumeSize=500)], 80),
        ([disk(Encrypted=True)], 20),
        ([disk("/dev/xvdb", VolumeSize=500)], 20),
    ],
)
def test_ephemeral_storage_is_the_volume_size_of_the_launch(disks: list[Any], gib: int) -> None:
    account = CheckedAccount()
    instance = launched(account, config(account), BlockDeviceMappings=disks)
    assert storage(account, instance) == gib


@pytest.mark.parametrize(
    ("template", "override", "gib"),
    [
        (None, None, 20),
        ([disk(VolumeSize=30)], None, 30),
        ([disk(VolumeSize=30)], [disk(VolumeSize=90)], 90),
        ([disk(VolumeSize=30)], [disk(Encrypted=True)], 30),
        ([disk(VolumeSize=30)], [disk("/dev/xvdb", VolumeSize=90)], 30),
        (None, [disk(VolumeSize=90)], 90),
    ],
)
def test_an_override_merges_block_devices_with_its_template(
    template: list[Any] | None, override: list[Any] | None, gib: int
) -> None:
    account = CheckedAccount()
    data: dict[str, Any] = {
        "ImageId": image(account),
        "UserData": b64encode(config(account).encode()).decode(),
    }
    data |= {} if template is None else {"BlockDeviceMappings": template}
    account.call("CreateLaunchTemplate", LaunchTemplateName="mine", LaunchTemplateData=data)
    capacity_pool: dict[str, Any] = {"InstanceType": "m5.large", "AvailabilityZone": "us-east-1a"}
    capacity_pool |= {} if override is None else {"BlockDeviceMappings": override}
    named = {"LaunchTemplateName": "mine", "Version": "$Latest"}
    response = account.call(
        "CreateFleet",
        Type="instant",
        TargetCapacitySpecification={
            "TotalTargetCapacity": 1,
            "DefaultTargetCapacityType": "on-demand",
        },
        LaunchTemplateConfigs=[
            {"LaunchTemplateSpecification": named, "Overrides": [capacity_pool]}
        ],
    )
    instance = account.cloud.services.instances.get(response["Instances"][0]["InstanceIds"][0])
    assert instance is not None
    assert storage(account, instance) == gib


def test_block_devices_do_not_change_when_the_image_is_deregistered() -> None:
    account = CheckedAccount()
    mine = account.call(
        "RegisterImage",
        Name="mine",
        Architecture="x86_64",
        BlockDeviceMappings=[disk(VolumeSize=44)],
    )["ImageId"]
    instance = launched(account, config(account), ImageId=mine)
    account.call("DeregisterImage", ImageId=mine)
    assert storage(account, instance) == 44


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "other"}, BootFailureReason.OTHER_CLUSTER),
        ({"apiServerEndpoint": "https://nowhere"}, BootFailureReason.OTHER_CLUSTER),
        ({"cidr": "''"}, BootFailureReason.NO_CLUSTER),
    ],
)
def test_an_instance_with_a_wrong_cluster_never_joins(
    changed: dict[str, str], reason: BootFailureReason
) -> None:
    account = CheckedAccount()
    outcome = node_booter(account).outcome(launched(account, config(account, **changed)))
    assert isinstance(outcome, BootFailure)
    assert outcome.reason is reason


def test_without_user_data_or_with_the_wrong_image_an_instance_never_joins() -> None:
    account = CheckedAccount()
    bare = node_booter(account).outcome(launched(account, None))
    other = node_booter(account).outcome(launched(account, config(account), "amazon-linux-2"))
    assert isinstance(bare, BootFailure)
    assert isinstance(other, BootFailure)
    assert (bare.reason, other.reason) == (BootFailureReason.NOTHING, BootFailureReason.WRONG_IMAGE)


def test_an_instance_that_never_comes_up_never_joins() -> None:
    account = CheckedAccount(
        settings=EmulatorSettings(timings=InstanceTimings(never_join_rate=1.0))
    )
    outcome = node_booter(account).outcome(launched(account, config(account)))
    assert isinstance(outcome, BootFailure)
    assert outcome.reason is BootFailureReason.NEVER_JOINS


CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: p, apiServerEndpoint: https://api, certificateAuthority: Q0E=, cidr: 10.0.0.0/8}
"""
INSTANCE_TYPES = instance_type_info.built_in_instance_types()


def test_actual_memory_deviates_from_the_estimate_in_both_directions() -> None:
    share = CatalogOptions().vm_memory_overhead
    off = {
        name: actual_memory(instance) / compute_memory(instance, share).amount
        for name, instance in INSTANCE_TYPES.items()
    }
    assert all(0.99 < ratio < 1.02 for ratio in off.values())
    fewer = sum(ratio < 1 for ratio in off.values()) / len(off)
    assert 0.05 < fewer < 0.25
    assert sum(ratio == 1 for ratio in off.values()) == 0
    assert len({round(ratio, 4) for ratio in off.values()}) > 100


def test_actual_memory_is_constant_and_below_the_nominal_size() -> None:
    for instance in INSTANCE_TYPES.values():
        found = actual_memory(instance)
        assert found == actual_memory(instance)
        assert found % 1024 == 0
        assert 0 < found < instance.memory_mib * 2**20


@pytest.mark.parametrize(
    "name", ["m5.xlarge", "t3.nano", "c6g.16xlarge", "m5.metal", "p5.48xlarge"]
)
def test_all_resources_except_memory_equal_the_estimate(name: str) -> None:
    node = boot_node(CONFIG, name)
    estimate = derive_resources(INSTANCE_TYPES[name], NodeClassSettings())
    allocatable = estimate.allocatable()
    for resource in ("cpu", "pods", "ephemeral-storage"):
        assert node.capacity[resource] == estimate.capacity[resource].amount
        assert node.allocatable[resource] == allocatable[resource]
    stored = node.capacity["memory"] - node.allocatable["memory"]
    assert stored == estimate.capacity["memory"].amount - allocatable["memory"]


def test_every_instance_type_boots_with_a_minimal_node_config() -> None:
    for name in list(INSTANCE_TYPES)[::7]:
        node = boot_node(CONFIG, name)
        assert all(amount >= 0 for amount in node.allocatable.values())


def test_local_disks_are_used_only_if_striped_and_present() -> None:
    striped = CONFIG + "  instance: {localStorage: {strategy: RAID0}}\n"
    assert boot_node(CONFIG, "m5d.xlarge").capacity["ephemeral-storage"] == 20 * 2**30
    assert boot_node(striped, "m5d.xlarge").capacity["ephemeral-storage"] == 150 * 10**9
    assert boot_node(striped, "m5.xlarge").capacity["ephemeral-storage"] == 20 * 2**30
    assert boot_node(CONFIG, disks={"/dev/xvda": 33}).capacity["ephemeral-storage"] == 33 * 2**30


def test_soft_eviction_thresholds_do_not_reduce_allocatable() -> None:
    soft = (
        "  kubelet: {config: {evictionSoft: {memory.available: 2Gi}, "
        "evictionSoftGracePeriod: {memory.available: 1m}}}\n"
    )
    assert boot_node(CONFIG + soft).allocatable == boot_node(CONFIG).allocatable
    off = "  kubelet: {config: {evictionHard: {memory.available: 100%}}}\n"
    more = boot_node(CONFIG + off).allocatable["memory"] - boot_node(CONFIG).allocatable["memory"]
    assert more == 100 * 2**20


IMAGES = {
    AmiFamily.AL2: "amazon-eks-node-1.32-v20251120",
    AmiFamily.AL2023: "amazon-eks-node-al2023-x86_64-standard-1.36-v20251218",
    AmiFamily.BOTTLEROCKET: "bottlerocket-aws-k8s-1.36-x86_64-v1.51.0-abcdef01",
    AmiFamily.WINDOWS2022: "Windows_Server-2022-English-Core-EKS_Optimized-1.36-2025.12.18",
}
FAMILIES = list(IMAGES)
TYPES = ("m5.large", "m5.xlarge", "c5.2xlarge", "m5d.xlarge")

letters = string.ascii_letters + string.digits
names = st.text(letters, min_size=1, max_size=5)
words = st.builds(
    lambda first, middle, last: first + middle + last,
    names,
    st.text(letters + "._-", max_size=5),
    names,
)
keys = st.one_of(words, words.map(lambda word: f"example.com/{word}"))
taints = st.builds(
    Taint,
    key=keys,
    value=st.one_of(st.just(""), words),
    effect=st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
sizes = st.sampled_from(["128Mi", "0.1Gi", "64M"])
reserved = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["10m", "0.5"]),
        "memory": sizes,
        "ephemeral-storage": sizes,
    },
)
thresholds = st.dictionaries(
    st.sampled_from(["memory.available", "nodefs.available", "imagefs.available"]),
    st.sampled_from(["5%", "7.5%", "200Mi"]),
)


@st.composite
def kubelet_configurations(draw: st.DrawFn) -> KubeletConfiguration:
    soft = draw(thresholds)
    return KubeletConfiguration(
        kubeReserved=draw(reserved),
        systemReserved=draw(reserved),
        evictionHard=draw(thresholds),
        evictionSoft=soft,
        evictionSoftGracePeriod=dict.fromkeys(soft, "1m30s"),
        clusterDNS=draw(st.sampled_from([None, ["10.100.0.10"]])),
    )


bootstraps = st.builds(
    BootstrapOptions,
    cluster=words,
    endpoint=st.just("https://api.example.com"),
    ca=st.just("Q0E="),
    service_cidr=st.just("10.100.0.0/16"),
    kubelet=kubelet_configurations(),
    labels=st.dictionaries(keys, st.one_of(st.just(""), words), max_size=5),
    taints=st.lists(taints, max_size=3).map(tuple),
    startup_taints=st.lists(taints, max_size=2).map(tuple),
    instance_store=st.sampled_from([None, InstanceStorePolicy.RAID0]),
    max_pods=st.sampled_from([None, 10, 200]),
    max_pods_by_type=st.dictionaries(st.sampled_from(TYPES), st.integers(4, 250)),
)


def amounts(values: dict[str, str] | None) -> dict[str, int]:
    return {
        name: parse_quantity(text).milli if name == "cpu" else parse_quantity(text).units
        for name, text in (values or {}).items()
    }


def boot(family: AmiFamily, bootstrap: BootstrapOptions, kind: str = "m5.xlarge") -> Any:
    return boot_node(build_user_data(family, bootstrap).text, kind, image_name=IMAGES[family])


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40)
@given(written=bootstraps, kind=st.sampled_from(TYPES))
def test_every_kubelet_setting_reaches_the_node(
    family: AmiFamily, written: BootstrapOptions, kind: str
) -> None:
    node = boot(family, written, kind)
    kubelet = written.kubelet
    assert (node.cluster_name, node.endpoint) == (written.cluster, written.endpoint)
    assert node.labels == {**written.labels, "karpenter.sh/do-not-sync-taints": "true"}
    assert {(each.key, each.effect) for each in node.taints} == {
        (each.key, each.effect)
        for each in (*written.taints, *written.startup_taints, UNREGISTERED_TAINT)
    }
    assert node.system_reserved == amounts(kubelet.systemReserved)
    assert node.kube_reserved.items() >= amounts(kubelet.kubeReserved).items()
    assert node.eviction_hard.items() >= (kubelet.evictionHard or {}).items()
    assert node.eviction_soft == kubelet.evictionSoft
    assert node.eviction_soft_grace == kubelet.evictionSoftGracePeriod
    if kubelet.clusterDNS:
        assert node.dns == ("10.100.0.10",)
    if family is not AmiFamily.WINDOWS2022:
        assert node.local_disks == (written.instance_store is not None)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40)
@given(written=bootstraps, kind=st.sampled_from(TYPES))
def test_a_node_has_the_max_pods_of_its_instance_type(
    family: AmiFamily, written: BootstrapOptions, kind: str
) -> None:
    expected = written.max_pods_by_type.get(kind, written.max_pods)
    if family not in MAX_PODS_LOOKUP_FAMILIES:
        expected = written.max_pods
    if expected is not None:
        assert boot(family, written, kind).max_pods == expected


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023])
@pytest.mark.parametrize("pods", [8, 58, 200])
@pytest.mark.parametrize("max_pods", [None, 20])
@pytest.mark.parametrize("own", [{}, {"cpu": "300m"}, {"memory": "1Gi"}])
def test_a_node_reserves_what_was_planned(
    family: AmiFamily, pods: int, max_pods: int | None, own: dict[str, str]
) -> None:
    """With or without an InstanceType object that sets max pods."""
    reserved = {name: parse_quantity(text) for name, text in own.items()}
    planned = Planned(max_pods=max_pods, kube_reserved=reserved)
    used = NodeClassSettings(ami_family=family, kubelet=planned)
    instance = instance_type_info.built_in_instance_types()["m5.xlarge"]
    held = to_node_resources(
        derive_resources(instance, used, ResourceOverride(resources={"pods": pods}))
    )
    created = launch_instance_type(instance, held, Requirements.from_labels({}), used)
    written = BootstrapOptions(
        cluster="prod",
        endpoint="https://api.example.com",
        ca="Q0E=",
        service_cidr="10.100.0.0/16",
        kubelet=KubeletConfiguration(kubeReserved=own),
        max_pods=max_pods,
        max_pods_by_type={"m5.xlarge": created.max_pods, "t3.nano": 4},
        kube_reserved_by_type={"m5.xlarge": created.kube_reserved} if created.kube_reserved else {},
    )
    node = boot(family, written)
    expected = {name: each.amount for name, each in held.derived.overhead.kube_reserved.items()}
    assert node.kube_reserved["memory"] == expected["memory"]
    if family is AmiFamily.AL2023 or created.kube_reserved:
        assert node.kube_reserved == expected
    assert node.max_pods == min(pods, max_pods or pods)


@pytest.mark.parametrize("family", FAMILIES)
def test_kubelet_settings_of_the_user_are_kept(family: AmiFamily) -> None:
    own = {
        AmiFamily.AL2023: (
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: "
            "{podsPerCore: 2}, flags: ['--node-labels=own=1']}}\n"
        ),
        AmiFamily.BOTTLEROCKET: '[settings.kubernetes.node-labels]\nown = "1"\n',
    }.get(family, "echo hello")
    written = BootstrapOptions(
        cluster="prod",
        endpoint="https://x",
        ca="Q0E=",
        service_cidr="10.0.0.0/8",
        custom_user_data=own,
    )
    node = boot(family, written)
    if family in (AmiFamily.AL2023, AmiFamily.BOTTLEROCKET):
        assert node.labels["own"] == "1"
    if family is AmiFamily.AL2023:
        assert node.capacity["pods"] == 8
