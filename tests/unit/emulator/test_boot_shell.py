"""AL2: the call of bootstrap.sh in the last script, and its arguments."""

import pytest
from tests.support.machines import CLUSTER, CLUSTERS, joined, why_not

from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.reasons import Reason

MIB, GIB = 2**20, 2**30
TARGET = "'prod' --apiserver-endpoint 'https://api.example.com' --b64-cluster-ca 'Q0E='"


def script(arguments: str = "", before: str = "") -> str:
    return f"#!/bin/bash -xe\n{before}/etc/eks/bootstrap.sh {TARGET} {arguments}\n"


def kubelet(flags: str) -> str:
    return script(f"--kubelet-extra-args '{flags}'")


def mime(*scripts: str) -> str:
    lines = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="//"', ""]
    for text in scripts:
        lines += ["--//", 'Content-Type: text/x-shellscript; charset="us-ascii"', "", text]
    return "\n".join([*lines, "--//--", ""])


def test_everything_comes_out_of_the_call() -> None:
    node = joined(
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
    assert node.family is Family.SHELL
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
    assert node.rest == {"cpu-cfs-quota": "false"}


def test_what_is_not_said_is_the_images_own() -> None:
    node = joined(script())
    assert node.max_pods == 58
    assert node.kube_reserved["memory"] == (255 + 11 * 58) * MIB
    assert node.eviction_hard["memory.available"] == "100Mi"


def test_without_its_own_number_the_kubelet_takes_110() -> None:
    assert joined(script("--use-max-pods false")).max_pods == 110


def test_a_flag_that_is_a_map_takes_the_place_of_the_whole_map() -> None:
    node = joined(kubelet("--kube-reserved=memory=1Gi --eviction-hard=memory.available<1Gi"))
    assert node.kube_reserved == {"memory": GIB}
    assert node.allocatable["cpu"] == node.capacity["cpu"]
    assert node.allocatable["ephemeral-storage"] == node.capacity["ephemeral-storage"]


def test_flags_with_a_blank_and_flags_given_twice() -> None:
    node = joined(
        kubelet("--max-pods 5 --node-labels a=1 --node-labels=a=2,b=3 --max-pods=6 --quiet")
    )
    assert node.max_pods == 6
    assert node.labels == {"a": "2", "b": "3"}
    assert node.rest == {"quiet": "true"}


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
        script("--use-max-pods=false"),  # no option of the script, and so a name to it
    ],
)
def test_the_last_call_counts_up_to_its_end(text: str) -> None:
    assert joined(text).max_pods == 58


def test_arguments_may_go_over_several_lines() -> None:
    node = joined(script("--kubelet-extra-args '--max-pods=7\n  --node-labels=a=b'"))
    assert (node.max_pods, node.labels) == (7, {"a": "b"})


def test_variables_are_those_that_the_script_sets() -> None:
    text = (
        '#!/bin/bash\nNAME="prod"\nexport PODS=33\nHOST=$(hostname)\n'
        "/etc/eks/bootstrap.sh ${NAME} --b64-cluster-ca 'Q0E=' "
        '--kubelet-extra-args "--max-pods=$PODS --node-labels=host=$HOST"\n'
    )
    node = joined(text)
    assert (node.cluster_name, node.max_pods, node.labels) == ("prod", 33, {"host": ""})


TABLE = """\
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
def test_a_script_looks_up_the_pods_of_its_type(kind: str, pods: int) -> None:
    node = joined(mime(script(CALL, TABLE)), kind)
    assert node.max_pods == pods
    assert node.labels == {"a": "b"}


KEEP = CALL.removesuffix('"') + '${kube_reserved:+ --kube-reserved=$kube_reserved}"'


def test_a_script_looks_up_what_its_kubelet_keeps() -> None:
    text = mime(script(KEEP, TABLE.replace("=17", "=17=cpu=80m,memory=442Mi")))
    assert joined(text).kube_reserved == {"cpu": 80, "memory": 442 * MIB}
    other = joined(text, "m5.large")
    assert (other.max_pods, other.kube_reserved["memory"]) == (29, (255 + 11 * 29) * MIB)


def test_without_its_table_the_number_is_missing() -> None:
    assert why_not(script(CALL)) is Reason.REFUSED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/bash\n/etc/eks/bootstrap.sh --use-max-pods false\n", Reason.NO_CLUSTER),
        ('#!/bin/bash\n/etc/eks/bootstrap.sh "$UNSET"\n', Reason.NO_CLUSTER),
        ("#!/bin/bash\n# /etc/eks/bootstrap.sh prod\n", Reason.NO_BOOTSTRAP),
        (script("--kubelet-extra-args '--max-pods=1"), Reason.UNREADABLE),
        (kubelet("run --max-pods=1"), Reason.REFUSED),
        (kubelet("--max-pods=1x"), Reason.REFUSED),
        (kubelet("--register-with-taints=nonsense"), Reason.REFUSED),
        (kubelet("--eviction-hard=memory.available=5%"), Reason.REFUSED),
    ],
)
def test_bad_user_data_makes_a_machine_that_never_joins(text: str, reason: Reason) -> None:
    assert why_not(text) is reason


def test_a_script_that_is_told_only_the_name_asks_eks_for_the_rest() -> None:
    node = joined("#!/bin/bash\n/etc/eks/bootstrap.sh prod\n", clusters=CLUSTERS)
    assert node.endpoint == CLUSTER.endpoint
    assert why_not("#!/bin/bash\n/etc/eks/bootstrap.sh dev\n", clusters=CLUSTERS) is (
        Reason.OTHER_CLUSTER
    )


def test_an_al2_image_takes_the_script_where_there_is_a_config_as_well() -> None:
    config = (
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: other, "
        "apiServerEndpoint: x, certificateAuthority: Q0E=, cidr: 10.0.0.0/8}}\n"
    )
    text = mime(script()).replace(
        "--//--", f"--//\nContent-Type: application/node.eks.aws\n\n{config}\n--//--"
    )
    assert joined(text, image_name="amazon-eks-node-1.32-v20251120").cluster_name == "prod"
    assert joined(text, image_name="amazon-eks-node-al2023-x86_64").cluster_name == "other"
    assert joined(text).cluster_name == "other"
