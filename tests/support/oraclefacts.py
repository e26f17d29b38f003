"""Facts about worlds and outcomes that decide whether a known difference is at work."""

from collections.abc import Iterator
from typing import Any, Final

from tests.support.oraclecatalogue import Manifest
from tests.support.oracleours import Launched, Outcome
from tests.support.oracleworlds import World

from wainwright.api.quantity import parse
from wainwright.model.labels import CAPACITY_TYPE, NODEPOOL, ZONE

PRESENT: Final = frozenset({"In", "Exists", "Gt", "Lt"})


def over_limits(world: World, run: Outcome) -> bool:
    """Whether some pool has bought more than its limits allow."""
    capacity = {kind["name"]: kind["capacity"] for kind in world.types}
    for pool in world.kinds("NodePool"):
        limits = pool["spec"].get("limits") or {}
        bought = [each for each in run.launched if each.pool == pool["metadata"]["name"]]
        for resource, limit in limits.items():
            used = sum(_amounts(world, pool["metadata"]["name"], bought, capacity, resource))
            if bought and used > parse(limit).nano:
                return True
    return False


def _amounts(
    world: World,
    pool: str,
    bought: list[Launched],
    capacity: dict[str, Any],
    resource: str,
) -> Iterator[int]:
    """What each machine of the pool counts for, those that stood before among them."""
    standing = [
        node["status"]["capacity"]
        for node in world.kinds("Node")
        if node["metadata"]["labels"].get(NODEPOOL) == pool
    ]
    for each in [*standing, *(capacity[machine.instance_type] for machine in bought)]:
        yield parse("1" if resource == "nodes" else each.get(resource, "0")).nano


def least(pool: Manifest) -> dict[str, int]:
    """The minValues of a pool by key."""
    asked = pool["spec"]["template"]["spec"]["requirements"]
    return {each["key"]: each["minValues"] for each in asked if "minValues" in each}


def too_few(machine: Launched, wanted: dict[str, int]) -> bool:
    """Whether fewer zones or capacity types are left than these minValues ask for."""
    left = {ZONE: machine.zones, CAPACITY_TYPE: machine.capacity_types}
    return any(len(values) < wanted.get(key, 0) for key, values in left.items())


def defined(world: World) -> set[str]:
    """The labels that pools, types and nodes have of their own."""
    found: set[str] = set()
    for pool in world.kinds("NodePool"):
        template = pool["spec"]["template"]
        found |= set(template["metadata"]["labels"])
        found |= {each["key"] for each in template["spec"]["requirements"]}
    for kind in world.types:
        found |= {each["key"] for each in kind["requirements"]}
    for node in world.kinds("Node"):
        found |= set(node["metadata"]["labels"])
    return found


def asked_for(pod: Manifest) -> set[str]:
    """The labels that a node must have in every term of the pod's."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return set.intersection(
        *(
            {each["key"] for each in term["matchExpressions"] if each["operator"] in PRESENT}
            for term in terms
        )
    )


def spreads(pod: Manifest) -> list[tuple[str, int | None]]:
    """Each constraint without its minDomains, and those."""
    return [
        (
            repr(sorted((k, repr(v)) for k, v in each.items() if k != "minDomains")),
            each.get("minDomains"),
        )
        for each in pod["spec"].get("topologySpreadConstraints") or ()
    ]


def soft(spec: Manifest) -> bool:
    """Whether a taint asks pods rather not to come."""
    return any(taint["effect"] == "PreferNoSchedule" for taint in spec.get("taints") or ())


def ports(spec: Manifest) -> set[int]:
    """The ports of the node that the containers take."""
    return {
        port["hostPort"]
        for container in spec["containers"]
        for port in container.get("ports") or ()
        if "hostPort" in port
    }
