"""User data of AL2023, read back as nodeadm, cloud-init and the kubelet would."""

import json
import re
import subprocess
from email import message_from_string
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import build_user_data
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, InstanceStorePolicy
from wainwright.errors import InvalidInputError
from wainwright.model.taints import Taint

PLAIN = BootstrapOptions(
    cluster="wain",
    endpoint="https://wain.example.com",
    ca="Y2E=",
    service_cidr="10.100.0.0/16",
    labels={"team": "web"},
)
MIXED = {"m5.large": 29, "t3.large": 35, "m5.xlarge": 58}


def written(**changes: Any) -> str:
    return build_user_data(AmiFamily.AL2023, msgspec.structs.replace(PLAIN, **changes)).text


def parts(text: str) -> list[tuple[str, str]]:
    message = message_from_string(text)
    assert message.is_multipart()
    leaves = [each for each in message.walk() if not each.is_multipart()]
    return [(each.get_content_type(), str(each.get_payload())) for each in leaves]


def config(text: str) -> dict[str, Any]:
    """The last NodeConfig, which overrides the others."""
    kind, body = parts(text)[-1]
    assert kind == "application/node.eks.aws"
    found: dict[str, Any] = yaml.safe_load(body)
    return found


def kubelet(text: str) -> dict[str, Any]:
    found: dict[str, Any] = config(text)["spec"]["kubelet"]["config"]
    return found


def labels(text: str) -> dict[str, str]:
    (flag,) = config(text)["spec"]["kubelet"]["flags"]
    assert flag.startswith("--node-labels=")
    return dict(each.split("=") for each in flag.removeprefix("--node-labels=").split(","))


