"""What values.schema.json takes and refuses; helm reads the same file before it renders."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml
from click import Option

from wainwright.cli.run import run

ROOT: Final = Path(__file__).parents[3]
CHART: Final = ROOT / "deploy" / "chart"
SCHEMA: Final = json.loads((CHART / "values.schema.json").read_text("utf-8"))
VALUES: Final = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
TEMPLATES: Final = {
    each.name: each.read_text("utf-8") for each in (CHART / "templates").iterdir() if each.is_file()
}
WITHOUT_EFFECT: Final = "without effect"
EMULATED: Final = "of provider emulator, whose files come from extraVolumes"
BY_EXTRA_ARGS: Final = {
    "cloud": EMULATED,
    "catalog": EMULATED,
    "emulator_boot": EMULATED,
    "emulator_kubelet": EMULATED,
    "emulator_state": EMULATED,
    "emulator_port": EMULATED,
    "disable_leader_election": "several replicas of a Deployment must not lead at the same time",
}
"""Options without a value of their own."""
NOT_FOR_THE_CHART: Final = {
    "kubeconfig": "a pod connects to its own cluster",
    "context": "a pod connects to its own cluster",
    "once": "a Deployment would start it again and again",
}

KARPENTER: Final = yaml.safe_load(
    """
    nameOverride: karpenter
    fullnameOverride: karpenter
    additionalLabels: {team: platform}
    additionalAnnotations: {team: platform}
    imagePullPolicy: Always
    imagePullSecrets: [{name: registry}]
    service: {annotations: {prometheus.io/scrape: "true"}}
    serviceAccount: {create: true, name: karpenter, annotations: {team: platform}}
    additionalClusterRoleRules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
    serviceMonitor:
      enabled: true
      additionalLabels: {release: prometheus}
      relabelings: [{action: labeldrop, regex: pod}]
      metricRelabelings: [{action: drop, regex: go_.*}]
      sampleLimit: null
      endpointConfig: {scrapeTimeout: 20s}
    replicas: 3
    revisionHistoryLimit: 5
    strategy: {rollingUpdate: {maxUnavailable: 1}}
    podLabels: {team: platform}
    podAnnotations: {team: platform}
    podDisruptionBudget: {name: karpenter, maxUnavailable: 1}
    podSecurityContext: {fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
    priorityClassName: system-cluster-critical
    terminationGracePeriodSeconds: null
    hostNetwork: true
    schedulerName: default-scheduler
    dnsPolicy: Default
    dnsConfig: {options: [{name: ndots, value: "1"}]}
    initContainers: {}
    nodeSelector: {kubernetes.io/os: linux}
    affinity: {nodeAffinity: {}}
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
    tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
    extraVolumes: [{name: token, emptyDir: {}}]
    controller:
      containerName: controller
      image: {repository: example.com/karpenter, tag: 1.14.0, digest: ""}
      env: [{name: AWS_REGION, value: us-west-2}]
      envFrom: [{configMapRef: {name: more}}]
      securityContext: {appArmorProfile: {}, seLinuxOptions: {}, seccompProfile: {}}
      resources: {requests: {cpu: 1, memory: 1Gi}}
      extraVolumeMounts: [{name: token, mountPath: /token}]
      sidecarContainer: [{name: proxy, image: example.com/proxy}]
      sidecarVolumeMounts: [{name: token, mountPath: /token}]
      metrics: {port: 8080}
      healthProbe: {port: 8081}
    webhook: {enabled: false, port: 8443, metrics: {port: 8001}}
    logLevel: error
    logOutputPaths: [stdout]
    logErrorOutputPaths: [stderr]
    settings:
      batchMaxDuration: 10s
      batchIdleDuration: 1s
      preferencePolicy: Ignore
      minValuesPolicy: BestEffort
      clusterCABundle: ""
      clusterName: shop
      clusterEndpoint: ""
      isolatedVPC: false
      eksControlPlane: true
      vmMemoryOverheadPercent: 0.075
      interruptionQueue: shop
      enableZonalShift: false
      reservedENIs: "0"
      ignoreDRARequests: true
      disableClusterStateObservability: false
      disableDryRun: false
      amiRefreshInterval: 1m
      subnetRefreshInterval: 1m
      featureGates:
        nodeRepair: false
        nodeOverlay: false
        reservedCapacity: true
        spotToSpotConsolidation: false
        staticCapacity: false
        capacityBuffer: false
    """
)
"""Every value of Karpenter's charts from 1.0 to 1.14, none of them as it is by default here."""


def errors(values: Any) -> list[str]:
    return [each.message for each in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def test_a_file_of_values_for_karpenter_is_accepted() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert errors(KARPENTER) == []
    assert errors(VALUES) == []


def closed_maps(values: Any, schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The maps of the values whose keys the chart knows."""
    if schema.get("additionalProperties") is False:
        yield path
    for key, nested in schema.get("properties", {}).items():
        if isinstance(values, dict) and isinstance(values.get(key), dict):
            yield from closed_maps(values[key], nested, (*path, key))


@pytest.mark.parametrize("path", list(closed_maps(KARPENTER, SCHEMA)), ids=".".join)
def test_a_misspelt_value_is_refused_wherever_it_is(path: tuple[str, ...]) -> None:
    values = json.loads(json.dumps(KARPENTER))
    place = values
    for key in path:
        place = place[key]
    place["misspelt"] = {}
    [message] = errors(values)
    assert "'misspelt' was unexpected" in message


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"reservedENIs": "many"}},
        {"settings": {"reservedENIs": "101"}},
        {"settings": {"vmMemoryOverheadPercent": "7.5"}},
        {"settings": {"eksControlPlane": "yes"}},
        {"settings": {"amiRefreshInterval": "often"}},
        {"settings": {"featureGates": {"StaticCapacity": True}}},
        {"settings": {"featureGates": {"dynamicResources": "yes"}}},
        {"settings": {"featureGates": {"dynamicResources=true,static": True}}},
        {"settings": {"clusterLimits": {"gpus": 1}}},
        {"settings": {"clusterLimits": {"cpu": "many"}}},
        {"settings": {"clusterLimits": {"nodes": 0.5}}},
        {"settings": {"clusterLimits": {"pricePerHour": "$50"}}},
        {"flightRecorder": {"limit": 0}},
        {"flightRecorder": {"sizeLimit": "large"}},
        {"controller": {"extraArgs": ["run"]}},
        {"controller": {"extraArgs": "--once"}},
        {"controller": {"securityContext": {"privileged": True}}},
        {"controller": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
        {"controller": {"sidecarContainer": {"name": "proxy"}}},
        {"initContainers": {"name": "first"}},
        {"terminationGracePeriodSeconds": -1},
        {"replicas": -1},
        {"replicas": "two"},
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(values: Any) -> None:
    assert errors(values)


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"featureGates": {"dynamicResources": True}}},
        {"settings": {"clusterLimits": {"cpu": 1000, "memory": "4Ti", "nodes": 500}}},
        {"settings": {"clusterLimits": {"cpu": "1000", "nodes": "500", "pricePerHour": "0.5"}}},
        {"settings": {"clusterLimits": {"cpu": "1e3", "memory": 2**42, "pricePerHour": 0.5}}},
        {"flightRecorder": {"enabled": True, "limit": 20, "redacted": True, "sizeLimit": "500Mi"}},
        {"controller": {"extraArgs": ["--emulator-boot=5s", "--once"]}},
    ],
)
def test_a_value_is_accepted(values: Any) -> None:
    assert errors(values) == []


@pytest.mark.parametrize("fraction", [0.075, "0.075", ".075", 0, "0", 1])
def test_a_fraction_may_be_text_as_helm_makes_it(fraction: object) -> None:
    assert errors({"settings": {"vmMemoryOverheadPercent": fraction}}) == []


def leaves(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What the schema has, down to maps of the user's own keys."""
    properties = schema.get("properties")
    if not properties or schema.get("description") == WITHOUT_EFFECT:
        yield path, schema
        return
    for key, nested in properties.items():
        yield from leaves(nested, (*path, key))


def without_effect() -> set[str]:
    return {
        ".".join(path)
        for path, schema in leaves(SCHEMA)
        if schema.get("description") == WITHOUT_EFFECT
    }


def test_what_changes_nothing_is_named_with_a_reason() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    table = page.partition("### Values of Karpenter's chart without effect")[2].partition("\n## ")[
        0
    ]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    named = {each.strip(" `") for row in rows for each in row[1].split(",")}
    assert named == without_effect()
    assert all(len(row[2].split()) > 5 for row in rows)


def test_the_notes_of_an_installation_name_what_changes_nothing() -> None:
    notes = TEMPLATES["NOTES.txt"]
    assert all(f'"{each.rpartition(".")[2]}"' in notes for each in without_effect())


def test_every_other_value_is_used_and_has_its_default_in_the_file() -> None:
    text = "".join(TEMPLATES.values())
    # As maps.
    nested = ("settings.featureGates", "controller.securityContext", "settings.clusterLimits")
    for path, _ in leaves(SCHEMA):
        name = ".".join(path)
        if name in {*without_effect(), "global"}:
            continue
        assert f".{path[-1]}" in text or name.startswith(nested), name
        place: Any = VALUES
        is_empty = name.startswith(("controller.securityContext", "settings.clusterLimits"))
        for key in path[:2] if is_empty else path:
            assert key in place, name
            place = place[key]


def options_by_value() -> set[str]:
    """Options of `wain run` that the Deployment has a flag or a variable for, of some value."""
    template = TEMPLATES["deployment.yaml"]
    flags = re.findall(r"- (?:{{ printf \")?--([a-z-]+)", template)
    variables = re.findall(r"- name: ([A-Z_]+)\n +value: {{", template)
    option_of = {flag: each.name or "" for each in run.params for flag in each.opts}
    by_flag = {option_of[f"--{flag}"] for flag in flags}
    return by_flag | {name.lower() for name in variables}


def test_every_option_of_the_program_is_reachable_from_the_chart() -> None:
    """A hidden one has no effect."""
    shown = {each.name for each in run.params if isinstance(each, Option) and not each.hidden}
    groups = [options_by_value() - {"aws_region"}, {*BY_EXTRA_ARGS}, {*NOT_FOR_THE_CHART}]
    named = Counter(name for group in groups for name in group)
    assert {*named} == shown
    assert named.total() == len(shown), "each once"
    assert {"cluster_limits", "record", "batch_idle_duration"} <= groups[0]
