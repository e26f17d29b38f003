"""What the provider writes, a machine reads: every setting comes through, for every family."""

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.machines import joined

from wainwright.api.kubelet import Kubelet
from wainwright.api.quantity import parse
from wainwright.aws.templates.kinds import kind
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.write import LOOKS_UP_DENSITY, user_data
from wainwright.catalogue import builtin
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.settings import ClassSettings, InstanceStorePolicy, Override
from wainwright.catalogue.settings import Kubelet as Planned
from wainwright.catalogue.shapes import shape, size
from wainwright.model.requirements import Requirements
from wainwright.model.taints import UNREGISTERED, Taint

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
def kubelets(draw: st.DrawFn) -> Kubelet:
    soft = draw(thresholds)
    return Kubelet(
        kubeReserved=draw(reserved),
        systemReserved=draw(reserved),
        evictionHard=draw(thresholds),
        evictionSoft=soft,
        evictionSoftGracePeriod=dict.fromkeys(soft, "1m30s"),
        clusterDNS=draw(st.sampled_from([None, ["10.100.0.10"]])),
    )


bootstraps = st.builds(
    Bootstrap,
    cluster=words,
    endpoint=st.just("https://api.example.com"),
    ca=st.just("Q0E="),
    cidr=st.just("10.100.0.0/16"),
    kubelet=kubelets(),
    labels=st.dictionaries(keys, st.one_of(st.just(""), words), max_size=5),
    taints=st.lists(taints, max_size=3).map(tuple),
    startup_taints=st.lists(taints, max_size=2).map(tuple),
    instance_store=st.sampled_from([None, InstanceStorePolicy.RAID0]),
    max_pods=st.sampled_from([None, 10, 200]),
    densities=st.dictionaries(st.sampled_from(TYPES), st.integers(4, 250)),
)


def amounts(given: dict[str, str] | None) -> dict[str, int]:
    return {
        name: parse(text).milli if name == "cpu" else parse(text).units
        for name, text in (given or {}).items()
    }


def boot(family: AmiFamily, bootstrap: Bootstrap, kind: str = "m5.xlarge") -> Any:
    return joined(user_data(family, bootstrap).text, kind, image_name=IMAGES[family])


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=40)
@given(written=bootstraps, kind=st.sampled_from(TYPES))
def test_every_setting_comes_through(family: AmiFamily, written: Bootstrap, kind: str) -> None:
    node = boot(family, written, kind)
    kubelet = written.kubelet
    assert (node.cluster_name, node.endpoint) == (written.cluster, written.endpoint)
    assert node.labels == {**written.labels, "karpenter.sh/do-not-sync-taints": "true"}
    assert {(each.key, each.effect) for each in node.taints} == {
        (each.key, each.effect) for each in (*written.taints, *written.startup_taints, UNREGISTERED)
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
def test_a_machine_takes_the_pods_of_its_type(
    family: AmiFamily, written: Bootstrap, kind: str
) -> None:
    expected = written.densities.get(kind, written.max_pods)
    if family not in LOOKS_UP_DENSITY:
        expected = written.max_pods
    if expected is not None:
        assert boot(family, written, kind).max_pods == expected


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023])
@pytest.mark.parametrize("pods", [8, 58, 200])
@pytest.mark.parametrize("max_pods", [None, 20])
@pytest.mark.parametrize("own", [{}, {"cpu": "300m"}, {"memory": "1Gi"}])
def test_a_machine_keeps_what_was_planned_with(
    family: AmiFamily, pods: int, max_pods: int | None, own: dict[str, str]
) -> None:
    """With an InstanceType object that says how many pods there are, or without."""
    reserved = {name: parse(text) for name, text in own.items()}
    planned = Planned(max_pods=max_pods, kube_reserved=reserved)
    used = ClassSettings(ami_family=family, kubelet=planned)
    machine = builtin.machines()["m5.xlarge"]
    held = size(shape(machine, used, Override(resources={"pods": pods})))
    made = kind(machine, held, Requirements.from_labels({}), used)
    written = Bootstrap(
        cluster="prod",
        endpoint="https://api.example.com",
        ca="Q0E=",
        cidr="10.100.0.0/16",
        kubelet=Kubelet(kubeReserved=own),
        max_pods=max_pods,
        densities={"m5.xlarge": made.density, "t3.nano": 4},
        reserved={"m5.xlarge": made.reserved} if made.reserved else {},
    )
    node = boot(family, written)
    expected = {name: each.amount for name, each in held.shape.overhead.kube_reserved.items()}
    assert node.kube_reserved["memory"] == expected["memory"]
    if family is AmiFamily.AL2023 or made.reserved:
        assert node.kube_reserved == expected
    assert node.max_pods == min(pods, max_pods or pods)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_users_own_settings_stay(family: AmiFamily) -> None:
    own = {
        AmiFamily.AL2023: (
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: "
            "{podsPerCore: 2}, flags: ['--node-labels=own=1']}}\n"
        ),
        AmiFamily.BOTTLEROCKET: '[settings.kubernetes.node-labels]\nown = "1"\n',
    }.get(family, "echo hello")
    written = Bootstrap(
        cluster="prod", endpoint="https://x", ca="Q0E=", cidr="10.0.0.0/8", text=own
    )
    node = boot(family, written)
    if family in (AmiFamily.AL2023, AmiFamily.BOTTLEROCKET):
        assert node.labels["own"] == "1"
    if family is AmiFamily.AL2023:
        assert node.capacity["pods"] == 8
