"""User data of every family, booted by the emulator: what was said is what the node becomes."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.kubelet import Kubelet
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.write import user_data
from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.settings import InstanceStorePolicy
from wainwright.emulator.boot.booted import Booted, boot
from wainwright.emulator.boot.facts import Facts
from wainwright.model.taints import Taint

ALL = [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.BOTTLEROCKET, AmiFamily.WINDOWS2022]
SCRIPTED = [AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.WINDOWS2022]
PLAIN = Bootstrap(
    cluster="wain",
    endpoint="https://wain.example.com",
    ca="Y2E=",
    cidr="10.100.0.0/16",
    dns_ip="10.100.0.10",
    labels={"team": "web", "kubernetes.io/arch": "amd64"},
)
DO_NOT_SYNC = {"karpenter.sh/do-not-sync-taints": "true"}
UNREGISTERED = Taint(key="karpenter.sh/unregistered", effect="NoExecute")


def booted(family: AmiFamily, name: str = "m5.xlarge", **changes: Any) -> Booted:
    facts = Facts(
        machine=builtin.machines()[name],
        instance_id="i-1",
        region="us-east-1",
        zone="us-east-1a",
        zone_id="use1-az1",
        private_dns="ip-10-0-0-1.ec2.internal",
    )
    made = boot(user_data(family, msgspec.structs.replace(PLAIN, **changes)).text, facts)
    assert isinstance(made, Booted), made
    return made


@pytest.mark.parametrize("family", ALL)
def test_the_node_joins_its_cluster(family: AmiFamily) -> None:
    found = booted(family)
    assert (found.cluster_name, found.endpoint) == ("wain", "https://wain.example.com")
    assert found.labels == {"team": "web"} | DO_NOT_SYNC
    assert found.taints == (UNREGISTERED,)
    assert found.dns == ("10.100.0.10",)


@pytest.mark.parametrize("family", ALL)
def test_the_kubelet_is_told_what_the_class_sets(family: AmiFamily) -> None:
    settings = Kubelet(
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
def test_local_disks_hold_the_pods_where_the_class_says_so(
    family: AmiFamily, policy: InstanceStorePolicy | None
) -> None:
    assert booted(family, instance_store=policy).local_disks is (policy is not None)


MIXED = {"m5.large": 29, "c5.large": 29, "t3.large": 35, "m5.xlarge": 58, "t3.nano": 4}


@pytest.mark.parametrize("family", SCRIPTED)
@pytest.mark.parametrize(("name", "pods"), [*MIXED.items(), ("r5.large", 29), ("r5.4xlarge", 4)])
def test_each_type_takes_its_own_number_of_pods(family: AmiFamily, name: str, pods: int) -> None:
    assert booted(family, name, densities=MIXED).max_pods == pods


@pytest.mark.parametrize("family", SCRIPTED)
def test_a_script_of_the_user_does_not_disturb(family: AmiFamily) -> None:
    text = "max_pods=1\n$MaxPods = '1'\necho done\n"
    assert booted(family, text=text, densities=MIXED).max_pods == 58


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
def test_whatever_is_legal_survives(
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
