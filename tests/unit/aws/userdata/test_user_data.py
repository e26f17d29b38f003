"""User data as EC2 takes it and as instances boot with it; that of Windows and of custom images."""

import re
import shlex
from base64 import b64decode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.aws.launchtemplate.launch_templates import launch_instance_type
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import (
    MAX_USER_DATA_BYTES,
    USER_DATA_BUILDERS,
    UserData,
    UserDataTooLarge,
    build_user_data,
)
from wainwright.catalogue.instancetypes import instance_type_info
from wainwright.catalogue.instancetypes.capacity import derive_resources, to_node_resources
from wainwright.catalogue.instancetypes.max_pods import compute_max_pods
from wainwright.catalogue.instancetypes.node_class_settings import (
    AmiFamily,
    InstanceStorePolicy,
    NodeClassSettings,
    ResourceOverride,
)
from wainwright.emulator.boot.node_boot import BootedNode, boot_from_user_data
from wainwright.emulator.boot.user_data import InstanceFacts
from wainwright.model.requirements import Requirements
from wainwright.model.taints import Taint

CUSTOM_OPTIONS = BootstrapOptions(
    cluster="wain",
    endpoint="https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com",
    ca="A" * 1500,
    service_cidr="10.100.0.0/16",
    labels={f"example.com/label-{n}": f"value-{n}" for n in range(20)},
)

NONE = Requirements.from_labels({})


def changed(**changes: Any) -> BootstrapOptions:
    return msgspec.structs.replace(CUSTOM_OPTIONS, **changes)


def test_a_custom_image_gets_the_users_text_as_it_is() -> None:
    text = "\n\tany <text> & 'quotes' \r\n"
    assert build_user_data(AmiFamily.CUSTOM, changed(custom_user_data=text)).text == text
    assert build_user_data(AmiFamily.CUSTOM, CUSTOM_OPTIONS).text == ""


def test_every_family_that_we_launch_has_user_data() -> None:
    """Nodes of EKS Auto Mode are planned only: EKS launches them."""
    assert set(AmiFamily) - set(USER_DATA_BUILDERS) == {AmiFamily.AUTO_MODE}


@pytest.mark.parametrize("family", USER_DATA_BUILDERS)
def test_encoding_preserves_the_text(family: AmiFamily) -> None:
    text = "" if family is AmiFamily.BOTTLEROCKET else "# größer\n"
    made = build_user_data(family, changed(custom_user_data=text))
    assert b64decode(made.encoded).decode() == made.text
    assert made.size == len(b64decode(made.encoded))


