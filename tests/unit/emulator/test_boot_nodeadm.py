"""AL2023: NodeConfigs in MIME parts or alone, merged as nodeadm merges them."""

import gzip
from base64 import b64encode

import pytest
from tests.support.machines import CLUSTER, CLUSTERS, joined, why_not
from tests.support.nodeconfigs import TARGET, config, configs, document, mime, table

from wainwright.emulator.boot.encoding import decoded
from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.model.taints import Taint

MIB, GIB = 2**20, 2**30


def test_everything_comes_out_of_the_user_data() -> None:
    text = config(
        {
            "maxPods": 42,
            "kubeReserved": {"cpu": "150m", "memory": "1Gi"},
            "systemReserved": {"memory": "100Mi"},
            "evictionHard": {"memory.available": "5%"},
            "evictionSoft": {"memory.available": "10%"},
            "evictionSoftGracePeriod": {"memory.available": "1m30s"},
            "registerWithTaints": [
                {"key": "team", "value": "web", "effect": "NoSchedule"},
                {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
            ],
            "clusterDNS": ["10.100.0.10"],
            "imageGCHighThresholdPercent": 80,
        },
        ['--node-labels="a=b,example.com/c=d"'],
    )
    node = joined(configs(text))
    assert node.family is Family.NODEADM
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"a": "b", "example.com/c": "d"}
    assert [str(taint) for taint in node.taints] == [
        "team=web:NoSchedule",
        "karpenter.sh/unregistered:NoExecute",
    ]
    assert node.max_pods == 42
    assert node.dns == ("10.100.0.10",)
    assert node.kube_reserved == {"cpu": 150, "memory": GIB, "ephemeral-storage": GIB}
    assert node.system_reserved == {"memory": 100 * MIB}
    assert node.eviction_hard["memory.available"] == "5%"
    assert node.eviction_hard["nodefs.available"] == "10%"
    assert node.eviction_soft == {"memory.available": "10%"}
    assert node.rest == {"imageGCHighThresholdPercent": 80}


def test_what_is_not_said_is_the_images_own() -> None:
    node = joined(configs(config()))
    assert node.max_pods == 58
    assert node.kube_reserved == {
        "cpu": 80,
        "memory": (255 + 11 * 58) * MIB,
        "ephemeral-storage": GIB,
    }
    assert node.system_reserved == {}
    assert node.labels == {}
    assert node.taints == ()


def test_reserved_memory_goes_by_interfaces_whatever_max_pods_says() -> None:
    few, many = (joined(config({"maxPods": pods})) for pods in (10, 200))
    assert few.kube_reserved["memory"] == many.kube_reserved["memory"] == 893 * MIB


def test_later_configs_go_over_earlier_ones_and_flags_add_up() -> None:
    users = config(
        {
            "maxPods": 10,
            "podsPerCore": 2,
            "evictionHard": {"memory.available": "1Gi", "nodefs.available": "20%"},
            "clusterDNS": ["1.1.1.1", "2.2.2.2"],
        },
        ["--node-labels=mine=1,both=users"],
        cluster={},
        instance={"localStorage": {"strategy": "RAID0"}},
    )
    ours = config(
        {"maxPods": 20, "evictionHard": {"memory.available": "2Gi"}, "clusterDNS": ["3.3.3.3"]},
        ["--node-labels=yours=2,both=ours"],
    )
    node = joined(configs(users, ours), "m5d.xlarge")
    assert node.max_pods == 20
    assert node.capacity["pods"] == 8
    assert node.eviction_hard["memory.available"] == "2Gi"
    assert node.eviction_hard["nodefs.available"] == "20%"
    assert node.dns == ("3.3.3.3",)
    assert node.labels == {"mine": "1", "yours": "2", "both": "ours"}
    assert node.local_disks


def test_an_empty_value_above_leaves_the_one_below() -> None:
    again = document({"cluster": {"name": ""}, "kubelet": {"config": {}}})
    assert joined(configs(config({"maxPods": 7}), again)).max_pods == 7


def test_a_config_alone_needs_no_mime() -> None:
    assert joined(config({"maxPods": 3})).max_pods == 3
    assert joined("---\n" + config({"maxPods": 3})).max_pods == 3


