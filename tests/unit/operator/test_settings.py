import json
from typing import Any

import pytest
from click.testing import CliRunner

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.cli.run import run
from wainwright.errors import InvalidInputError, UsageError
from wainwright.model.disruption import MinimumSaving
from wainwright.model.plan import MinValuesPolicy, PackingPolicy, PreferencePolicy
from wainwright.operator.process import EMULATOR, RunOptions, loop_settings
from wainwright.operator.settings import (
    OperatorSettings,
    read_settings,
    settings_without_effect,
)
from wainwright.sim.controller_options import controller_settings
from wainwright.sim.settings import FEATURE_GATES, NodeRepairMode

NAME = {"cluster_name": "shop"}


def sources(field: str, text: str) -> list[tuple[str, dict[str, str], dict[str, str]]]:
    """The setting as a flag and as a variable: its name there, the flags and the environment."""
    flag, variable = f"--{field.replace('_', '-')}", field.upper()
    return [(flag, {**NAME, field: text}, {}), (variable, NAME, {variable: text})]


def test_defaults_are_karpenters() -> None:
    assert read_settings(NAME, {}) == OperatorSettings(cluster_name="shop")


def test_a_flag_goes_before_the_variable_and_that_before_the_default() -> None:
    environment = {"CLUSTER_NAME": "other", "METRICS_PORT": "9000", "BATCH_MAX_DURATION": "1m30s"}
    found = read_settings({**NAME, "metrics_port": "9001"}, environment)
    assert (found.cluster_name, found.metrics_port, found.batch_max_duration) == ("shop", 9001, 90)


def test_an_empty_variable_is_not_set() -> None:
    assert read_settings(NAME, {"METRICS_PORT": ""}).metrics_port == 8080


def test_gates_that_are_not_named_keep_their_default() -> None:
    found = read_settings(NAME, {"FEATURE_GATES": "StaticCapacity=true, NodeOverlay=false"})
    gates = found.feature_gates
    assert (gates["StaticCapacity"], gates["NodeOverlay"], gates["NodeRepair"]) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize("value", ["true", "false"])
def test_gates_of_another_version_of_karpenter_have_no_effect(value: str) -> None:
    text = f"DynamicResources={value},StaticCapacity=true, Drift = {value},Drift={value}"
    for source, flags, environment in sources("feature_gates", text):
        gates = read_settings(flags, environment).feature_gates
        assert gates == {**FEATURE_GATES, "StaticCapacity": True}
        said = settings_without_effect(flags, environment)
        assert said == [f"DynamicResources in {source}", f"Drift in {source}"]


def test_a_gate_without_effect_is_said_once_and_ends_no_start() -> None:
    gates = "DynamicResources=true,DynamicResources=true"
    flags = ["--cluster-name", "shop", "--kubeconfig", "/nowhere", "--feature-gates", gates]
    found = CliRunner().invoke(run, flags, standalone_mode=False)
    assert found.stderr == "note: DynamicResources in --feature-gates has no effect here\n"
    assert "/nowhere" in str(found.exception), "it has come to look for a cluster"


def test_known_gates_have_effect() -> None:
    stated = {"feature_gates": ",".join(f"{name}=true" for name in FEATURE_GATES)}
    assert settings_without_effect({**NAME, **stated}, {}) == []


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("breaker_share", "30%", 0.3),
        ("breaker_share", "0.3", 0.3),
        ("breaker_window", "5m", 300.0),
        ("disable_leader_election", "true", True),
        ("disable_leader_election", "0", False),
        ("preference_policy", "Ignore", PreferencePolicy.IGNORE),
        ("min_values_policy", "BestEffort", MinValuesPolicy.BEST_EFFORT),
        ("kube_client_qps", "12.5", 12.5),
        ("vm_memory_overhead_percent", "0.1", 0.1),
        ("packing", "cost", PackingPolicy.COST),
        ("strict_weights", "true", True),
        ("min_saving", "5%", MinimumSaving(fraction=0.05)),
        ("spot_to_spot_types", "20", 20),
        ("max_nodes", "3", 3),
        ("balanced_k", "1.5", 1.5),
        ("node_repair", "replace-first", NodeRepairMode.REPLACE_FIRST),
    ],
)
def test_values(field: str, text: str, expected: object) -> None:
    assert getattr(read_settings({**NAME, field: text}, {}), field) == expected