def test_the_size_limit_is_in_bytes() -> None:
    largest = build_user_data(
        AmiFamily.CUSTOM, changed(custom_user_data="ü" * (MAX_USER_DATA_BYTES // 2))
    )
    assert largest.size == MAX_USER_DATA_BYTES
    with pytest.raises(UserDataTooLarge, match=r"16,386 bytes, and EC2 allows 16,384"):
        build_user_data(
            AmiFamily.CUSTOM, changed(custom_user_data="ü" * (MAX_USER_DATA_BYTES // 2 + 1))
        )


@pytest.mark.parametrize(
    ("size", "warned"), [(14_000, False), (14_745, True), (MAX_USER_DATA_BYTES, True)]
)
def test_user_data_above_nine_tenths_of_the_limit_gets_a_warning(size: int, warned: bool) -> None:
    assert bool(UserData("x" * size).warnings) is warned


def test_the_error_states_the_size_of_the_users_part() -> None:
    with pytest.raises(UserDataTooLarge, match="16,000 of them are the class's own userData"):
        build_user_data(AmiFamily.AL2023, changed(custom_user_data="#" * 16_000))


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.WINDOWS2022])
def test_the_table_has_room_for_every_type_of_an_architecture(family: AmiFamily) -> None:
    settings = NodeClassSettings(ami_family=AmiFamily.AL2023)
    max_pods_by_type = {
        each.name: compute_max_pods(each, settings).amount
        for each in instance_type_info.built_in_instance_types().values()
        if each.architecture == "amd64"
    }
    assert build_user_data(family, changed(max_pods_by_type=max_pods_by_type)).size < 11_000


@pytest.mark.parametrize(("family", "objects"), [(AmiFamily.AL2, 90), (AmiFamily.AL2023, 180)])
def test_the_table_has_room_for_many_instance_type_objects(family: AmiFamily, objects: int) -> None:
    settings = NodeClassSettings(ami_family=family)
    infos = [
        each
        for each in instance_type_info.built_in_instance_types().values()
        if each.architecture == "amd64"
    ]
    made = {}
    for number, each in enumerate(infos):
        override = ResourceOverride(resources={"pods": 5 + number} if number < objects else {})
        made[each.name] = launch_instance_type(
            each, to_node_resources(derive_resources(each, settings, override)), NONE, settings
        )
    options = changed(
        max_pods_by_type={name: each.max_pods for name, each in made.items()},
        kube_reserved_by_type={
            name: each.kube_reserved for name, each in made.items() if each.kube_reserved
        },
    )
    assert len(options.kube_reserved_by_type) == objects
    assert build_user_data(family, options).size < MAX_USER_DATA_BYTES


ALL = [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.BOTTLEROCKET, AmiFamily.WINDOWS2022]
SCRIPTED = [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.WINDOWS2022]
BOOT_OPTIONS = BootstrapOptions(
    cluster="wain",
    endpoint="https://wain.example.com",
    ca="Y2E=",
    service_cidr="10.100.0.0/16",
    dns_ip="10.100.0.10",
    labels={"team": "web", "kubernetes.io/arch": "amd64"},
)
DO_NOT_SYNC = {"karpenter.sh/do-not-sync-taints": "true"}
UNREGISTERED = Taint(key="karpenter.sh/unregistered", effect="NoExecute")


def booted(family: AmiFamily, name: str = "m5.xlarge", **changes: Any) -> BootedNode:
    instance_facts = InstanceFacts(
        type_info=instance_type_info.built_in_instance_types()[name],
        instance_id="i-1",
        region="us-east-1",
        zone="us-east-1a",
        zone_id="use1-az1",
        private_dns="ip-10-0-0-1.ec2.internal",
    )
    made = boot_from_user_data(
        build_user_data(family, msgspec.structs.replace(BOOT_OPTIONS, **changes)).text,
        instance_facts,
    )
    assert isinstance(made, BootedNode), made
    return made


@pytest.mark.parametrize("family", ALL)
def test_the_node_joins_its_cluster(family: AmiFamily) -> None:
    found = booted(family)
    assert (found.cluster_name, found.endpoint) == ("wain", "https://wain.example.com")
    assert found.labels == {"team": "web"} | DO_NOT_SYNC
    assert found.taints == (UNREGISTERED,)
    assert found.dns == ("10.100.0.10",)


@pytest.mark.parametrize("family", ALL)
def test_the_kubelet_gets_the_settings_of_the_class(family: AmiFamily) -> None:
    settings = KubeletConfiguration(
        kubeReserved={"cpu": "300m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        systemReserved={"memory": "200Mi"},
        evictionHard={"memory.available": "5%", "nodefs.available": "15%"},
        evictionSoft={"memory.available": "1Gi"},
        evictionSoftGracePeriod={"memory.available": "1m30s"},
    )
    found = booted(family, kubelet=settings, max_pods=42)
    assert found.max_pods == 42
    assert found.kube_reserved == {
        "cpu": 300,
        "memory": 2**30,
        "ephemeral-storage": 2 * 2**30,
    }
    assert found.system_reserved == {"memory": 200 * 2**20}
    assert found.eviction_hard.items() >= {("memory.available", "5%"), ("nodefs.available", "15%")}
    assert found.eviction_soft == settings.evictionSoft
    assert found.eviction_soft_grace == settings.evictionSoftGracePeriod


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.BOTTLEROCKET])
@pytest.mark.parametrize("policy", [None, InstanceStorePolicy.RAID0])
def test_the_raid0_policy_puts_pods_on_local_disks(
    family: AmiFamily, policy: InstanceStorePolicy | None
) -> None:
    assert booted(family, instance_store=policy).local_disks is (policy is not None)


MIXED = {"m5.large": 29, "c5.large": 29, "t3.large": 35, "m5.xlarge": 58, "t3.nano": 4}


@pytest.mark.parametrize("family", SCRIPTED)
@pytest.mark.parametrize(("name", "pods"), [*MIXED.items(), ("r5.large", 29), ("r5.4xlarge", 4)])
def test_each_type_gets_its_own_max_pods(family: AmiFamily, name: str, pods: int) -> None:
    assert booted(family, name, max_pods_by_type=MIXED).max_pods == pods


@pytest.mark.parametrize("family", SCRIPTED)
def test_a_user_script_does_not_change_our_settings(family: AmiFamily) -> None:
    text = "max_pods=1\n$MaxPods = '1'\necho done\n"
    assert booted(family, custom_user_data=text, max_pods_by_type=MIXED).max_pods == 58


WORD = st.from_regex(
    re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", re.ASCII), fullmatch=True
)
LABELS = st.dictionaries(
    st.builds(lambda domain, name: f"{domain}{name}", st.sampled_from(["", "example.com/"]), WORD),
    WORD | st.just(""),
    max_size=4,
)
TAINTS = st.lists(
    st.builds(
        lambda key, value, effect: Taint(key=key, value=value, effect=effect),
        WORD,
        WORD | st.just(""),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    max_size=4,
    unique_by=lambda taint: (taint.key, taint.effect),
)


@given(st.sampled_from(ALL), LABELS, TAINTS, TAINTS, st.none() | st.integers(1, 250))
def test_every_valid_label_and_taint_survives(
    family: AmiFamily,
    labels: dict[str, str],
    taints: list[Taint],
    startup: list[Taint],
    max_pods: int | None,
) -> None:
    found = booted(
        family,
        labels=labels,
        taints=tuple(taints),
        startup_taints=tuple(startup),
        max_pods=max_pods,
    )
    assert found.labels == labels | DO_NOT_SYNC
    wanted = {(each.key, each.effect): each for each in (*startup, *taints, UNREGISTERED)}
    assert set(found.taints) == set(wanted.values())
    assert max_pods is None or found.max_pods == max_pods


WINDOWS_OPTIONS = BootstrapOptions(
    cluster="wain", endpoint="https://wain.example.com", ca="Y2E=", labels={"team": "web"}
)
ARGUMENT = re.compile(r"-(?P<name>\w+) \(?'(?P<value>(?:[^']|'')*)'(?P<more> \+ \"[^\"]*\"\))?")


def written(**changes: Any) -> str:
    return build_user_data(
        AmiFamily.WINDOWS2022, msgspec.structs.replace(WINDOWS_OPTIONS, **changes)
    ).text


def called(text: str) -> dict[str, str]:
    """The arguments of the call; what is added to one in double quotes follows it."""
    (line,) = (each for each in text.splitlines() if each.startswith("& $EKSBootstrapScriptFile"))
    return {
        found["name"]: found["value"].replace("''", "'") + (found["more"] or "")[4:-2]
        for found in ARGUMENT.finditer(line)
    }


def kubelet(text: str) -> dict[str, str]:
    words = shlex.split(called(text)["KubeletExtraArgs"])
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def test_the_node_gets_its_cluster_settings() -> None:
    found = called(written(dns_ip="10.100.0.10"))
    del found["KubeletExtraArgs"]
    assert found == {
        "EKSClusterName": "wain",
        "APIServerEndpoint": "https://wain.example.com",
        "Base64ClusterCA": "Y2E=",
        "DNSClusterIP": "10.100.0.10",
    }


def test_kubelet_settings_become_flags() -> None:
    given_ = KubeletConfiguration(
        kubeReserved={"memory": "1Gi", "cpu": "1"}, evictionHard={"memory.available": "5%"}
    )
    found = kubelet(
        written(kubelet=given_, taints=(Taint(key="os", value="windows"),), max_pods=50)
    )
    assert found == {
        "--kube-reserved": "cpu=1,memory=1Gi",
        "--eviction-hard": "memory.available<5%",
        "--node-labels": "karpenter.sh/do-not-sync-taints=true,team=web",
        "--register-with-taints": "karpenter.sh/unregistered=:NoExecute,os=windows:NoSchedule",
        "--max-pods": "50",
    }


def test_max_pods_by_type_is_looked_up() -> None:
    text = written(max_pods_by_type={"m5.large": 110, "m5.xlarge": 50, "c5.large": 110})
    assert kubelet(text)["--max-pods"] == "$MaxPods"
    table = text.partition("# wain:max-pods begin\n")[2].partition("\n# wain:max-pods end")[0]
    assert table.splitlines() == ["*.large=110", "*=50"]


def test_everything_is_between_the_tags() -> None:
    text = written()
    assert text.startswith("<powershell>\n")
    assert text.endswith("</powershell>\n")


@pytest.mark.parametrize(
    "own",
    [
        "Write-Host 'hi'",
        "<powershell>\nWrite-Host 'hi'\n</powershell>",
        "<PowerShell>Write-Host 'hi'</PowerShell>\n",
    ],
)
def test_user_lines_run_first(own: str) -> None:
    lines = written(custom_user_data=own).splitlines()
    assert lines[:2] == ["<powershell>", "Write-Host 'hi'"]
    assert "\n".join(lines).lower().count("<powershell>") == 1


def test_text_around_the_users_script_is_kept() -> None:
    own = "<powershell>\nWrite-Host 'hi'\n</powershell>\n<persist>true</persist>"
    assert written(custom_user_data=own).endswith("</powershell>\n<persist>true</persist>\n")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_powershell_expands_nothing(odd: str) -> None:
    found = called(written(cluster=odd))
    assert found["EKSClusterName"] == odd
