"""A redacted snapshot is the same cluster: what is planned for it is the same."""

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.kube.redaction import redact
from wainwright.kube.snapshot import ClusterSnapshot
from wainwright.library import plan
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.source_files import NamedText

Manifest = dict[str, Any]
TEAMS = ("blue", "green", "acme")
ZONES = ("us-west-2a", "us-west-2b")
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
RACK = "topology.example.com/rack"
CLOUD = {
    "apiVersion": "wainwright.dev/v1alpha1",
    "kind": "Cloud",
    "metadata": {"name": "cloud"},
    "spec": {
        "region": "us-west-2",
        "zones": list(ZONES),
        "instanceTypes": ["m5.large", "m5.xlarge", "c5.large"],
    },
}


def described(api_version: str, kind: str, name: str, **fields: Any) -> Manifest:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node_pool(random: Random, team: str) -> Manifest:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "shared-class"}
    spec: Manifest = {
        "nodeClassRef": reference,
        "requirements": [{"key": "team", "operator": "In", "values": [team, "shared"]}],
    }
    if random.random() < 0.3:
        spec["taints"] = [{"key": "team", "value": team, "effect": "NoSchedule"}]
    fields = {"template": {"spec": spec}, "weight": random.randint(1, 3)}
    return described("karpenter.sh/v1", "NodePool", f"pool-of-{team}", spec=fields)


def constraints(random: Random, app: str, team: str) -> Manifest:
    """What a pod wants of nodes and of other pods, by names and labels."""
    selector = {"matchLabels": {"app": app}}
    spec: Manifest = {}
    if random.random() < 0.4:
        spec["nodeSelector"] = {"team": team}
    if random.random() < 0.5:
        spec["tolerations"] = [{"key": "team", "operator": "Equal", "value": team}]
    if random.random() < 0.3:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": random.choice((HOSTNAME, ZONE, RACK, "team")),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if random.random() < 0.3:
        term = {"topologyKey": random.choice((HOSTNAME, ZONE)), "labelSelector": selector}
        kind = random.choice(("podAffinity", "podAntiAffinity"))
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


def container(random: Random) -> Manifest:
    requests = {"cpu": f"{random.choice((250, 500, 900))}m", "memory": "500Mi"}
    return {"name": "app", "image": "app", "resources": {"requests": requests}}


def volume_objects(random: Random, claim: str, namespace: str) -> list[Manifest]:
    """A bound claim, which holds its pod to one zone."""
    zone = [{"key": ZONE, "operator": "In", "values": [random.choice(ZONES)]}]
    volume = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{claim}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": zone}]}},
    }
    wanted = {
        "volumeName": f"pv-{claim}",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    bound = {"phase": "Bound"}
    return [
        described("v1", "PersistentVolume", f"pv-{claim}", spec=volume, status=bound),
        described(
            "v1",
            "PersistentVolumeClaim",
            claim,
            metadata={"namespace": namespace},
            spec=wanted,
            status=bound,
        ),
    ]


def stateful_set(random: Random, app: str, namespace: str, team: str) -> list[Manifest]:
    """With a claim for each of its pods, of which none is there yet."""
    template = {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container(random)], **constraints(random, app, team)},
    }
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "replicas": random.randint(1, 3),
        "serviceName": app,
        "selector": {"matchLabels": {"app": app}},
        "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    metadata = {"namespace": namespace}
    claims = [
        each
        for number in range(spec["replicas"])  # type: ignore[call-overload]
        for each in volume_objects(random, f"data-{app}-{number}", namespace)
    ]
    return [described("apps/v1", "StatefulSet", app, metadata=metadata, spec=spec), *claims]