def test_settings_of_disruption_reach_the_controllers() -> None:
    stated = {
        "balanced_k": "1.5",
        "node_repair": "replace-first",
        "max_nodes": "7",
        "feature_gates": "NodeRepair=true",
    }
    options = RunOptions(provider=EMULATOR)
    found = controller_settings(loop_settings(read_settings({**NAME, **stated}, {}), options))
    disruption = found.disruption_options
    assert (disruption.balanced_k, disruption.max_nodes) == (1.5, 7)
    assert (found.node_repair, found.replace_before_repair) == (True, True)


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("metrics_port", "70000", "a whole number from 0 to 65535"),
        ("metrics_port", "8080.5", "a whole number"),
        ("kube_client_qps", "many", "a number from 1"),
        ("batch_idle_duration", "1 second", "a duration such as 10s"),
        ("isolated_vpc", "yes", "true or false"),
        ("min_values_policy", "Besteffort", "did you mean BestEffort?"),
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("cluster_endpoint", "example.com", "an absolute URL"),
        ("breaker_share", "130%", "a share such as 30% or 0.3"),
        ("breaker_share", "most", "a share"),
        ("feature_gates", "StaticCapacty=true", "did you mean StaticCapacity?"),
        ("feature_gates", "StaticCapacity", "StaticCapacity=true or StaticCapacity=false"),
        ("feature_gates", "staticcapacity=true", "did you mean StaticCapacity?"),
        ("feature_gates", "SpotToSpot=true", "did you mean SpotToSpotConsolidation?"),
        ("feature_gates", "DynamicResources", "DynamicResources=true or DynamicResources=false"),
        ("feature_gates", "DynamicResources=maybe", "true or false"),
        ("feature_gates", "=true", "one of CapacityReservations, "),
        ("feature_gates", "Dynamic\udcffResources=true", "one of CapacityReservations, "),
        ("reserved_enis", "-1", "a whole number from 0"),
        ("max_nodes", "0", "a whole number from 1"),
        ("min_saving", "much", "USD per hour such as 0.05"),
        ("packing", "tight", "one of first-fit, cost"),
        ("balanced_k", "0", "a number from 0.01"),
        ("node_repair", "replacefirst", "did you mean replace-first?"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_was_expected(
    field: str, text: str, expected: str
) -> None:
    for source, flags, environment in sources(field, text):
        with pytest.raises(InvalidInputError) as refused:
            read_settings(flags, environment)
        assert refused.value.message.startswith(f"{source}: found {text!r}, expected ")
        assert expected in refused.value.message


ZONE_SPREAD: dict[str, Any] = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
}


def short_form(**changes: Any) -> str:
    """A document with one default constraint; a change to None leaves the field out."""
    stated = {key: value for key, value in {**ZONE_SPREAD, **changes}.items() if value is not None}
    return json.dumps({"podTopologySpread": {"defaultConstraints": [stated]}})


YAML_FORM = """
podTopologySpread:
  defaultConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
"""
FULL_FORM = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - maxSkew: 1
              topologyKey: topology.kubernetes.io/zone
              whenUnsatisfiable: ScheduleAnyway
