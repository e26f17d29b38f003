"""Pods that use what the planner cannot honour yet are known by it."""

from typing import Any

import pytest
from tests.unit.manifests.translate.objects import Value, pod_spec, requirement

from wainwright.manifests.translate.features import unsupported
from wainwright.model.pod import Feature

TERM = {"topologyKey": "zone", "labelSelector": {}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHTED = {"weight": 1, "podAffinityTerm": TERM}


def port(**fields: int) -> Value:
    return {"name": "c", "ports": [{"containerPort": 80, **fields}]}


USES: dict[str, tuple[Feature, Value]] = {
    "spread": (
        Feature.TOPOLOGY_SPREAD,
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
    ),
    "near pods": (Feature.POD_AFFINITY, {"affinity": {"podAffinity": {REQUIRED: [TERM]}}}),
    "rather near": (Feature.POD_AFFINITY, {"affinity": {"podAffinity": {PREFERRED: [WEIGHTED]}}}),
    "away": (Feature.POD_ANTI_AFFINITY, {"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}),
    "rather away": (
        Feature.POD_ANTI_AFFINITY,
        {"affinity": {"podAntiAffinity": {PREFERRED: [WEIGHTED]}}},
    ),
    "preferred nodes": (
        Feature.PREFERENCES,
        {
            "affinity": {
                "nodeAffinity": {
                    PREFERRED: [
                        {"weight": 1, "preference": {"matchExpressions": [requirement("a", "b")]}}
                    ]
                }
            }
        },
    ),
    "claim": (
        Feature.VOLUMES,
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
    ),
    "ephemeral": (Feature.VOLUMES, {"volumes": [{"name": "v", "ephemeral": {}}]}),
    "csi": (Feature.VOLUMES, {"volumes": [{"name": "v", "csi": {"driver": "d"}}]}),
    "disk": (
        Feature.VOLUMES,
        {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]},
    ),
    "host port": (Feature.HOST_PORTS, {"containers": [port(hostPort=80)]}),
    "host network": (Feature.HOST_PORTS, {"containers": [port()], "hostNetwork": True}),
    "sidecar's port": (
        Feature.HOST_PORTS,
        {"initContainers": [{**port(hostPort=80), "restartPolicy": "Always"}]},
    ),
    "devices": (
        Feature.RESOURCE_CLAIMS,
        {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]},
    ),
}


@pytest.mark.parametrize("name", USES)
def test_a_feature_is_noticed(name: str) -> None:
    feature, fields = USES[name]
    assert unsupported(pod_spec(**fields)) == (feature,)


@pytest.mark.parametrize(
    "fields",
    [
        {"containers": [port()]},
        {"hostNetwork": True, "containers": [{"name": "c"}]},
        {"initContainers": [port(hostPort=80)]},
        {"affinity": {"nodeAffinity": {}, "podAffinity": {}}},
        {
            "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "hostPath": {"path": "/"}},
                {"name": "c", "configMap": {"name": "c"}},
                {"name": "d", "secret": {"secretName": "s"}},
                {"name": "e", "projected": {}},
                {"name": "f", "downwardAPI": {}},
                {"name": "g", "nfs": {"server": "s", "path": "/"}},
            ]
        },
    ],
)
def test_what_has_no_say_in_where_a_pod_goes_is_fine(fields: dict[str, Any]) -> None:
    assert unsupported(pod_spec(**fields)) == ()


def test_features_are_always_named_in_the_same_order() -> None:
    spec = pod_spec(**USES["devices"][1], **USES["claim"][1], **USES["spread"][1])
    assert unsupported(spec) == (
        Feature.TOPOLOGY_SPREAD,
        Feature.VOLUMES,
        Feature.RESOURCE_CLAIMS,
    )


def test_every_feature_can_be_noticed() -> None:
    assert {feature for feature, _ in USES.values()} == set(Feature)
