"""AL2, Bottlerocket and Windows: the call of bootstrap.sh, TOML, and PowerShell."""

import pytest
from tests.support.node_boot import CLUSTER, CLUSTERS, boot_facts, boot_failure, boot_node

from wainwright.emulator.boot.node_boot import node_labels
from wainwright.emulator.boot.user_data import BootFailureReason, BootstrapMethod

MIB, GIB = 2**20, 2**30
SHELL_TARGET = "'prod' --apiserver-endpoint 'https://api.example.com' --b64-cluster-ca 'Q0E='"


def script(arguments: str = "", before: str = "") -> str:
    return f"#!/bin/bash -xe\n{before}/etc/eks/bootstrap.sh {SHELL_TARGET} {arguments}\n"


def kubelet(flags: str) -> str:
    return script(f"--kubelet-extra-args '{flags}'")


def mime(*scripts: str) -> str:
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="//"', ""]
    for text in scripts:
        lines += ["--//", 'Content-Type: text/x-shellscript; charset="us-ascii"', "", text]
    return "\n".join([*lines, "--//--", ""])


def test_every_bootstrap_argument_is_read() -> None:
    node = boot_node(
        script(
            "--dns-cluster-ip '10.100.0.10' --use-max-pods false --local-disks raid0 "
            """--kubelet-extra-args '--node-labels="a=b,c=d" """
            """--register-with-taints="team=web:NoSchedule,new:NoExecute" --max-pods=42 """
            """--kube-reserved="cpu=150m,memory=1Gi" --system-reserved="memory=100Mi" """
            """--eviction-hard="memory.available<5%,nodefs.available<15%" """
            """--eviction-soft="memory.available<10%" """
            """--eviction-soft-grace-period="memory.available=1m" --cpu-cfs-quota=false'"""
        ),
        "m5d.xlarge",
    )
    assert node.method is BootstrapMethod.SHELL
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"a": "b", "c": "d"}
    assert [str(taint) for taint in node.taints] == ["team=web:NoSchedule", "new:NoExecute"]
    assert node.max_pods == 42
    assert node.kube_reserved == {"cpu": 150, "memory": GIB}
    assert node.system_reserved == {"memory": 100 * MIB}
    assert node.eviction_hard == {"memory.available": "5%", "nodefs.available": "15%"}
    assert node.eviction_soft == {"memory.available": "10%"}
    assert node.dns == ("10.100.0.10",)
    assert node.local_disks
    assert node.capacity["ephemeral-storage"] == 150 * 10**9
    assert node.other_config == {"cpu-cfs-quota": "false"}


def test_missing_settings_are_the_defaults_of_the_image() -> None:
    node = boot_node(script())
    assert node.max_pods == 58
    assert node.kube_reserved["memory"] == (255 + 11 * 58) * MIB
    assert node.eviction_hard["memory.available"] == "100Mi"


def test_without_use_max_pods_the_kubelet_default_is_110() -> None:
    assert boot_node(script("--use-max-pods false")).max_pods == 110


def test_a_map_flag_replaces_the_whole_map() -> None:
    node = boot_node(kubelet("--kube-reserved=memory=1Gi --eviction-hard=memory.available<1Gi"))
    assert node.kube_reserved == {"memory": GIB}
    assert node.allocatable["cpu"] == node.capacity["cpu"]
    assert node.allocatable["ephemeral-storage"] == node.capacity["ephemeral-storage"]


def test_flags_separated_by_a_space_and_repeated_flags() -> None:
    node = boot_node(
        kubelet("--max-pods 5 --node-labels a=1 --node-labels=a=2,b=3 --max-pods=6 --quiet")
    )
    assert node.max_pods == 6
    assert node.labels == {"a": "2", "b": "3"}
    assert node.other_config == {"quiet": "true"}


