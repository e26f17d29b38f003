"""Bottlerocket and Windows: TOML and PowerShell."""

import pytest
from tests.support.machines import facts, joined, why_not

from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.node import node_labels
from wainwright.emulator.boot.reasons import Reason

MIB, GIB = 2**20, 2**30
TARGET = """\
[settings.kubernetes]
api-server = "https://api.example.com"
cluster-certificate = "Q0E="
cluster-name = "prod"
"""


def toml(more: str = "") -> str:
    return TARGET + more


def test_everything_comes_out_of_the_settings() -> None:
    node = joined(
        toml(
            """\
max-pods = 42
cluster-dns-ip = "10.100.0.10"
image-gc-high-threshold-percent = "80"
[settings.kubernetes.node-labels]
"example.com/a" = "b"
[settings.kubernetes.node-taints]
team = ["web:NoSchedule", ":NoExecute"]
[settings.kubernetes.kube-reserved]
memory = "1Gi"
[settings.kubernetes.system-reserved]
cpu = "100m"
[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
[settings.bootstrap-commands.000-mount]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "x"]]
[settings.host-containers.admin]
enabled = true
"""
        ),
        "m5d.xlarge",
    )
    assert node.family is Family.BOTTLEROCKET
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"example.com/a": "b"}
    assert [str(taint) for taint in node.taints] == ["team=web:NoSchedule", "team:NoExecute"]
    assert node.max_pods == 42
    assert node.kube_reserved == {"cpu": 80, "memory": GIB, "ephemeral-storage": GIB}
    assert node.system_reserved == {"cpu": 100}
    assert node.eviction_hard["memory.available"] == "5%"
    assert node.dns == ("10.100.0.10",)
    assert node.local_disks
    assert node.rest == {"image-gc-high-threshold-percent": "80"}


def test_reserved_memory_goes_by_the_pods_it_was_told() -> None:
    assert joined(toml("max-pods = 110\n")).kube_reserved["memory"] == 1465 * MIB
    assert joined(toml()).kube_reserved["memory"] == 893 * MIB


def test_pods_live_on_the_second_disk() -> None:
    disks = {"/dev/xvda": 4, "/dev/xvdb": 75}
    assert joined(toml(), disks=disks).capacity["ephemeral-storage"] == 75 * GIB
    assert joined(toml()).capacity["ephemeral-storage"] == 20 * GIB


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[settings.kubernetes]\ncluster-name = 'x'\n", Reason.NO_CLUSTER),
        ("[settings]\nkubernetes = 3\n", Reason.UNREADABLE),
        (toml("max-pods = '42'\n"), Reason.REFUSED),
        (toml("[settings.kubernetes.kube-reserved]\nmemory = 5\n"), Reason.REFUSED),
        (toml("[settings.kubernetes.node-taints]\na = 'web'\n"), Reason.REFUSED),
        (toml("max-pods = \n"), Reason.NO_BOOTSTRAP),
        ("[other]\na = 1\n", Reason.NO_BOOTSTRAP),
    ],
)
def test_bad_settings_make_a_machine_that_never_joins(text: str, reason: Reason) -> None:
    assert why_not(text) is reason


def test_a_bottlerocket_image_says_what_is_wrong_with_its_toml() -> None:
    image = "bottlerocket-aws-k8s-1.36-x86_64-v1.51.0-abcdef01"
    assert why_not(toml("max-pods = \n"), image_name=image) is Reason.UNREADABLE


def windows(arguments: str = "", before: str = "") -> str:
    return (
        f"<powershell>\n{before}"
        '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\EKS\\Start-EKSBootstrap.ps1"\n'
        "& $EKSBootstrapScriptFile -EKSClusterName 'prod' -APIServerEndpoint "
        f"'https://api.example.com' -Base64ClusterCA 'Q0E=' {arguments}\n</powershell>\n"
    )


def test_everything_comes_out_of_the_arguments() -> None:
    node = joined(
        windows(
            """-DNSClusterIP '10.100.0.10' -KubeletExtraArgs '--node-labels="a=b,c=its" """
            """--register-with-taints="os=windows:NoSchedule" --max-pods=50'"""
        )
    )
    assert node.family is Family.WINDOWS
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"a": "b", "c": "its"}
    assert [str(taint) for taint in node.taints] == ["os=windows:NoSchedule"]
    assert node.max_pods == 50
    assert node.dns == ("10.100.0.10",)
    assert node.kube_reserved["memory"] == (255 + 11 * 50) * MIB


def test_a_quote_within_quotes_is_written_twice() -> None:
    node = joined(windows('-KubeletExtraArgs "--x=""a b"" --max-pods=9"'))
    assert (node.max_pods, node.rest) == (9, {"x": "a b"})


def test_windows_takes_110_pods_on_a_larger_disk() -> None:
    node = joined(windows(), "m5.large")
    assert node.max_pods == 110
    assert node.capacity["ephemeral-storage"] == 50 * GIB


TABLE = """\
$MaxPodsTable = @'
# wain:max-pods begin
m5.xlarge=17
*=60
# wain:max-pods end
'@
"""


@pytest.mark.parametrize(("kind", "pods"), [("m5.xlarge", 17), ("c5.large", 60)])
def test_a_script_looks_up_the_pods_of_its_type(kind: str, pods: int) -> None:
    arguments = """-KubeletExtraArgs ('--node-labels="a=b"' + " --max-pods=$MaxPods")"""
    node = joined(windows(arguments, TABLE), kind)
    assert (node.max_pods, node.labels) == (pods, {"a": "b"})


def test_variables_quotes_and_broken_lines() -> None:
    text = windows('`\n  -kubeletextraargs "--node-labels=a=$Team --max-pods=${Pods}"', "").replace(
        "<powershell>\n", "<PowerShell>\n$team = 'web'\n[string]$Pods = \"9\"\n"
    )
    node = joined(text.replace("</powershell>", "</PowerShell>"))
    assert (node.max_pods, node.labels) == (9, {"a": "web"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<powershell>\necho hello\n</powershell>", Reason.NO_BOOTSTRAP),
        (windows().replace("'prod'", "''"), Reason.NO_CLUSTER),
        (windows().replace("& $EKS", "# & $EKS"), Reason.NO_BOOTSTRAP),
        (windows("-KubeletExtraArgs '--max-pods=1"), Reason.UNREADABLE),
        (windows("-KubeletExtraArgs"), Reason.UNREADABLE),
        (windows("-KubeletExtraArgs '--max-pods=1x'"), Reason.REFUSED),
    ],
)
def test_a_bad_script_makes_a_machine_that_never_joins(text: str, reason: Reason) -> None:
    assert why_not(text) is reason


@pytest.mark.parametrize(
    ("text", "image", "system", "build"),
    [
        (
            windows(),
            "Windows_Server-2022-English-Core-EKS_Optimized-1.36-2025.12.18",
            "windows",
            "10.0.20348",
        ),
        (toml(), "bottlerocket-aws-k8s-1.36-x86_64-v1.51.0-abcdef01", "linux", None),
    ],
)
def test_a_node_has_labels_that_nobody_wrote(
    text: str, image: str, system: str, build: str | None
) -> None:
    node = joined(text, image_name=image)
    labels = node_labels(node, facts(image_name=image))
    assert labels["kubernetes.io/os"] == system
    assert labels["kubernetes.io/arch"] == "amd64"
    assert labels["kubernetes.io/hostname"] == "ip-192-168-1-1.us-west-2.compute.internal"
    assert labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert labels["topology.kubernetes.io/zone"] == "us-west-2a"
    assert labels["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert labels.get("node.kubernetes.io/windows-build") == build
