"""AL2023: NodeConfigs in MIME parts or alone, merged as nodeadm merges them; and bad user data."""

import gzip
from base64 import b64encode

import pytest
from tests.support.node_boot import (
    CLUSTER,
    CLUSTERS,
    TARGET,
    boot_facts,
    boot_failure,
    boot_node,
    max_pods_table,
    mime_message,
    node_config,
    node_config_document,
    node_config_message,
)

from wainwright.emulator.boot.node_boot import boot_from_user_data
from wainwright.emulator.boot.user_data import (
    BootError,
    BootFailure,
    BootFailureReason,
    BootstrapMethod,
    decode_user_data,
)
from wainwright.model.taints import Taint

MIB, GIB = 2**20, 2**30
HEAD = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"


def test_every_node_config_field_is_read() -> None:
    text = node_config(
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
    node = boot_node(node_config_message(text))
    assert node.method is BootstrapMethod.NODEADM
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
    assert node.other_config == {"imageGCHighThresholdPercent": 80}


def test_missing_settings_are_the_defaults_of_the_image() -> None:
    node = boot_node(node_config_message(node_config()))
    assert node.max_pods == 58
    assert node.kube_reserved == {
        "cpu": 80,
        "memory": (255 + 11 * 58) * MIB,
        "ephemeral-storage": GIB,
    }
    assert node.system_reserved == {}
    assert node.labels == {}
    assert node.taints == ()


def test_reserved_memory_depends_on_interfaces_not_on_max_pods() -> None:
    few, many = (boot_node(node_config({"maxPods": pods})) for pods in (10, 200))
    assert few.kube_reserved["memory"] == many.kube_reserved["memory"] == 893 * MIB


def test_later_configs_override_earlier_ones_and_flags_are_concatenated() -> None:
    users = node_config(
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
    ours = node_config(
        {"maxPods": 20, "evictionHard": {"memory.available": "2Gi"}, "clusterDNS": ["3.3.3.3"]},
        ["--node-labels=yours=2,both=ours"],
    )
    node = boot_node(node_config_message(users, ours), "m5d.xlarge")
    assert node.max_pods == 20
    assert node.capacity["pods"] == 8
    assert node.eviction_hard["memory.available"] == "2Gi"
    assert node.eviction_hard["nodefs.available"] == "20%"
    assert node.dns == ("3.3.3.3",)
    assert node.labels == {"mine": "1", "yours": "2", "both": "ours"}
    assert node.local_disks


def test_an_empty_value_does_not_override() -> None:
    again = node_config_document({"cluster": {"name": ""}, "kubelet": {"config": {}}})
    assert boot_node(node_config_message(node_config({"maxPods": 7}), again)).max_pods == 7


def test_a_single_config_needs_no_mime() -> None:
    assert boot_node(node_config({"maxPods": 3})).max_pods == 3
    assert boot_node("---\n" + node_config({"maxPods": 3})).max_pods == 3


def test_flags_override_the_configuration() -> None:
    flags = ["--max-pods=4", "--system-reserved=memory=1Mi", "--system-reserved=cpu=5m"]
    node = boot_node(
        node_config({"maxPods": 3, "systemReserved": {"ephemeral-storage": "1Gi"}}, flags)
    )
    assert node.max_pods == 4
    assert node.system_reserved == {"memory": MIB, "cpu": 5}


@pytest.mark.parametrize(
    ("kind", "pods"),
    [("m5.xlarge", 17), ("c5.xlarge", 30), ("m5.large", 8), ("m5.2xlarge", 110)],
)
def test_a_script_looks_up_the_max_pods_of_its_type(kind: str, pods: int) -> None:
    script = max_pods_table("m5.xlarge=17", "m5.large=8", "*.xlarge=30", "*=110")
    text = mime_message(
        ("text/x-shellscript; charset=us-ascii", script),
        ("application/node.eks.aws", node_config({"maxPods": 110})),
    )
    assert boot_node(text, kind).max_pods == pods


@pytest.mark.parametrize(
    ("kind", "flags", "memory"),
    [
        ("m5.xlarge", [], 475 * MIB),
        ("m5.large", [], (255 + 11 * 29) * MIB),
        ("m5.xlarge", ["--kube-reserved=memory=1Gi"], GIB),
    ],
)
def test_a_script_looks_up_kube_reserved(kind: str, flags: list[str], memory: int) -> None:
    script = max_pods_table("m5.xlarge=20=memory=475Mi", "*=20")
    text = mime_message(
        ("text/x-shellscript; charset=us-ascii", script),
        ("application/node.eks.aws", node_config({"maxPods": 20}, flags)),
    )
    node = boot_node(text, kind)
    assert (node.max_pods, node.kube_reserved["memory"]) == (20, memory)
    assert flags or node.kube_reserved["ephemeral-storage"] == GIB


def test_a_table_without_the_instance_type_prevents_the_kubelet_from_starting() -> None:
    text = mime_message(
        ("text/x-shellscript", max_pods_table("m5.large=8")),
        ("application/node.eks.aws", node_config()),
    )
    assert boot_failure(text) is BootFailureReason.REFUSED


@pytest.mark.parametrize(
    "label",
    ["node.kubernetes.io/mine", "kubelet.kubernetes.io/mine", "topology.kubernetes.io/zone"],
)
def test_a_kubelet_may_set_only_some_kubernetes_labels(label: str) -> None:
    assert boot_node(node_config({}, [f"--node-labels={label}=x"])).labels == {label: "x"}


def test_cluster_endpoint_and_certificate_must_match() -> None:
    assert boot_node(node_config(), clusters=CLUSTERS).endpoint == CLUSTER.endpoint
    for field, value in (
        ("name", "test"),
        ("apiServerEndpoint", "https://nowhere"),
        ("certificateAuthority", "QkI="),
    ):
        text = node_config(cluster=TARGET | {field: value})
        assert boot_failure(text, clusters=CLUSTERS) is BootFailureReason.OTHER_CLUSTER


def test_an_image_reads_only_its_own_user_data_format() -> None:
    text = node_config_message(node_config())
    for name in ("amazon-eks-node-al2023-x86_64-standard-1.36-v20251218", "somebodys-own-image"):
        assert boot_node(text, image_name=name).method is BootstrapMethod.NODEADM
    for name in ("bottlerocket-aws-k8s-1.36", "amazon-eks-node-1.32-v20251120"):
        assert boot_failure(text, image_name=name) is BootFailureReason.WRONG_IMAGE


def test_user_data_is_base64_and_may_be_compressed() -> None:
    text = node_config()
    assert decode_user_data(b64encode(text.encode()).decode()) == text
    assert decode_user_data(b64encode(gzip.compress(text.encode())).decode()) == text
    assert decode_user_data(None) == ""
    for broken in (
        "%%%",
        b64encode(b"\x1f\x8b nonsense").decode(),
        b64encode(b"\xff\xfe").decode(),
    ):
        with pytest.raises(BootError):
            decode_user_data(broken)


def test_taints_are_values() -> None:
    node = boot_node(node_config({}, ["--register-with-taints=a=b:NoSchedule,c:NoExecute"]))
    assert node.taints == (
        Taint(key="a", value="b", effect="NoSchedule"),
        Taint(key="c", effect="NoExecute"),
    )


@pytest.mark.parametrize("missing", list(TARGET))
def test_a_config_without_cluster_fields_never_joins(missing: str) -> None:
    cluster = {key: value for key, value in TARGET.items() if key != missing}
    assert (
        boot_failure(node_config_message(node_config(cluster=cluster)))
        is BootFailureReason.NO_CLUSTER
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", BootFailureReason.NOTHING),
        (" \n", BootFailureReason.NOTHING),
        ("hello", BootFailureReason.NO_BOOTSTRAP),
        ("#!/bin/bash\necho hello\n", BootFailureReason.NO_BOOTSTRAP),
        (
            mime_message(("text/x-shellscript", "#!/bin/bash\necho hello")),
            BootFailureReason.NO_BOOTSTRAP,
        ),
        (node_config_message("a: [b"), BootFailureReason.UNREADABLE),
        (node_config_message("just text"), BootFailureReason.UNREADABLE),
        (
            node_config_message(node_config().replace("NodeConfig", "Node")),
            BootFailureReason.UNREADABLE,
        ),
        (node_config_message(node_config())[:-6], BootFailureReason.UNREADABLE),
        (
            node_config_message(node_config()).replace('boundary="//"', 'boundary="=="'),
            BootFailureReason.UNREADABLE,
        ),
        (
            node_config_message(node_config(cluster=TARGET | {"cidr": "ten"})),
            BootFailureReason.NO_CLUSTER,
        ),
        (node_config({"maxPods": "110"}), BootFailureReason.REFUSED),
        (node_config({"maxPods": -1}), BootFailureReason.REFUSED),
        (node_config({"kubeReserved": {"memory": 100}}), BootFailureReason.REFUSED),
        (node_config({"kubeReserved": {"memory": "lots"}}), BootFailureReason.REFUSED),
        (node_config({"kubeReserved": {"memory": "-1Gi"}}), BootFailureReason.REFUSED),
        (node_config({"systemReserved": {"gpu": "1"}}), BootFailureReason.REFUSED),
        (node_config({"evictionHard": {"memory.free": "1Gi"}}), BootFailureReason.REFUSED),
        (node_config({"evictionSoft": {"memory.available": "1Gi"}}), BootFailureReason.REFUSED),
        (
            node_config(
                {
                    "evictionSoft": {"memory.available": "1Gi"},
                    "evictionSoftGracePeriod": {"memory.available": "soon"},
                }
            ),
            BootFailureReason.REFUSED,
        ),
        (node_config({}, ["--node-labels=kubernetes.io/role=x"]), BootFailureReason.REFUSED),
        (
            node_config({}, ["--node-labels=node-restriction.kubernetes.io/a=b"]),
            BootFailureReason.REFUSED,
        ),
        (node_config({}, ["--node-labels=a b"]), BootFailureReason.REFUSED),
        (node_config({}, ["--node-labels=-a=b"]), BootFailureReason.UNREGISTERED),
        (node_config({}, ["--max-pods=many"]), BootFailureReason.REFUSED),
        (node_config({}, ['--node-labels="a=b']), BootFailureReason.UNREADABLE),
        (
            node_config({"registerWithTaints": [{"key": "a", "effect": "Never"}]}),
            BootFailureReason.REFUSED,
        ),
        (node_config({"registerWithTaints": ["a"]}), BootFailureReason.REFUSED),
        (node_config({"registerWithTaints": 5}), BootFailureReason.REFUSED),
        (node_config({"registerWithTaints": [{"key": 5}]}), BootFailureReason.REFUSED),
        (
            node_config({"registerWithTaints": [{"key": "a", "effect": {}}]}),
            BootFailureReason.REFUSED,
        ),
        (node_config({"clusterDNS": 5}), BootFailureReason.REFUSED),
        (node_config({"podsPerCore": 2**31}), BootFailureReason.REFUSED),
        (node_config({}, [f"--max-pods={'9' * 4000}"]), BootFailureReason.REFUSED),
        (node_config_message(f"{HEAD}spec: {'{a: ' * 2000}"), BootFailureReason.UNREADABLE),
        (node_config_message(f"{HEAD}spec: &s {{x: *s}}"), BootFailureReason.UNREADABLE),
        (node_config_message(f"{HEAD}spec: {{x: !!timestamp x}}"), BootFailureReason.UNREADABLE),
        (
            "MIME-Version: 1.0\n" + "Content-Type: message/rfc822\n\n" * 500,
            BootFailureReason.UNREADABLE,
        ),
        (
            f"Content-Type: multipart/mixed; boundary*{'9' * 5000}*=a\n\n--a",
            BootFailureReason.UNREADABLE,
        ),
        (
            node_config({"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
            BootFailureReason.UNREGISTERED,
        ),
        (node_config({"systemReserved": {"memory": "1Ti"}}), BootFailureReason.TOO_SMALL),
    ],
)
def test_invalid_user_data_never_joins(text: str, reason: BootFailureReason) -> None:
    assert boot_failure(text) is reason


def test_a_boot_failure_has_a_detail() -> None:
    outcome = boot_from_user_data(node_config({"maxPods": "x"}), boot_facts())
    assert outcome == BootFailure(
        BootFailureReason.REFUSED, "maxPods is 'x', which is not a number"
    )
