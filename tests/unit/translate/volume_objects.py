"""Claims, volumes and classes as manifests, with defaults for what a test does not need."""

from typing import Any

from tests.unit.translate.objects import Value, pod, thing, translated

from wainwright.model.pod import Pod, PodConstraints, VolumeProblem

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
EBS = "ebs.csi.aws.com"
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
LATE = {"volumeBindingMode": "WaitForFirstConsumer"}
DEFAULT = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}


def claim(name: str = "data", *, metadata: Value | None = None, **fields: Any) -> Value:
    """A claim in namespace shop on class gp3, without a volume."""
    spec = {"storageClassName": "gp3", **fields.pop("spec", {})}
    spec = {key: value for key, value in spec.items() if value is not None}
    own = {"namespace": "shop", **(metadata or {})}
    return thing("v1", "PersistentVolumeClaim", name, metadata=own, spec=spec, **fields)


def bound(name: str = "data", volume: str = "pv", **fields: Any) -> Value:
    spec = {"volumeName": volume, **fields.pop("spec", {})}
    return claim(name, spec=spec, status={"phase": "Bound"}, **fields)


def volume(name: str = "pv", *terms: Value, **fields: Any) -> Value:
    """A volume of EBS, reached from where any of the terms holds."""
    metadata = fields.pop("metadata", {})
    spec = fields or {"csi": {"driver": EBS, "volumeHandle": f"vol-{name}"}}
    if terms:
        spec = {**spec, "nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}
    return thing("v1", "PersistentVolume", name, metadata=metadata, spec=spec)


def term(key: str, *values: str, **more: list[str]) -> Value:
    """A term of a volume's affinity; `more` are further labels."""
    asked = {key: list(values), **more}
    return {
        "matchExpressions": [
            {"key": each, "operator": "In", "values": wanted} for each, wanted in asked.items()
        ]
    }


def topology(key: str, *values: str) -> Value:
    """A term of a class's allowed topologies."""
    return {"matchLabelExpressions": [{"key": key, "values": list(values)}]}


def storage_class(name: str = "gp3", provisioner: str = EBS, **fields: Any) -> Value:
    """A class with WaitForFirstConsumer."""
    made = {"provisioner": provisioner, **LATE, **fields}
    return thing("storage.k8s.io/v1", "StorageClass", name, **made)


def claimed(*names: str) -> Value:
    """The spec of a pod with these claims."""
    return {
        "volumes": [
            {"name": f"v-{name}", "persistentVolumeClaim": {"claimName": name}} for name in names
        ]
    }


def ephemeral(**spec: Any) -> Value:
    """The spec of a pod with one ephemeral volume, scratch."""
    template = {"volumeClaimTemplate": {"spec": spec}}
    return {"volumes": [{"name": "scratch", "ephemeral": template}]}


def placed(*around: Value, spec: Value | None = None, **fields: Any) -> Pod:
    """The pod a of namespace shop, by default with the claim data."""
    written = pod(spec=claimed("data") if spec is None else spec, **fields)
    [found] = (each for each in translated(*around, written).snapshot.pods if each.name == "a")
    return found


def constraints(*around: Value, spec: Value | None = None) -> PodConstraints:
    found = placed(*around, spec=spec)
    assert found.volume_problem is None
    return found.constraints


def places(*around: Value, spec: Value | None = None) -> list[str]:
    return [str(each) for each in constraints(*around, spec=spec).volume_topology]


def attached(*around: Value, spec: Value | None = None) -> list[tuple[str, str]]:
    return [(each.driver, each.volume) for each in constraints(*around, spec=spec).attachments]


def problem(*around: Value, spec: Value | None = None) -> VolumeProblem:
    found = placed(*around, spec=spec).volume_problem
    assert found is not None
    return found
