"""User data of AL2, run by a real shell up to the call of bootstrap.sh."""

import shlex
import subprocess
from email import message_from_string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions, IpFamily
from wainwright.aws.userdata.user_data import build_user_data
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, InstanceStorePolicy
from wainwright.errors import InvalidInputError
from wainwright.model.taints import Taint

PLAIN = BootstrapOptions(
    cluster="wain", endpoint="https://wain.example.com", ca="Y2E=", labels={"team": "web"}
)
MIXED = {"m5.large": 29, "t3.large": 35, "m5.xlarge": 58}
FAKE_CURL = '#!/bin/bash\ncase "$*" in *instance-type) echo -n m5.xlarge ;; *) echo -n T ;; esac\n'
FAKE_BOOTSTRAP = "#!/bin/bash\nprintf '%s\\0' \"$@\"\n"


def written(**changes: Any) -> str:
    return build_user_data(AmiFamily.AL2, msgspec.structs.replace(PLAIN, **changes)).text


def scripts(text: str) -> list[str]:
    leaves = [each for each in message_from_string(text).walk() if not each.is_multipart()]
    assert {each.get_content_type() for each in leaves} == {"text/x-shellscript"}
    return [str(each.get_payload()) for each in leaves]


def called(text: str, where: Path) -> list[str]:
    """The arguments that bootstrap.sh is called with."""
    for name, content in (("curl", FAKE_CURL), ("bootstrap.sh", FAKE_BOOTSTRAP)):
        (where / name).write_text(content)
        (where / name).chmod(0o755)
    script = scripts(text)[-1].replace("/etc/eks/bootstrap.sh", "bootstrap.sh")
    env = {"PATH": f"{where}:/usr/bin:/bin"}
    ran = subprocess.run(
        ["/bin/bash", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    return ran.stdout.split("\0")[:-1]


def options(arguments: list[str]) -> dict[str, str]:
    return dict(zip(arguments[1::2], arguments[2::2], strict=True))


def kubelet(arguments: list[str]) -> dict[str, str]:
    """The kubelet's flags as its service manager passes them: split, without quotes."""
    words = shlex.split(options(arguments)["--kubelet-extra-args"])
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def test_the_node_gets_its_cluster_settings(tmp_path: Path) -> None:
    found = called(written(dns_ip="10.100.0.10"), tmp_path)
    assert found[0] == "wain"
    assert options(found)["--apiserver-endpoint"] == "https://wain.example.com"
    assert options(found)["--b64-cluster-ca"] == "Y2E="
    assert options(found)["--dns-cluster-ip"] == "10.100.0.10"
    assert "--ip-family" not in options(found)


def test_an_ipv6_cluster_sets_the_ip_family(tmp_path: Path) -> None:
    found = options(called(written(ip_family=IpFamily.IPV6, service_cidr="fd00::/108"), tmp_path))
    assert (found["--ip-family"], found["--service-ipv6-cidr"]) == ("ipv6", "fd00::/108")


def test_labels_and_taints_go_to_the_kubelet(tmp_path: Path) -> None:
    taints = (Taint(key="gpu", value="true", effect="NoExecute"), Taint(key="old"))
    found = kubelet(called(written(taints=taints, startup_taints=(Taint(key="new"),)), tmp_path))
    assert found["--node-labels"] == "karpenter.sh/do-not-sync-taints=true,team=web"
    assert found["--register-with-taints"] == (
        "gpu=true:NoExecute,karpenter.sh/unregistered=:NoExecute,new=:NoSchedule,old=:NoSchedule"
    )


def test_kubelet_settings_become_flags(tmp_path: Path) -> None:
    settings = KubeletConfiguration(
        clusterDNS=["10.0.0.10", "10.0.0.11"],
        podsPerCore=4,
        systemReserved={"memory": "200Mi", "cpu": "100m"},
        kubeReserved={"ephemeral-storage": "2Gi"},
        evictionHard={"nodefs.available": "10%", "memory.available": "5%", "pid.available": ""},
        evictionSoft={"memory.available": "500Mi"},
        evictionSoftGracePeriod={"memory.available": "1m"},
        evictionMaxPodGracePeriod=60,
        imageGCHighThresholdPercent=80,
        imageGCLowThresholdPercent=50,
        cpuCFSQuota=False,
    )
    found = called(written(kubelet=settings), tmp_path)
    assert options(found)["--dns-cluster-ip"] == "10.0.0.10,10.0.0.11"
    flags = kubelet(found)
    del flags["--node-labels"], flags["--register-with-taints"]
    assert flags == {
        "--pods-per-core": "4",
        "--system-reserved": "cpu=100m,memory=200Mi",
        "--kube-reserved": "ephemeral-storage=2Gi",
        "--eviction-hard": "memory.available<5%,nodefs.available<10%",
        "--eviction-soft": "memory.available<500Mi",
        "--eviction-soft-grace-period": "memory.available=1m",
        "--eviction-max-pod-grace-period": "60",
        "--image-gc-high-threshold": "80",
        "--image-gc-low-threshold": "50",
        "--cpu-cfs-quota": "false",
    }


def test_the_raid0_policy_stripes_local_disks(tmp_path: Path) -> None:
    found = called(written(instance_store=InstanceStorePolicy.RAID0), tmp_path)
    assert options(found)["--local-disks"] == "raid0"


@pytest.mark.parametrize(
    ("changes", "used", "pods"),
    [
        ({}, None, None),
        ({"max_pods": 110}, "false", "110"),
        ({"max_pods_by_type": {"m5.large": 29}}, "false", "29"),
        ({"max_pods_by_type": MIXED}, "false", "58"),
        ({"max_pods_by_type": MIXED | {"m5.xlarge": 110}, "max_pods": 110}, "false", "110"),
    ],
)
def test_the_node_gets_the_max_pods_of_its_instance_type(
    changes: dict[str, Any], used: str | None, pods: str | None, tmp_path: Path
) -> None:
    found = called(written(**changes), tmp_path)
    assert options(found).get("--use-max-pods") == used
    assert kubelet(found).get("--max-pods") == pods


KEPT = "cpu=80m,ephemeral-storage=1Gi,memory=475Mi"


@pytest.mark.parametrize(
    ("by_type", "own", "kept"),
    [
        ({"m5.xlarge": KEPT}, {}, [KEPT]),
        ({"m5.xlarge": KEPT}, {"pid": "100"}, ["pid=100", KEPT]),
        ({"m5.large": KEPT}, {"pid": "100"}, ["pid=100"]),
        ({"m5.large": KEPT}, {}, []),
        ({}, {}, []),
    ],
)
def test_the_kubelet_reserves_the_value_of_its_instance_type(
    by_type: dict[str, str], own: dict[str, str], kept: list[str], tmp_path: Path
) -> None:
    text = written(
        max_pods_by_type=MIXED,
        kube_reserved_by_type=by_type,
        kubelet=KubeletConfiguration(kubeReserved=own),
    )
    words = shlex.split(options(called(text, tmp_path))["--kubelet-extra-args"])
    flags = [each for each in words if each.startswith("--kube-reserved=")]
    assert flags == [f"--kube-reserved={each}" for each in kept]
    assert "--max-pods=58" in words


def test_user_scripts_run_first() -> None:
    assert scripts(written(custom_user_data="#!/bin/sh\necho hi\n"))[0] == "#!/bin/sh\necho hi\n"
    own = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n'
        "--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\none\n"
        "--X\nContent-Type: text/x-shellscript\n\n#!/bin/sh\ntwo\n--X--\n"
    )
    found = scripts(written(custom_user_data=own))
    assert found[:2] == ["#!/bin/sh\none", "#!/bin/sh\ntwo"]
    assert "bootstrap.sh" in found[2]


@pytest.mark.parametrize("grace", ["1 m", "1m'", '1m"', "1m,2m", "$HOME", "1m\\"])
def test_values_that_break_the_command_line_are_rejected(grace: str) -> None:
    settings = KubeletConfiguration(evictionSoftGracePeriod={"memory.available": grace})
    with pytest.raises(InvalidInputError, match="command line"):
        written(kubelet=settings)


ODD = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)


@given(ODD, ODD, ODD)
def test_the_shell_expands_nothing(cluster: str, endpoint: str, ca: str) -> None:
    text = written(cluster=cluster, endpoint=endpoint, ca=ca, dns_ip=endpoint)
    words = shlex.split(scripts(text)[-1].splitlines()[-1])
    assert words[1] == cluster
    found = dict(zip(words[2::2], words[3::2], strict=True))
    assert found["--apiserver-endpoint"] == found["--dns-cluster-ip"] == endpoint
    assert found["--b64-cluster-ca"] == ca