"""


@pytest.mark.parametrize("text", [short_form(), YAML_FORM, FULL_FORM])
def test_the_configuration_of_a_scheduler_reaches_the_controllers(text: str) -> None:
    for _, flags, environment in sources("scheduler_config", text):
        found = read_settings(flags, environment)
        loop = loop_settings(found, RunOptions(provider=EMULATOR))
        [constraint] = controller_settings(loop).default_constraints
        assert constraint == TopologySpreadConstraint(**ZONE_SPREAD)
        assert settings_without_effect(flags, environment) == []


@pytest.mark.parametrize("text", ["", " \n", "{}", "podTopologySpread: {defaultConstraints: []}"])
def test_without_default_constraints_the_configuration_of_a_scheduler_has_no_effect(
    text: str,
) -> None:
    for source, flags, environment in sources("scheduler_config", text):
        assert read_settings(flags, environment).scheduler_config == ()
        is_document = bool(text.strip())
        assert settings_without_effect(flags, environment) == [source] * is_document


CONSTRAINT = "podTopologySpread.defaultConstraints[0]"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (short_form(maxSkew=0), f"{CONSTRAINT}.maxSkew: found 0, expected 1 or more", ""),
        (
            short_form(whenUnsatisfiable="ScheduleAnway"),
            f'{CONSTRAINT}.whenUnsatisfiable: found "ScheduleAnway", expected one of '
            "DoNotSchedule, ScheduleAnyway",
            "did you mean ScheduleAnyway?",
        ),
        (
            short_form(topologyKey=None),
            f"{CONSTRAINT}.topologyKey: required field is missing: found nothing, expected ",
            "",
        ),
        (
            short_form(labelSelector={}),
            f"{CONSTRAINT}.labelSelector: a default constraint has no selector: it is deduced for "
            "each pod: found {}, expected no labelSelector",
            "leave labelSelector out",
        ),
        (
            '{"podTopologySpred": {}}',
            "podTopologySpred: unknown field: found podTopologySpred, expected one of "
            "podTopologySpread",
            "did you mean podTopologySpread?",
        ),
        (
            "scheduler.yaml",
            'found "scheduler.yaml", expected podTopologySpread: …, or a '
            "KubeSchedulerConfiguration",
            "write the document itself, not the name of its file",
        ),
        (
            FULL_FORM.replace("List", "Lits"),
            "line 8: profiles[0].pluginConfig[0].args.defaultingType: found ",
            "did you mean List?",
        ),
        (f"{YAML_FORM}---{YAML_FORM}", "line 8: a second document: ", "keep the one"),
        ("a: 1\nb: [", "line 3: not YAML: ", "look at the indentation and brackets"),
        ("a: \udcff", "found 'a: \\udcff', expected UTF-8 text", ""),
        ("a: {}\na: {}", "line 2: a: the key 'a' is there twice", "keep one of them"),
    ],
)
def test_a_bad_configuration_of_a_scheduler_is_named_with_its_field(
    text: str, message: str, hint: str
) -> None:
    for source, flags, environment in sources("scheduler_config", text):
        with pytest.raises(InvalidInputError) as refused:
            read_settings(flags, environment)
        assert refused.value.exit_code == 2
        assert refused.value.message.startswith(f"{source}: {message}")
        assert refused.value.hint.startswith(hint)
        assert bool(refused.value.hint) == bool(hint)


def test_the_name_of_the_cluster_is_required() -> None:
    with pytest.raises(InvalidInputError, match="--cluster-name"):
        read_settings({}, {})


def test_settings_of_karpenter_that_change_nothing_are_known() -> None:
    flags, environment = {"enable_profiling": "true"}, {"MEMORY_LIMIT": "1", "HOME": "/"}
    assert settings_without_effect(flags, environment) == ["--enable-profiling", "MEMORY_LIMIT"]


KARPENTERS = [
    "KARPENTER_SERVICE",
    "METRICS_PORT",
    "HEALTH_PROBE_PORT",
    "KUBE_CLIENT_QPS",
    "KUBE_CLIENT_BURST",
    "ENABLE_PROFILING",
    "DISABLE_CONTROLLER_WARMUP",
    "DISABLE_LEADER_ELECTION",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "LEADER_ELECTION_NAME",
    "LEADER_ELECTION_NAMESPACE",
    "MEMORY_LIMIT",
    "CPU_REQUESTS",
    "LOG_LEVEL",
    "LOG_OUTPUT_PATHS",
    "LOG_ERROR_OUTPUT_PATHS",
    "BATCH_MAX_DURATION",
    "BATCH_IDLE_DURATION",
    "PREFERENCE_POLICY",
    "MIN_VALUES_POLICY",
    "IGNORE_DRA_REQUESTS",
    "FEATURE_GATES",
    "SCHEDULER_CONFIG",
    "CLUSTER_NAME",
    "CLUSTER_ENDPOINT",
    "CLUSTER_CA_BUNDLE",
    "ISOLATED_VPC",
    "EKS_CONTROL_PLANE",
    "VM_MEMORY_OVERHEAD_PERCENT",
    "INTERRUPTION_QUEUE",
    "RESERVED_ENIS",
    "DISABLE_DRY_RUN",
    "ENABLE_ZONAL_SHIFT",
    "AMI_REFRESH_INTERVAL",
    "SUBNET_REFRESH_INTERVAL",
    "AWS_FEATURE_GATES",
]


def test_every_setting_of_karpenter_is_a_flag() -> None:
    flags = {flag for option in run.params for flag in option.opts}
    assert {f"--{name.lower().replace('_', '-')}" for name in KARPENTERS} <= flags


@pytest.mark.parametrize(
    "flags",
    [
        ("--cloud", "cloud.yaml"),
        ("--catalog", "catalog.yaml"),
        ("--emulator-state", "account.json"),
        ("--emulator-port", "4580"),
    ],
)
def test_options_of_the_emulated_account_need_it(flags: tuple[str, str]) -> None:
    found = CliRunner().invoke(run, ["--cluster-name", "shop", *flags], standalone_mode=False)
    assert isinstance(found.exception, UsageError)
    assert found.exception.message == f"{flags[0]} is of the emulated EC2"
