"""A typo in any known value gets "did you mean", by `wain validate` and by `wain plan`, and is not
an error by itself; what may be right gets no hint."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from wainwright.cli.main import wain
from wainwright.errors import InvalidInputError

CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TERMS = [{"tags": {"karpenter.sh/discovery": "demo"}}]
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "wainwright.dev/v1alpha1", "kind": "Cloud", "spec": {"region": "us-west-2"}},
    {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": TERMS,
            "securityGroupSelectorTerms": TERMS,
        },
    },
    {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general"},
        "spec": {
            "disruption": {"consolidateAfter": "0s"},
            "template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": []}},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "shop"},
        "spec": {"containers": [{"name": "main", "image": "web"}]},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard"},
        "provisioner": "ebs.csi.aws.com",
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web", "namespace": "shop"},
        "spec": {
            "storageClassName": "standard",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "critical"},
        "value": 100,
    },
]
Change = tuple[str, str, Any]


def requirement(key: str, value: str, operator: str = "In") -> Change:
    needed = [{"key": key, "operator": operator, "values": [value]}]
    return "NodePool", "spec.template.spec.requirements", needed


def selector(key: str, value: str) -> Change:
    return "Pod", "spec.nodeSelector", {key: value}


def preference(key: str, value: str) -> Change:
    terms = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    return "Pod", "spec.affinity.nodeAffinity", {name: [{"weight": 1, "preference": terms}]}


def pool(path: str, value: Any) -> Change:
    return "NodePool", path, value


def node_class(path: str, value: Any) -> Change:
    return "EC2NodeClass", path, value


def pod(path: str, value: Any) -> Change:
    return "Pod", path, value


def spread(key: str) -> Change:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
    return "Pod", "spec.topologySpreadConstraints", [constraint]


def price(instance_type: str, **more: str) -> dict[str, Any]:
    return {"instanceType": instance_type, "capacityType": "spot", "price": 0.1, **more}


def reservation(platform: str) -> dict[str, Any]:
    place = {"instanceType": "m5.large", "availabilityZone": "us-west-2a"}
    return {"id": "cr-0a1b2c", **place, "total": 1, "platform": platform}


LABEL_VALUES = [
    ("kubernetes.io/arch", "arm46", "arm64"),
    ("kubernetes.io/arch", "x86_64", "amd64"),
    ("kubernetes.io/os", "linus", "linux"),
    ("karpenter.k8s.aws/instance-family", "mi6", "m6i"),
    ("karpenter.k8s.aws/instance-family", "im4ng", "im4gn"),
    ("karpenter.k8s.aws/instance-size", "xlarg", "xlarge"),
    ("node.kubernetes.io/instance-type", "m5.lrage", "m5.large"),
    ("beta.kubernetes.io/instance-type", "m5.larg", "m5.large"),
    ("topology.kubernetes.io/zone", "us-wset-2a", "us-west-2a"),
    ("topology.kubernetes.io/region", "us-wset-2", "us-west-2"),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", "intell", "intel"),
    ("karpenter.k8s.aws/instance-hypervisor", "nitor", "nitro"),
    ("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidai", "nvidia"),
    ("karpenter.k8s.aws/instance-gpu-name", "a10gg", "a10g"),
    ("karpenter.k8s.aws/instance-gpu-name", "h1000", "h100"),
    ("karpenter.k8s.aws/instance-gpu-name", "a10", "a100 or a10g"),
    ("karpenter.k8s.aws/instance-gpu-name", "b900", ""),
    ("karpenter.k8s.aws/instance-accelerator-name", "trainum", "trainium"),
    ("karpenter.k8s.aws/instance-category", "mm", "m"),
    ("karpenter.k8s.aws/instance-category", "w", ""),
    ("karpenter.sh/capacity-type", "on-demad", "on-demand"),
    ("karpenter.k8s.aws/instance-tenancy", "dedicted", "dedicated"),
    ("karpenter.k8s.aws/capacity-reservation-type", "defualt", "default"),
]
"""Label, value as written, value that is meant; none where it may be another value."""

LABELS = [
    ("topology.kubernetes.io/zome", "topology.kubernetes.io/zone"),
    ("kubernetes.io/archh", "kubernetes.io/arch"),
    ("node.kubernetes.io/instance-typ", "node.kubernetes.io/instance-type"),
    ("karpenter.k8s.aws/instance-familly", "instance-family"),
    ("karpenter.sh/capacity-typ", "capacity-type"),
    ("topology.k8s.io/zone", "topology.kubernetes.io/zone"),
]

WORDS: list[tuple[Change, str]] = [
    (selector("karpenter.sh/nodepool", "genral"), "general"),
    (selector("karpenter.k8s.aws/ec2nodeclass", "defualt"), "default"),
    (spread("topology.kubernetes.io/zome"), "topology.kubernetes.io/zone"),
    (spread("kubernetes.io/hostnam"), "kubernetes.io/hostname"),
    (pod("spec.priorityClassName", "critcal"), "critical"),
    (pod("spec.priorityClassName", "system-node-critcal"), "system-node-critical"),
    (pod("spec.schedulerName", "default-schduler"), "default-scheduler"),
    (pod("spec.restartPolicy", "Alway"), "Always"),
    (pod("spec.tolerations", [{"key": "a", "operator": "Exist"}]), "Exists"),
    (pod("metadata.annotations", {"karpenter.sh/do-not-disrup": "true"}), "do-not-disrupt"),
    (
        pod("spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "data-wbe"}}]),
        "data-web",
    ),
    (
        pod("spec.containers.0.resources", {"limits": {"nvidia.com/gpus": "1"}}),
        "nvidia.com/gpu",
    ),
    (("PersistentVolumeClaim", "spec.storageClassName", "standrad"), "standard"),
    (("PersistentVolumeClaim", "spec.accessModes", ["ReadWriteOnse"]), "ReadWriteOnce"),
    (("StorageClass", "provisioner", "ebs.csi.asw.com"), "ebs.csi.aws.com"),
    (pool("spec.template.spec.nodeClassRef.name", "defalt"), "default"),
    (pool("spec.template.spec.nodeClassRef.kind", "EC2NodeClas"), "EC2NodeClass"),
    (pool("spec.template.spec.nodeClassRef.group", "karpenter.k8s.asw"), "karpenter.k8s.aws"),
    (requirement("kubernetes.io/arch", "amd64", "Inn"), "In"),
    (pool("spec.template.spec.taints", [{"key": "a", "effect": "NoSchedul"}]), "NoSchedule"),
    (pool("spec.template.metadata.labels", {"kubernetes.io/arch": "adm64"}), "amd64"),
    (pool("spec.limits", {"cpus": "8"}), "cpu"),
    (
        pool("spec.disruption", {"consolidateAfter": "0s", "consolidationPolicy": "WhenEmty"}),
        "WhenEmpty",
    ),
    (
        pool("spec.disruption.budgets", [{"nodes": "1", "reasons": ["Empyt"]}]),
        "Empty",
    ),
    (node_class("spec.amiFamily", "AL2032"), "AL2023"),
    (node_class("spec.amiSelectorTerms", [{"alias": "al2032@latest"}]), "al2023"),
    (node_class("spec.amiSelectorTerms", [{"alias": "al2023@lastest"}]), "latest"),
    (
        node_class(
            "spec.blockDeviceMappings",
            [{"deviceName": "/dev/xvda", "ebs": {"volumeType": "gp33", "volumeSize": "20Gi"}}],
        ),
        "gp3",
    ),
    (
        node_class("spec.kubelet", {"evictionHard": {"memory.avalable": "5%"}}),
        "memory.available",
    ),
    (node_class("spec.kubelet", {"systemReserved": {"cpus": "1"}}), "cpu"),
    (node_class("spec.metadataOptions", {"httpTokens": "requird"}), "required"),
    (("Cloud", "spec.unavailable", [{"instanceType": "m5.lrage"}]), "m5.large"),
    (("Cloud", "spec.unavailable", [{"zone": "us-wset-2a"}]), "us-west-2a"),
    (("Cloud", "spec.unavailable", [{"capacityType": "sopt"}]), "spot"),
    (("Cloud", "spec.region", "us-wset-2"), "us-west-2"),
    (("Cloud", "spec.prices", [price("m5.lrage")]), "m5.large"),
    (("Cloud", "spec.prices", [price("m5.large", zone="us-wset-2a")]), "us-west-2a"),
    (("Cloud", "spec.capacityReservations", [reservation("Linux/UNX")]), "Linux/UNIX"),
    (pod("metadata.annotations", {"karpenter.sh/do-not-disrupt": "ture"}), "true"),
    (
        pool("spec.template.metadata.annotations", {"karpenter.sh/do-not-disrupt": "True"}),
        "true",
    ),
    (
        pool("spec.disruption.budgets", [{"nodes": "1", "schedule": "@dialy", "duration": "1h"}]),
        "@daily",
    ),
    (
        pool("spec.disruption.budgets", [{"nodes": "1", "schedule": "@dailyy", "duration": "1h"}]),
        "@daily",
    ),
    (pod("kind", "Pods"), "Pod"),
    (("StorageClass", "apiVersion", "storage.k8s.io/v2"), "storage.k8s.io/v1"),
    (("StorageClass", "apiVersion", "storge.k8s.io/v1"), "storage.k8s.io/v1"),
    (("PriorityClass", "kind", "PriorityClas"), "PriorityClass"),
    (("PersistentVolumeClaim", "kind", "PersistentVolumeClaims"), "PersistentVolumeClaim"),
]
"""Any other word as it is written, and the word that is meant."""

STRATEGIES = [
    (("Deployment", "spec.strategy", {"type": "RolingUpdate"}), "RollingUpdate"),
    (("StatefulSet", "spec.updateStrategy", {"type": "OnDelet"}), "OnDelete"),
    (("StatefulSet", "spec.podManagementPolicy", "Paralel"), "Parallel"),
    (("DaemonSet", "spec.updateStrategy", {"type": "RollingUpdates"}), "RollingUpdate"),
]
"""Fields that no plan depends on, and the word that is meant."""

RIGHT: list[Change] = [
    requirement("karpenter.k8s.aws/instance-family", "m9x"),
    requirement("topology.kubernetes.io/zone", "us-west-2z"),
    requirement("kubernetes.io/arch", "riscv"),
    requirement("example.com/zome", "a"),
    selector("topology.kubernetes.io/rack", "a1"),
    selector("eks.amazonaws.com/capacityType", "SPOT"),
    selector("karpenter.sh/nodepool", "batch"),
    pod("spec.priorityClassName", "low"),
    pod("spec.volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "data-2"}}]),
    pool("spec.limits", {"example.com/widget": "8"}),
    pod("metadata.annotations", {"karpenter.sh/do-not-disrupt": "4h"}),
    ("Cloud", "spec.region", "us-west-9"),
    ("Cloud", "spec.capacityReservations", [reservation("Windows")]),
    pool("spec.disruption.budgets", [{"nodes": "1", "schedule": "@daily", "duration": "1h"}]),
]
"""Values that are legal, and not similar enough to another one."""


def written(change: Change, folder: Path, *more: dict[str, Any]) -> str:
    """A file with the objects, of which one has a field changed."""
    kind, path, value = change
    items = json.loads(json.dumps([*OBJECTS, *more]))
    place: Any = next(item for item in items if item["kind"] == kind)
    *steps, last = path.split(".")
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    place[last] = value
    file = folder / "given.json"
    file.write_text(json.dumps({"kind": "List", "items": items}), "utf-8")
    return str(file)


def output(command: str, file: str) -> str:
    result = CliRunner().invoke(wain, [command, file])
    return f"{result.output}{result.exception or ''}"


@pytest.mark.parametrize(("key", "value", "meant"), LABEL_VALUES)
@pytest.mark.parametrize("place", [requirement, selector, preference])
def test_a_misspelt_value_of_a_label_gets_a_hint_wherever_it_is_required(
    place: Any, key: str, value: str, meant: str, tmp_path: Path
) -> None:
    text = output("validate", written(place(key, value), tmp_path))
    assert (f"did you mean {meant}?" in text) if meant else ("did you mean" not in text)
    assert "0 errors" in text or "all good" in text


@pytest.mark.parametrize(("key", "meant"), LABELS)
@pytest.mark.parametrize("place", [requirement, selector, preference])
def test_a_misspelt_label_gets_a_hint_wherever_it_is_required(
    place: Any, key: str, meant: str, tmp_path: Path
) -> None:
    text = output("validate", written(place(key, "a"), tmp_path))
    assert "did you mean" in text
    assert f"{meant}?" in text


@pytest.mark.parametrize(("change", "meant"), WORDS)
@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_misspelt_word_gets_a_hint(
    command: str, change: Change, meant: str, tmp_path: Path
) -> None:
    text = output(command, written(change, tmp_path))
    assert "did you mean" in text
    assert f"{meant}?" in text


@pytest.mark.parametrize(("change", "meant"), STRATEGIES)
def test_a_misspelt_strategy_of_a_workload_gets_a_hint(
    change: Change, meant: str, tmp_path: Path
) -> None:
    labels = {"app": "web"}
    workload = {
        "apiVersion": "apps/v1",
        "kind": change[0],
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        },
    }
    assert f"did you mean {meant}?" in output("validate", written(change, tmp_path, workload))


@pytest.mark.parametrize("change", RIGHT)
def test_what_may_be_right_gets_no_hint(change: Change, tmp_path: Path) -> None:
    assert "did you mean" not in output("validate", written(change, tmp_path))


def test_a_label_that_a_node_of_the_input_has_is_right(tmp_path: Path) -> None:
    labels = {"topology.kubernetes.io/zome": "a", "kubernetes.io/arch": "arm46"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    file = written(("Pod", "spec.nodeSelector", labels), tmp_path, node)
    assert "did you mean" not in output("validate", file)


def test_hints_that_stop_at_their_budget_say_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pod_of(number: int) -> dict[str, Any]:
        spec = {
            "nodeSelector": {"karpenter.sh/nodepool": "ge" + "n" * number + "ral"},
            "containers": [{"name": "main", "image": "web"}],
        }
        metadata = {"name": f"web-{number}", "namespace": "shop"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    file = written(selector("karpenter.sh/nodepool", "genral"), tmp_path, *map(pod_of, range(2, 6)))
    assert "not checked for misspellings" not in output("validate", file)
    monkeypatch.setattr("wainwright.manifests.misspellings.MAX_COMPARISONS", 2)
    text = output("validate", file)
    assert text.count("not checked for misspellings: there are too many") == 1
    assert text.count("did you mean general?") == 1


@pytest.mark.parametrize(
    ("key", "value", "fix"),
    [
        (
            "kubernetes.io/arch",
            "x86_64",
            "change the pod's kubernetes.io/arch from x86_64 to amd64",
        ),
        ("kubernetes.io/os", "linus", "change the pod's kubernetes.io/os from linus to linux"),
        (
            "karpenter.k8s.aws/instance-familly",
            "m5",
            "select karpenter.k8s.aws/instance-family instead of",
        ),
    ],
)
def test_the_fix_of_an_unschedulable_pod_is_the_correct_word(
    key: str, value: str, fix: str, tmp_path: Path
) -> None:
    assert fix in output("plan", written(selector(key, value), tmp_path))


@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        ("apps/v1", "Deploymnt", "Deployment"),
        ("apps/v1", "StatefulSets", "StatefulSet"),
        ("apps/v1", "deployment", "Deployment"),
        ("policy/v1", "PodDisruptionBudet", "PodDisruptionBudget"),
        ("apps/v2", "Deployment", "apps/v1"),
        ("app/v1", "Deployment", "apps/v1"),
        ("v1", "Deployment", "apps/v1"),
        ("v2", "Service", "v1"),
        ("autoscaling/v3", "HorizontalPodAutoscaler", "autoscaling/v2"),
        ("batch/v1", "Cronjob", "CronJob"),
        ("extensions/v1", "Ingress", "networking.k8s.io/v1"),
        ("rbac.authorization.k8s.oi/v1", "Role", "rbac.authorization.k8s.io/v1"),
    ],
)
def test_a_misspelt_kind_or_version_of_kubernetes_gets_a_hint_and_is_not_called_irrelevant(
    api_version: str, kind: str, meant: str, tmp_path: Path
) -> None:
    misspelt = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}}
    for command in ("validate", "plan"):
        text = output(command, written(("Pod", "spec.hostNetwork", False), tmp_path, misspelt))
        assert f"did you mean {meant}?" in text
        assert "not relevant to scheduling" not in text


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Template"),
        ("networking.k8s.io/v1", "Ingress"),
        ("extensions/v1beta1", "Ingress"),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
        ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"),
        ("apps/v1beta1", "Deployment"),
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("batch/v1", "CronJob"),
        ("events.k8s.io/v1", "Event"),
        ("metrics.k8s.io/v1beta1", "NodeMetrics"),
        ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
        ("gateway.networking.k8s.io/v1", "Gateway"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ("serving.knative.dev/v1", "Service"),
        ("apps.kruise.io/v1alpha1", "StatefulSet"),
        ("apps.openshift.io/v1", "DeploymentConfig"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("policy/v1", "KindOfTheFuture"),
    ],
)
def test_a_kind_that_is_right_or_may_be_a_custom_resource_gets_no_hint(
    api_version: str, kind: str, tmp_path: Path
) -> None:
    right = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}}
    file = written(("Pod", "spec.hostNetwork", False), tmp_path, right)
    assert "did you mean" not in output("validate", file)


@pytest.mark.parametrize("field", ["kind", "apiVersion", "metadata", "spec"])
@pytest.mark.parametrize("value", [[], {}, None, 7, True, [[]], {"a": [{}]}], ids=str)
@pytest.mark.parametrize("kind", ["Pod", "NodePool", "Cloud", "Deploymnt"])
def test_a_field_of_another_type_is_an_error_and_no_internal_one(
    kind: str, field: str, value: Any, tmp_path: Path
) -> None:
    made: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}
    file = written(("Pod", "spec.hostNetwork", False), tmp_path, {**made, field: value})
    for command in ("validate", "plan"):
        found = CliRunner().invoke(wain, [command, file]).exception
        assert found is None or isinstance(found, InvalidInputError)
