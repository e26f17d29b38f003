"""User data of Bottlerocket, read back as TOML."""

import tomllib
from datetime import date, datetime, time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.bottlerocket import to_toml
from wainwright.aws.userdata.user_data import build_user_data
from wainwright.catalogue.instancetypes.node_class_settings import AmiFamily, InstanceStorePolicy
from wainwright.errors import InvalidInputError
from wainwright.model.taints import Taint

PLAIN = BootstrapOptions(
    cluster="wain", endpoint="https://wain.example.com", ca="Y2E=", labels={"team": "web"}
)


def settings(**changes: Any) -> dict[str, Any]:
    text = build_user_data(AmiFamily.BOTTLEROCKET, msgspec.structs.replace(PLAIN, **changes)).text
    found: dict[str, Any] = tomllib.loads(text)["settings"]
    return found


def test_the_node_gets_its_cluster_settings() -> None:
    found = settings(dns_ip="10.100.0.10")["kubernetes"]
    assert found["cluster-name"] == "wain"
    assert found["api-server"] == "https://wain.example.com"
    assert found["cluster-certificate"] == "Y2E="
    assert found["cluster-dns-ip"] == "10.100.0.10"


def test_labels_and_taints_are_set() -> None:
    taints = (Taint(key="gpu", value="a"), Taint(key="gpu", value="b", effect="NoExecute"))
    found = settings(taints=taints)["kubernetes"]
    assert found["node-labels"] == {"karpenter.sh/do-not-sync-taints": "true", "team": "web"}
    assert found["node-taints"] == {
        "gpu": ["b:NoExecute", "a:NoSchedule"],
        "karpenter.sh/unregistered": [":NoExecute"],
    }


def test_kubelet_settings_have_the_names_of_bottlerocket() -> None:
    given_ = KubeletConfiguration(
        clusterDNS=["10.0.0.10", "10.0.0.11"],
        podsPerCore=4,
        systemReserved={"cpu": "100m"},
        kubeReserved={"memory": "1Gi"},
        evictionHard={"memory.available": "5%"},
        evictionSoft={"memory.available": "10%"},
        evictionSoftGracePeriod={"memory.available": "1m"},
        evictionMaxPodGracePeriod=60,
        imageGCHighThresholdPercent=80,
        imageGCLowThresholdPercent=50,
        cpuCFSQuota=False,
    )
    found = settings(kubelet=given_, max_pods=42)["kubernetes"]
    for owned in ("cluster-name", "api-server", "cluster-certificate", "node-labels"):
        del found[owned]
    del found["node-taints"]
    assert found == {
        "cluster-dns-ip": ["10.0.0.10", "10.0.0.11"],
        "system-reserved": {"cpu": "100m"},
        "kube-reserved": {"memory": "1Gi"},
        "eviction-hard": {"memory.available": "5%"},
        "eviction-soft": {"memory.available": "10%"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "eviction-max-pod-grace-period": 60,
        "image-gc-high-threshold-percent": "80",
        "image-gc-low-threshold-percent": "50",
        "cpu-cfs-quota-enforced": False,
        "max-pods": 42,
    }


def test_without_max_pods_bottlerocket_computes_its_own() -> None:
    assert "max-pods" not in settings(max_pods_by_type={"m5.large": 29})["kubernetes"]


OWN = """\
[settings.kernel.sysctl]
"vm.max_map_count" = "262144"
[settings.kubernetes]
cluster-name = "mine"
allowed-unsafe-sysctls = ["net.core.somaxconn"]
max-pods = 17
[settings.kubernetes.node-labels]
team = "theirs"
own = "label"
[settings.kubernetes.node-taints]
own = ["taint:NoSchedule"]
[settings.bootstrap-commands.111-hello]
commands = [["apiclient", "get"]]
mode = "once"
"""


def test_user_settings_are_kept_unless_they_are_ours() -> None:
    found = settings(custom_user_data=OWN, instance_store=InstanceStorePolicy.RAID0)
    kubernetes = found["kubernetes"]
    assert found["kernel"] == {"sysctl": {"vm.max_map_count": "262144"}}
    assert kubernetes["allowed-unsafe-sysctls"] == ["net.core.somaxconn"]
    assert kubernetes["max-pods"] == 17
    assert kubernetes["cluster-name"] == "wain"
    assert kubernetes["node-labels"]["team"] == "web"
    assert kubernetes["node-labels"]["own"] == "label"
    # A taint that the planner does not know of would keep off the pods that the node is for.
    assert list(kubernetes["node-taints"]) == ["karpenter.sh/unregistered"]
    commands = found["bootstrap-commands"]
    assert commands["111-hello"] == {"commands": [["apiclient", "get"]], "mode": "once"}
    assert commands["000-mount-instance-storage"]["commands"][0] == [
        "apiclient",
        "ephemeral-storage",
        "init",
    ]
    assert commands["000-mount-instance-storage"]["essential"] is True


def test_max_pods_of_the_class_overrides_the_users() -> None:
    assert settings(custom_user_data=OWN, max_pods=42)["kubernetes"]["max-pods"] == 42


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/bash\necho hi", "is TOML, and this is not"),
        ("settings = 1", "expected settings in the user data to be a table"),
        ("[settings]\nkubernetes = []", "expected kubernetes in the user data to be a table"),
        (f"settings = '{'x' * 9000}'", "to be a table, found 'x{79}$"),
        (f"a = {'9' * 5000}", "this is not: an integer of thousands of digits"),
        (f"a = 0x{'f' * 5000}", "this is not: an integer of more than 64 bits"),
        ("a = " + "[" * 2000, "this is not: more than 100 levels"),
        (f"[{'.'.join(['a'] * 2000)}]", "this is not: more than 100 levels"),
    ],
)
def test_user_data_that_is_not_toml_is_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        settings(custom_user_data=text)


SCALARS = (
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes()
)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
TABLES = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=5,
)


@given(TABLES)
def test_toml_round_trips(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


@given(TABLES)
def test_equal_tables_give_equal_toml(table: dict[str, Any]) -> None:
    assert to_toml(table) == to_toml(dict(reversed(table.items())))


def test_dates_and_times_are_written_as_toml() -> None:
    moments = {"a": datetime.fromisoformat("2026-01-02T03:04:05+00:00"), "b": date(2026, 1, 2)}
    assert tomllib.loads(to_toml(moments | {"c": time(3, 4, 5)})) == moments | {"c": time(3, 4, 5)}
