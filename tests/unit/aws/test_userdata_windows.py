"""User data of Windows, taken apart as PowerShell would."""

import re
import shlex
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.kubelet import Kubelet
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.write import user_data
from wainwright.catalogue.ami import AmiFamily
from wainwright.model.taints import Taint

PLAIN = Bootstrap(
    cluster="wain", endpoint="https://wain.example.com", ca="Y2E=", labels={"team": "web"}
)
ARGUMENT = re.compile(r"-(?P<name>\w+) \(?'(?P<value>(?:[^']|'')*)'(?P<more> \+ \"[^\"]*\"\))?")


def written(**changes: Any) -> str:
    return user_data(AmiFamily.WINDOWS2022, msgspec.structs.replace(PLAIN, **changes)).text


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


def test_the_node_finds_its_cluster() -> None:
    found = called(written(dns_ip="10.100.0.10"))
    del found["KubeletExtraArgs"]
    assert found == {
        "EKSClusterName": "wain",
        "APIServerEndpoint": "https://wain.example.com",
        "Base64ClusterCA": "Y2E=",
        "DNSClusterIP": "10.100.0.10",
    }


def test_settings_of_the_kubelet_become_flags() -> None:
    given_ = Kubelet(
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


def test_pods_by_type_are_looked_up() -> None:
    text = written(densities={"m5.large": 110, "m5.xlarge": 50, "c5.large": 110})
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
def test_lines_of_the_user_run_first(own: str) -> None:
    lines = written(text=own).splitlines()
    assert lines[:2] == ["<powershell>", "Write-Host 'hi'"]
    assert "\n".join(lines).lower().count("<powershell>") == 1


def test_what_stands_beside_the_users_script_is_kept() -> None:
    own = "<powershell>\nWrite-Host 'hi'\n</powershell>\n<persist>true</persist>"
    assert written(text=own).endswith("</powershell>\n<persist>true</persist>\n")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1))
def test_powershell_expands_nothing(odd: str) -> None:
    found = called(written(cluster=odd))
    assert found["EKSClusterName"] == odd