@pytest.mark.parametrize(
    "text",
    [
        mime("#!/bin/bash\necho first", script("--use-max-pods true")),
        mime(script("--use-max-pods false"), script()),
        script(before="/etc/eks/bootstrap.sh other --use-max-pods false\n"),
        script("\\\n  --use-max-pods \\\n  true"),
        script("--use-max-pods true || echo failed"),
        script("--use-max-pods true; echo --use-max-pods false"),
        script("--use-max-pods true # --use-max-pods false"),
        script(before="# /etc/eks/bootstrap.sh other --use-max-pods false\n"),
        script(before="exec "),
        script("--use-max-pods=false"),  # not an option of the script, hence a cluster name
    ],
)
def test_the_last_bootstrap_call_applies(text: str) -> None:
    assert boot_node(text).max_pods == 58


def test_arguments_may_span_several_lines() -> None:
    node = boot_node(script("--kubelet-extra-args '--max-pods=7\n  --node-labels=a=b'"))
    assert (node.max_pods, node.labels) == (7, {"a": "b"})


def test_variables_are_those_set_by_the_script() -> None:
    text = (
        '#!/bin/bash\nNAME="prod"\nexport PODS=33\nHOST=$(hostname)\n'
        "/etc/eks/bootstrap.sh ${NAME} --b64-cluster-ca 'Q0E=' "
        '--kubelet-extra-args "--max-pods=$PODS --node-labels=host=$HOST"\n'
    )
    node = boot_node(text)
    assert (node.cluster_name, node.max_pods, node.labels) == ("prod", 33, {"host": ""})


SHELL_TABLE = """\
while IFS='=' read -r pattern pods; do
  case "$type" in $pattern) max_pods=$pods; break ;; esac
done <<'TABLE'
# wain:max-pods begin
m5.xlarge=17
*.large=29
*=110
# wain:max-pods end
TABLE
"""
CALL = """--use-max-pods false --kubelet-extra-args '--node-labels="a=b"'" --max-pods=$max_pods\""""


@pytest.mark.parametrize(("kind", "pods"), [("m5.xlarge", 17), ("c5.large", 29), ("t3.nano", 110)])
def test_a_shell_script_looks_up_the_max_pods_of_its_type(kind: str, pods: int) -> None:
    node = boot_node(mime(script(CALL, SHELL_TABLE)), kind)
    assert node.max_pods == pods
    assert node.labels == {"a": "b"}


KEEP = CALL.removesuffix('"') + '${kube_reserved:+ --kube-reserved=$kube_reserved}"'


def test_a_script_looks_up_kube_reserved() -> None:
    text = mime(script(KEEP, SHELL_TABLE.replace("=17", "=17=cpu=80m,memory=442Mi")))
    assert boot_node(text).kube_reserved == {"cpu": 80, "memory": 442 * MIB}
    other = boot_node(text, "m5.large")
    assert (other.max_pods, other.kube_reserved["memory"]) == (29, (255 + 11 * 29) * MIB)


def test_without_a_table_max_pods_is_missing() -> None:
    assert boot_failure(script(CALL)) is BootFailureReason.REFUSED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/bash\n/etc/eks/bootstrap.sh --use-max-pods false\n", BootFailureReason.NO_CLUSTER),
        ('#!/bin/bash\n/etc/eks/bootstrap.sh "$UNSET"\n', BootFailureReason.NO_CLUSTER),
        ("#!/bin/bash\n# /etc/eks/bootstrap.sh prod\n", BootFailureReason.NO_BOOTSTRAP),
        (script("--kubelet-extra-args '--max-pods=1"), BootFailureReason.UNREADABLE),
        (kubelet("run --max-pods=1"), BootFailureReason.REFUSED),
        (kubelet("--max-pods=1x"), BootFailureReason.REFUSED),
        (kubelet("--register-with-taints=nonsense"), BootFailureReason.REFUSED),
        (kubelet("--eviction-hard=memory.available=5%"), BootFailureReason.REFUSED),
    ],
)
def test_invalid_user_data_never_joins(text: str, reason: BootFailureReason) -> None:
    assert boot_failure(text) is reason


def test_a_script_with_the_cluster_name_alone_gets_the_rest_from_eks() -> None:
    node = boot_node("#!/bin/bash\n/etc/eks/bootstrap.sh prod\n", clusters=CLUSTERS)
    assert node.endpoint == CLUSTER.endpoint
    assert boot_failure("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n", clusters=CLUSTERS) is (
        BootFailureReason.OTHER_CLUSTER
    )