def test_the_node_gets_its_cluster_settings() -> None:
    found = config(written())
    assert (found["apiVersion"], found["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert found["spec"]["cluster"] == {
        "name": "wain",
        "apiServerEndpoint": "https://wain.example.com",
        "certificateAuthority": "Y2E=",
        "cidr": "10.100.0.0/16",
    }


def test_al2023_requires_the_service_cidr() -> None:
    with pytest.raises(InvalidInputError, match="service CIDR"):
        written(service_cidr="")


def test_claim_and_startup_taints_are_registered_with_the_unregistered_taint() -> None:
    gpu = Taint(key="gpu", value="true", effect="NoExecute")
    found = kubelet(written(taints=(gpu,), startup_taints=(Taint(key="cilium"), gpu)))
    assert found["registerWithTaints"] == [
        {"key": "cilium", "effect": "NoSchedule"},
        {"key": "gpu", "value": "true", "effect": "NoExecute"},
        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
    ]


def test_the_kubelet_sets_only_labels_that_it_is_allowed_to() -> None:
    asked = {
        "team": "web",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "us-east-1a",
        "node-restriction.kubernetes.io/tier": "gold",
        "kops.k8s.io/instancegroup": "nodes",
        "notkubernetes.io/fine": "yes",
    }
    assert labels(written(labels=asked)) == {
        "team": "web",
        "karpenter.sh/nodepool": "default",
        "karpenter.k8s.aws/ec2nodeclass": "default",
        "karpenter.sh/do-not-sync-taints": "true",
        "notkubernetes.io/fine": "yes",
    }


EVERYTHING = KubeletConfiguration(
    clusterDNS=["10.0.0.10", "10.0.0.11"],
    maxPods=7,
    podsPerCore=4,
    systemReserved={"cpu": "100m", "memory": "200Mi"},
    kubeReserved={"ephemeral-storage": "2Gi", "pid": "100"},
    evictionHard={"memory.available": "5%", "nodefs.inodesFree": ""},
    evictionSoft={"memory.available": "500Mi"},
    evictionSoftGracePeriod={"memory.available": '1m "quoted"'},
    evictionMaxPodGracePeriod=60,
    imageGCHighThresholdPercent=80,
    imageGCLowThresholdPercent=0,
    cpuCFSQuota=False,
)


def test_every_kubelet_setting_is_passed_on() -> None:
    found = kubelet(written(kubelet=EVERYTHING, max_pods=110))
    assert found == {
        "clusterDNS": ["10.0.0.10", "10.0.0.11"],
        "maxPods": 110,
        "podsPerCore": 4,
        "systemReserved": {"cpu": "100m", "memory": "200Mi"},
        "kubeReserved": {"ephemeral-storage": "2Gi", "pid": "100"},
        "evictionHard": {"memory.available": "5%"},
        "evictionSoft": {"memory.available": "500Mi"},
        "evictionSoftGracePeriod": {"memory.available": '1m "quoted"'},
        "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 80,
        "imageGCLowThresholdPercent": 0,
        "cpuCFSQuota": False,
        "registerWithTaints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}],
    }


def test_the_cluster_dns_is_the_default_of_the_class() -> None:
    assert kubelet(written(dns_ip="10.100.0.10"))["clusterDNS"] == ["10.100.0.10"]
    assert "clusterDNS" not in kubelet(written())


def test_the_raid0_policy_stripes_local_disks() -> None:
    striped = config(written(instance_store=InstanceStorePolicy.RAID0))
    assert striped["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in config(written())["spec"]


def test_without_max_pods_nodeadm_computes_its_own() -> None:
    assert "maxPods" not in kubelet(written())
    assert len(parts(written())) == 1


def test_one_number_for_all_types_needs_no_script() -> None:
    text = written(max_pods_by_type={"m5.large": 29, "c5.large": 29})
    assert kubelet(text)["maxPods"] == 29
    assert [kind for kind, _ in parts(text)] == ["application/node.eks.aws"]


FAKE_CURL = '#!/bin/bash\ncase "$*" in *instance-type) echo -n m5.xlarge ;; *) echo -n T ;; esac\n'


def run_script(text: str, etc: Path) -> None:
    """Runs our shell part with the kubelet's files in a temporary directory."""
    (body,) = (body for kind, body in parts(text) if kind == "text/x-shellscript")
    curl = etc / "curl"
    curl.write_text(FAKE_CURL)
    curl.chmod(0o755)
    script = body.replace("/etc/kubernetes/kubelet", str(etc))
    env = {"PATH": f"{etc}:/usr/bin:/bin"}
    subprocess.run(["/bin/bash", "-c", script], env=env, check=True, capture_output=True)


def test_the_script_adds_a_drop_in_that_overrides_nodeadm(tmp_path: Path) -> None:
    drop_ins = tmp_path / "config.json.d"
    drop_ins.mkdir()
    (drop_ins / "40-nodeadm.conf").write_text('{"maxPods": 29}')
    run_script(written(max_pods_by_type=MIXED), tmp_path)
    last = max(drop_ins.glob("*.conf"))
    assert json.loads(last.read_text()) == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 58,
    }


def test_the_script_changes_the_only_file_of_older_kubelets(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"kind": "KubeletConfiguration", "maxPods": 29, "x": 1}, indent=4))
    run_script(written(max_pods_by_type=MIXED), tmp_path)
    expected = {"kind": "KubeletConfiguration", "maxPods": 58, "x": 1}
    assert json.loads(file.read_text()) == expected


def test_the_script_sets_the_memory_that_the_kubelet_reserves(tmp_path: Path) -> None:
    drop_ins = tmp_path / "config.json.d"
    drop_ins.mkdir()
    run_script(
        written(max_pods_by_type=MIXED, kube_reserved_by_type={"m5.xlarge": "memory=475Mi"}),
        tmp_path,
    )
    pods, kept = (json.loads(each.read_text()) for each in sorted(drop_ins.glob("*.conf")))
    assert pods["maxPods"] == 58
    assert kept == {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "kubeReserved": {"memory": "475Mi"},
    }


def test_a_type_without_kube_reserved_uses_the_value_of_its_image(tmp_path: Path) -> None:
    drop_ins = tmp_path / "config.json.d"
    drop_ins.mkdir()
    run_script(
        written(max_pods_by_type=MIXED, kube_reserved_by_type={"t3.large": "memory=475Mi"}),
        tmp_path,
    )
    assert [each.name for each in drop_ins.iterdir()] == ["90-wain-max-pods.conf"]