def pods(random: Random, app: str, namespace: str, team: str) -> list[Manifest]:
    """Some with an ephemeral volume, whose claim has a name made of both."""
    spec = {"containers": [container(random)], **constraints(random, app, team)}
    found = []
    for number in range(random.randint(1, 5)):
        name = f"{app}-{random.randrange(16**5):05x}{number}"
        own = dict(spec)
        if random.random() < 0.2:
            wanted = {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
            claim = {"spec": wanted}
            own["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]
            found += volume_objects(random, f"{name}-scratch", namespace)
        metadata = {"namespace": namespace, "labels": {"app": app}}
        found.append(described("v1", "Pod", name, metadata=metadata, spec=own))
    return found


def service(name: str, namespace: str, app: str) -> Manifest:
    metadata = {"namespace": namespace}
    return described("v1", "Service", name, metadata=metadata, spec={"selector": {"app": app}})


def node(random: Random, number: int) -> Manifest:
    team, zone, name = random.choice(TEAMS), random.choice(ZONES), f"node-{number}-of-acme"
    labels = {
        "team": team,
        HOSTNAME: name,
        ZONE: zone,
        RACK: f"rack-of-{team}",
        "karpenter.sh/nodepool": f"pool-of-{team}",
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": "m5.large",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    room = {"cpu": "1900m", "memory": "7Gi", "pods": "29"}
    return described(
        "v1",
        "Node",
        name,
        metadata={"labels": labels},
        spec={"providerID": f"aws:///{zone}/i-{number:017x}"},
        status={
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    )


def csi_node(random: Random, number: int) -> Manifest:
    """How many volumes the node attaches, by a driver that the volumes name as well."""
    limit = {"count": random.randint(1, 3)}
    driver = {"name": "ebs.csi.aws.com", "nodeID": f"i-{number:017x}", "allocatable": limit}
    name = f"node-{number}-of-acme"
    return described("storage.k8s.io/v1", "CSINode", name, spec={"drivers": [driver]})


def random_cluster(seed: int) -> list[Manifest]:
    random = Random(seed)
    node_class = described(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        "shared-class",
        spec={
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"Name": "acme"}}],
            "securityGroupSelectorTerms": [{"tags": {"Name": "acme"}}],
        },
    )
    items = [node_class, *(node_pool(random, team) for team in TEAMS)]
    for number in range(random.randint(0, 3)):
        items += [node(random, number), csi_node(random, number)]
    for number in range(random.randint(1, 4)):
        team = random.choice(TEAMS)
        make = random.choice((pods, pods, stateful_set))
        app, namespace = f"{team}-app{number}", f"ns-{team}"
        items += make(random, app, namespace, team)
        if random.random() < 0.5:
            items.append(service(f"front-of-{app}", namespace, app))
    key = lambda each: (  # noqa: E731
        each["kind"],
        each["metadata"].get("namespace", ""),
        each["metadata"]["name"],
    )
    return sorted(items, key=key)


DEFAULT_CONSTRAINT = TopologySpreadConstraint(
    maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="DoNotSchedule"
)
"""Of the scheduler, for pods without their own: Services say which of them belong together."""


def outcome(snapshot: ClusterSnapshot) -> Any:
    """What is planned, without names: machines in their order with their pods, and what is left."""
    texts = [NamedText("the cluster", snapshot.to_json().decode())]
    texts.append(NamedText("cloud", json.dumps(CLOUD)))
    manifests = read_manifests(texts)
    manifests.default_constraints = (DEFAULT_CONSTRAINT,)
    planned = plan(manifests, now=datetime(2026, 1, 31, tzinfo=UTC))
    claims = [
        (each.launch.instance_type, each.launch.zone, len(each.pods)) for each in planned.claims
    ]
    return claims, planned.price, planned.scheduled, len(planned.unplaced)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_a_plan_for_a_redacted_cluster_is_that_for_the_cluster(seed: int) -> None:
    snapshot = ClusterSnapshot(items=random_cluster(seed))
    redacted = redact(snapshot)
    assert outcome(redacted) == outcome(snapshot)
    text = redacted.to_json().decode()
    assert not [
        name for name in (*TEAMS, "pool-of", "shared-class", "scratch", "front") if name in text
    ]