def test_an_al2_image_uses_the_script_and_ignores_node_configs() -> None:
    config = (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: other, "
        "apiServerEndpoint: x, certificateAuthority: Q0E=, cidr: 10.0.0.0/8}}\n"
    )
    text = mime(script()).replace(
        "--//--", f"--//\nContent-Type: application/node.eks.aws\n\n{config}\n--//--"
    )
    assert boot_node(text, image_name="amazon-eks-node-1.32-v20251120").cluster_name == "prod"
    assert boot_node(text, image_name="amazon-eks-node-al2023-x86_64").cluster_name == "other"
    assert boot_node(text).cluster_name == "other"


TOML_TARGET = """\
[settings.kubernetes]
api-server = "https://api.example.com"
cluster-certificate = "Q0E="
cluster-name = "prod"
"""


def toml(more: str = "") -> str:
    return TOML_TARGET + more


def test_every_bottlerocket_setting_is_read() -> None:
    node = boot_node(
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
    assert node.method is BootstrapMethod.BOTTLEROCKET
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"example.com/a": "b"}
    assert [str(taint) for taint in node.taints] == ["team=web:NoSchedule", "team:NoExecute"]
    assert node.max_pods == 42
    assert node.kube_reserved == {"cpu": 80, "memory": GIB, "ephemeral-storage": GIB}
    assert node.system_reserved == {"cpu": 100}
    assert node.eviction_hard["memory.available"] == "5%"
    assert node.dns == ("10.100.0.10",)
    assert node.local_disks
    assert node.other_config == {"image-gc-high-threshold-percent": "80"}


def test_bottlerocket_reserved_memory_depends_on_max_pods() -> None:
    assert boot_node(toml("max-pods = 110\n")).kube_reserved["memory"] == 1465 * MIB
    assert boot_node(toml()).kube_reserved["memory"] == 893 * MIB


def test_pods_use_the_second_volume() -> None:
    disks = {"/dev/xvda": 4, "/dev/xvdb": 75}
    assert boot_node(toml(), disks=disks).capacity["ephemeral-storage"] == 75 * GIB
    assert boot_node(toml()).capacity["ephemeral-storage"] == 20 * GIB


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[settings.kubernetes]\ncluster-name = 'x'\n", BootFailureReason.NO_CLUSTER),
        ("[settings]\nkubernetes = 3\n", BootFailureReason.UNREADABLE),
        (toml("max-pods = '42'\n"), BootFailureReason.REFUSED),
        (toml("[settings.kubernetes.kube-reserved]\nmemory = 5\n"), BootFailureReason.REFUSED),
        (toml("[settings.kubernetes.node-taints]\na = 'web'\n"), BootFailureReason.REFUSED),
        (toml("max-pods = \n"), BootFailureReason.NO_BOOTSTRAP),
        ("[other]\na = 1\n", BootFailureReason.NO_BOOTSTRAP),
        (toml("max-pods = 2147483648\n"), BootFailureReason.REFUSED),
        (f"settings = {'[' * 2000}", BootFailureReason.NO_BOOTSTRAP),
    ],
)
def test_invalid_bottlerocket_settings_never_join(text: str, reason: BootFailureReason) -> None:
    assert boot_failure(text) is reason


def test_a_boot_command_that_is_no_list_stripes_no_disks() -> None:
    assert not boot_node(toml("[settings.bootstrap-commands.a]\ncommands = 5\n")).local_disks


def test_a_bottlerocket_image_reports_invalid_toml() -> None:
    image = "bottlerocket-aws-k8s-1.36-x86_64-v1.51.0-abcdef01"
    for setting in ("", "9" * 5000, "[" * 2000, "0x" + "f" * 5000):
        text = toml(f"max-pods = {setting}\n")
        assert boot_failure(text, image_name=image) is BootFailureReason.UNREADABLE


def windows(arguments: str = "", before: str = "") -> str:
    return (
        f"<powershell>\n{before}"
        '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\EKS\\Start-EKSBootstrap.ps1"\n'
        "& $EKSBootstrapScriptFile -EKSClusterName 'prod' -APIServerEndpoint "
        f"'https://api.example.com' -Base64ClusterCA 'Q0E=' {arguments}\n</powershell>\n"
    )