def test_with_older_kubelets_only_the_memory_of_kube_reserved_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    before = {
        "evictionHard": {"memory.available": "100Mi"},
        "kubeReserved": {"cpu": "80m", "ephemeral-storage": "1Gi", "memory": "893Mi"},
        "maxPods": 58,
        "systemReserved": {"memory": "200Mi"},
    }
    file.write_text(json.dumps(before, indent=4))
    run_script(
        written(max_pods_by_type=MIXED, kube_reserved_by_type={"m5.xlarge": "memory=475Mi"}),
        tmp_path,
    )
    kept = before["kubeReserved"] | {"memory": "475Mi"}  # type: ignore[operator]
    assert json.loads(file.read_text()) == before | {"kubeReserved": kept}


def test_an_instance_of_unknown_type_gets_the_smallest_max_pods() -> None:
    assert kubelet(written(max_pods_by_type=MIXED))["maxPods"] == 29


NESTED_MIME = "MIME-Version: 1.0\n" + "Content-Type: message/rfc822\n\n" * 500
BASH = "#!/bin/bash\n"
OWN_CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      maxParallelImagePulls: 5
"""


def test_a_nodeconfig_of_the_user_comes_before_ours() -> None:
    found = parts(written(custom_user_data=OWN_CONFIG))
    assert [kind for kind, _ in found] == ["application/node.eks.aws"] * 2
    assert found[0][1] == OWN_CONFIG


def test_several_nodeconfigs_become_several_parts() -> None:
    found = parts(written(custom_user_data=f"---\n{OWN_CONFIG}---\n{OWN_CONFIG}"))
    assert [yaml.safe_load(body) for _, body in found[:2]] == [yaml.safe_load(OWN_CONFIG)] * 2
    assert len(found) == 3


@pytest.mark.parametrize(
    ("text", "kind", "body"),
    [
        ("#!/bin/sh\necho hi\n", "text/x-shellscript", "#!/bin/sh\necho hi\n"),
        ("\n#!/bin/sh\necho hi\n", "text/x-shellscript", "#!/bin/sh\necho hi\n"),
        ("echo hi", "text/x-shellscript", "#!/bin/bash\necho hi"),
        ("kind: Pod\n", "text/x-shellscript", "#!/bin/bash\nkind: Pod\n"),
        ("a: [", "text/x-shellscript", "#!/bin/bash\na: ["),
        ("when: 2026-99-99", "text/x-shellscript", "#!/bin/bash\nwhen: 2026-99-99"),
        ("#cloud-config\nruncmd: []\n", "text/cloud-config", "#cloud-config\nruncmd: []\n"),
        ("#cloud-boothook\ntrue\n", "text/cloud-boothook", "#cloud-boothook\ntrue\n"),
        (
            f"cat <<EOF\n{OWN_CONFIG}EOF\n",
            "text/x-shellscript",
            f"{BASH}cat <<EOF\n{OWN_CONFIG}EOF\n",
        ),
        (f"#!/bin/sh\n{OWN_CONFIG}x: [", "text/x-shellscript", f"#!/bin/sh\n{OWN_CONFIG}x: ["),
    ],
)
def test_other_user_data_runs_before_ours(text: str, kind: str, body: str) -> None:
    assert parts(written(custom_user_data=text))[0] == (kind, body)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{OWN_CONFIG}  more: [", "line 8: not YAML"),
        (f"\n# of the web team\n---\n{OWN_CONFIG}  x: *none", "alias \\*none is not defined"),
        (f"{OWN_CONFIG}  when: !!timestamp x", "the tag .* is not allowed"),
        ("{a: " * 2000, "more than 100 levels of nesting"),
        (NESTED_MIME, "is MIME, and cannot be read: more than 100 levels"),
    ],
)
def test_user_data_that_cannot_be_read_is_refused_with_the_reason(text: str, message: str) -> None:
    """Run as a script, a NodeConfig with a mistake would be lost without a word."""
    with pytest.raises(InvalidInputError, match=message):
        written(custom_user_data=text)


def test_numbers_that_no_parser_prints_stay_text() -> None:
    first = f"{OWN_CONFIG}  x: 0x{'f' * 5000}\n"
    found = parts(written(custom_user_data=f"{first}---\n{OWN_CONFIG}"))
    assert yaml.load(found[0][1], yaml.BaseLoader)["spec"]["x"] == f"0x{'f' * 5000}"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_empty_user_data_adds_nothing(text: str) -> None:
    assert written(custom_user_data=text) == written()


OWN_MIME = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo "--// and more"
--BOUNDARY
Content-Type: text/cloud-config
Content-Transfer-Encoding: base64

I2Nsb3VkLWNvbmZpZwo=
--BOUNDARY--
"""