def test_flags_go_before_the_configuration() -> None:
    flags = ["--max-pods=4", "--system-reserved=memory=1Mi", "--system-reserved=cpu=5m"]
    node = joined(config({"maxPods": 3, "systemReserved": {"ephemeral-storage": "1Gi"}}, flags))
    assert node.max_pods == 4
    assert node.system_reserved == {"memory": MIB, "cpu": 5}


@pytest.mark.parametrize(
    ("kind", "pods"),
    [("m5.xlarge", 17), ("c5.xlarge", 30), ("m5.large", 8), ("m5.2xlarge", 110)],
)
def test_a_script_looks_up_the_pods_of_its_type(kind: str, pods: int) -> None:
    script = table("m5.xlarge=17", "m5.large=8", "*.xlarge=30", "*=110")
    text = mime(
        ("text/x-shellscript; charset=us-ascii", script),
        ("application/node.eks.aws", config({"maxPods": 110})),
    )
    assert joined(text, kind).max_pods == pods


@pytest.mark.parametrize(
    ("kind", "flags", "memory"),
    [
        ("m5.xlarge", [], 475 * MIB),
        ("m5.large", [], (255 + 11 * 29) * MIB),
        ("m5.xlarge", ["--kube-reserved=memory=1Gi"], GIB),
    ],
)
def test_a_script_looks_up_what_its_kubelet_keeps(kind: str, flags: list[str], memory: int) -> None:
    script = table("m5.xlarge=20=memory=475Mi", "*=20")
    text = mime(
        ("text/x-shellscript; charset=us-ascii", script),
        ("application/node.eks.aws", config({"maxPods": 20}, flags)),
    )
    node = joined(text, kind)
    assert (node.max_pods, node.kube_reserved["memory"]) == (20, memory)
    assert flags or node.kube_reserved["ephemeral-storage"] == GIB


def test_a_table_in_which_the_machine_is_not_breaks_the_kubelet() -> None:
    text = mime(("text/x-shellscript", table("m5.large=8")), ("application/node.eks.aws", config()))
    assert why_not(text) is Reason.REFUSED


@pytest.mark.parametrize(
    "label",
    ["node.kubernetes.io/mine", "kubelet.kubernetes.io/mine", "topology.kubernetes.io/zone"],
)
def test_a_kubelet_may_set_a_few_labels_of_kubernetes(label: str) -> None:
    assert joined(config({}, [f"--node-labels={label}=x"])).labels == {label: "x"}


def test_the_cluster_must_be_the_one_that_is_there() -> None:
    assert joined(config(), clusters=CLUSTERS).endpoint == CLUSTER.endpoint
    for field, value in (
        ("name", "test"),
        ("apiServerEndpoint", "https://nowhere"),
        ("certificateAuthority", "QkI="),
    ):
        text = config(cluster=TARGET | {field: value})
        assert why_not(text, clusters=CLUSTERS) is Reason.OTHER_CLUSTER


def test_an_image_reads_its_own_language_only() -> None:
    text = configs(config())
    for name in ("amazon-eks-node-al2023-x86_64-standard-1.36-v20251218", "somebodys-own-image"):
        assert joined(text, image_name=name).family is Family.NODEADM
    for name in ("bottlerocket-aws-k8s-1.36", "amazon-eks-node-1.32-v20251120"):
        assert why_not(text, image_name=name) is Reason.WRONG_IMAGE


def test_user_data_comes_in_base64_and_perhaps_compressed() -> None:
    text = config()
    assert decoded(b64encode(text.encode()).decode()) == text
    assert decoded(b64encode(gzip.compress(text.encode())).decode()) == text
    assert decoded(None) == ""
    for broken in (
        "%%%",
        b64encode(b"\x1f\x8b nonsense").decode(),
        b64encode(b"\xff\xfe").decode(),
    ):
        with pytest.raises(Unbootable):
            decoded(broken)


def test_taints_are_values() -> None:
    node = joined(config({}, ["--register-with-taints=a=b:NoSchedule,c:NoExecute"]))
    assert node.taints == (
        Taint(key="a", value="b", effect="NoSchedule"),
        Taint(key="c", effect="NoExecute"),
    )