def test_every_powershell_argument_is_read() -> None:
    node = boot_node(
        windows(
            """-DNSClusterIP '10.100.0.10' -KubeletExtraArgs '--node-labels="a=b,c=its" """
            """--register-with-taints="os=windows:NoSchedule" --max-pods=50'"""
        )
    )
    assert node.method is BootstrapMethod.WINDOWS
    assert (node.cluster_name, node.endpoint) == ("prod", "https://api.example.com")
    assert node.labels == {"a": "b", "c": "its"}
    assert [str(taint) for taint in node.taints] == ["os=windows:NoSchedule"]
    assert node.max_pods == 50
    assert node.dns == ("10.100.0.10",)
    assert node.kube_reserved["memory"] == (255 + 11 * 50) * MIB


def test_a_doubled_quote_is_one_quote() -> None:
    node = boot_node(windows('-KubeletExtraArgs "--x=""a b"" --max-pods=9"'))
    assert (node.max_pods, node.other_config) == (9, {"x": "a b"})


def test_windows_defaults_to_110_pods_and_a_50_gib_volume() -> None:
    node = boot_node(windows(), "m5.large")
    assert node.max_pods == 110
    assert node.capacity["ephemeral-storage"] == 50 * GIB


POWERSHELL_TABLE = """\
$MaxPodsTable = @'
# wain:max-pods begin
m5.xlarge=17
*=60
# wain:max-pods end
'@
"""


@pytest.mark.parametrize(("kind", "pods"), [("m5.xlarge", 17), ("c5.large", 60)])
def test_a_powershell_script_looks_up_the_max_pods_of_its_type(kind: str, pods: int) -> None:
    arguments = """-KubeletExtraArgs ('--node-labels="a=b"' + " --max-pods=$MaxPods")"""
    node = boot_node(windows(arguments, POWERSHELL_TABLE), kind)
    assert (node.max_pods, node.labels) == (pods, {"a": "b"})


def test_powershell_variables_quotes_and_line_continuations() -> None:
    text = windows('`\n  -kubeletextraargs "--node-labels=a=$Team --max-pods=${Pods}"', "").replace(
        "<powershell>\n", "<PowerShell>\n$team = 'web'\n[string]$Pods = \"9\"\n"
    )
    node = boot_node(text.replace("</powershell>", "</PowerShell>"))
    assert (node.max_pods, node.labels) == (9, {"a": "web"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<powershell>\necho hello\n</powershell>", BootFailureReason.NO_BOOTSTRAP),
        (windows().replace("'prod'", "''"), BootFailureReason.NO_CLUSTER),
        (windows().replace("& $EKS", "# & $EKS"), BootFailureReason.NO_BOOTSTRAP),
        (windows("-KubeletExtraArgs '--max-pods=1"), BootFailureReason.UNREADABLE),
        (windows("-KubeletExtraArgs"), BootFailureReason.UNREADABLE),
        (windows("-KubeletExtraArgs '--max-pods=1x'"), BootFailureReason.REFUSED),
    ],
)
def test_an_invalid_powershell_script_never_joins(text: str, reason: BootFailureReason) -> None:
    assert boot_failure(text) is reason


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
def test_a_node_has_labels_of_kubelet_and_cloud_controller(
    text: str, image: str, system: str, build: str | None
) -> None:
    node = boot_node(text, image_name=image)
    labels = node_labels(node, boot_facts(image_name=image))
    assert labels["kubernetes.io/os"] == system
    assert labels["kubernetes.io/arch"] == "amd64"
    assert labels["kubernetes.io/hostname"] == "ip-192-168-1-1.us-west-2.compute.internal"
    assert labels["node.kubernetes.io/instance-type"] == "m5.xlarge"
    assert labels["topology.kubernetes.io/zone"] == "us-west-2a"
    assert labels["topology.k8s.aws/zone-id"] == "usw2-az1"
    assert labels.get("node.kubernetes.io/windows-build") == build