def test_the_parts_of_the_user_come_first_and_unchanged() -> None:
    found = list(message_from_string(written(custom_user_data=OWN_MIME)).walk())[1:]
    assert str(found[0].get_payload()) == '#!/bin/bash\necho "--// and more"'
    assert found[1].get_payload(decode=True) == b"#cloud-config\n"
    assert found[2].get_content_type() == "application/node.eks.aws"


def test_a_line_like_our_boundary_does_not_divide_a_part() -> None:
    body = "#!/bin/bash\ncat <<EOF\n--//\n--=1=\nEOF\n"
    found = parts(written(custom_user_data=body))
    assert found[0] == ("text/x-shellscript", body)
    assert len(found) == 2


def test_mime_without_parts_is_rejected() -> None:
    text = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="X"\n\n--Y\n\nhi\n--Y--\n'
    with pytest.raises(InvalidInputError, match="several parts"):
        written(custom_user_data=text)


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": {"team": "web,ops"}},
        {"labels": {"team": 'we"b'}},
        {"labels": {"te am": "web"}},
        {"taints": (Taint(key="gpu", value="a b"),)},
        {"startup_taints": (Taint(key="gpu=x"),)},
    ],
)
def test_labels_and_taints_that_kubernetes_rejects_are_rejected_at_once(
    changes: dict[str, Any],
) -> None:
    with pytest.raises(InvalidInputError, match="Kubernetes accepts no"):
        written(**changes)


WORD = st.from_regex(
    re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,8}[A-Za-z0-9])?", re.ASCII), fullmatch=True
)
LABELS = st.dictionaries(
    st.builds(lambda domain, name: f"{domain}{name}", st.sampled_from(["", "example.com/"]), WORD),
    WORD | st.just(""),
    max_size=5,
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
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(LABELS, TAINTS, TEXT, TEXT)
def test_every_valid_label_and_taint_survives(
    asked: dict[str, str], taints: list[Taint], grace: str, name: str
) -> None:
    made = written(
        labels=asked,
        taints=tuple(taints),
        cluster=name,
        kubelet=KubeletConfiguration(evictionSoftGracePeriod={"memory.available": grace}),
    )
    assert labels(made) == asked | {"karpenter.sh/do-not-sync-taints": "true"}
    found = {
        (each["key"], each.get("value", ""), each["effect"])
        for each in kubelet(made)["registerWithTaints"]
    }
    ours = ("karpenter.sh/unregistered", "", "NoExecute")
    assert found == {(each.key, each.value, each.effect) for each in taints} | {ours}
    assert config(made)["spec"]["cluster"]["name"] == name
    assert kubelet(made)["evictionSoftGracePeriod"] == {"memory.available": grace}


@given(LABELS, TAINTS, st.dictionaries(st.sampled_from(list(MIXED)), st.integers(1, 9)))
def test_equal_input_gives_equal_bytes(
    asked: dict[str, str], taints: list[Taint], max_pods_by_type: dict[str, int]
) -> None:
    def backwards(found: dict[str, Any]) -> dict[str, Any]:
        return dict(reversed(found.items()))

    one = written(labels=asked, taints=tuple(taints), max_pods_by_type=max_pods_by_type)
    other = written(
        labels=backwards(asked),
        taints=tuple(reversed(taints)),
        max_pods_by_type=backwards(max_pods_by_type),
    )
    assert one == other
