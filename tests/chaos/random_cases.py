"""Random worlds with a timeline and faults: everything small, so that one takes about a second."""

from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from tests.support.random_inputs.scenarios import CLASS
from tests.support.scripted_simulation import A, B, C, cloud, reservation, scenario

from wainwright.sim.fault_injection import ClockStep, Fault, FaultInjection
from wainwright.sim.scenario import Scenario

Manifest = dict[str, Any]
ZONES: Final = (A, B, C)
TYPES: Final = ("m5.large", "m5.xlarge", "m5.2xlarge", "c5.large", "c5.xlarge", "m6g.large")
NAMESPACE: Final = "shop"
CAPACITY_TYPES: Final = (
    ("on-demand",),
    ("spot",),
    ("spot", "on-demand"),
    ("reserved", "on-demand"),
    ("reserved", "spot", "on-demand"),
)
FAULTS_END: Final = 2700.0
"""Seconds since the start until which things happen and calls fail."""
LARGEST_CLOCK_STEP: Final = 90.0
SHARES: Final = (0.0, 0.0, 0.01, 0.03, 0.1)
"""Of the calls, by kind of fault: a world in which everything fails shows little else."""
DEATH_SHARES: Final = (0.0, 0.0, 0.0005, 0.002, 0.01)
DEATHS: Final = (Fault.DIES_BEFORE, Fault.DIES_AFTER, Fault.DIES_SOON)


class ChaosCase(msgspec.Struct, frozen=True, kw_only=True):
    """A world, what happens to it, and the faults of its calls; all of it can be made smaller."""

    seed: int
    manifests: tuple[Manifest, ...]
    spec: Manifest
    """Of the Scenario, without its events."""
    events: tuple[Manifest, ...]
    faults: FaultInjection
    extra_instances: float = 0.0
    """The share of CreateFleet calls that start one instance more than was requested."""

    def scenario(self) -> Scenario:
        return scenario(*self.manifests, events=list(self.events), **self.spec)


def random_case(seed: int) -> ChaosCase:
    random = Random(f"chaos {seed}")
    pools = [_pool(random, number) for number in range(random.choice((1, 1, 2, 3)))]
    workloads = [_workload(random, f"web-{each}") for each in range(random.randint(1, 3))]
    if any("expireAfter" in each["spec"]["template"]["spec"] for each in pools):
        # Nodes that expire every 40 minutes come to rest in between only if nothing holds them up.
        for each in workloads:
            each["spec"]["template"]["metadata"].pop("annotations", None)
    budgets = [_budget(random, each) for each in workloads if random.random() < 0.5]
    daemons = [_daemonset()] if random.random() < 0.4 else []
    spec: Manifest = {
        "until": "quiet",
        "seed": seed,
        "machines": {
            "boot": ["15s", "60s"],
            "ready": ["1s", "10s"],
            "neverJoin": random.choice([0, 0, 0, 0.1]),
        },
        "pods": {"start": ["1s", "5s"], "termination": ["1s", "20s"]},
        "settings": _settings(random),
    }
    changes = [_change(random, pools, workloads) for _ in range(random.randint(2, 7))]
    more = _less_common(seed, pools, workloads, spec)
    changes += more.events
    return ChaosCase(
        seed=seed,
        manifests=(CLASS, *pools, *workloads, *budgets, *daemons, *more.manifests, _cloud(random)),
        spec=spec,
        events=(*sorted(changes, key=_moment), *_end_of_expiry(pools, changes)),
        faults=_faults(random, seed),
        extra_instances=_extra_instances(seed, [*pools, *more.manifests], spec),
    )


class LessCommon(msgspec.Struct, frozen=True):
    """What only some worlds have, besides changes of their NodePools and settings."""

    manifests: list[Manifest] = []
    events: list[Manifest] = []


def _less_common(
    seed: int, pools: list[Manifest], workloads: list[Manifest], spec: Manifest
) -> LessCommon:
    """Features behind gates, brakes, and prices that move: nothing of it in half of the worlds, so
    that those show what they showed before there was any.
    """
    random, made = Random(f"less common {seed}"), LessCommon()
    if random.random() < 0.5:
        return made
    for feature in (
        _balanced,
        _static_pool,
        _capacity_buffer,
        _repair,
        _deletion_costs,
        _brakes,
        _pause,
        _prices,
        _less_capacity,  # from here on added later: what comes before is drawn as without them
        _moving_market,
    ):
        if random.random() < 0.25:
            feature(random, World(pools, workloads, spec, made))
    return made


def _end_of_expiry(pools: list[Manifest], changes: list[Manifest]) -> list[Manifest]:
    """In the end no further node gets an `expireAfter`: a dozen that expire every 40 minutes, each
    at another time, would never be quiet for ten.
    """
    latest = {each["metadata"]["name"]: each for each in pools}
    for change in sorted(changes, key=_moment):
        applied = (each for each in change.get("apply", ()) if each["kind"] == "NodePool")
        latest.update({each["metadata"]["name"]: each for each in applied})
    expiring = [
        each for each in latest.values() if "expireAfter" in each["spec"]["template"]["spec"]
    ]
    if not expiring:
        return []
    return [{"at": f"{int(FAULTS_END)}s", "apply": [*map(_never_expiring, expiring)]}]


def _never_expiring(pool: Manifest) -> Manifest:
    template = pool["spec"]["template"]
    lasting = {**template, "spec": {**template["spec"], "expireAfter": "Never"}}
    return {**pool, "spec": {**pool["spec"], "template": lasting}}


def _moment(event: Manifest) -> int:
    return int(str(event["at"]).removesuffix("s"))


# The world at the start


def _settings(random: Random) -> Manifest:
    settings: Manifest = {
        "featureGates": {
            "SpotToSpotConsolidation": random.random() < 0.5,
            "NodeRepair": random.random() < 0.2,
            "TerminateFirstDrift": random.random() < 0.15,
        }
    }
    if random.random() < 0.2:
        settings["minimumSaving"] = "5%"
    if random.random() < 0.15:
        settings["clusterLimits"] = {"nodes": random.randint(4, 10)}
    return settings


def _cloud(random: Random) -> Any:
    reservations = [_reservation(random, number) for number in range(2)]
    return cloud(instanceTypes=list(TYPES), capacityReservations=reservations)


def _reservation(random: Random, number: int) -> Any:
    more: Manifest = {"instanceType": random.choice(("c5.large", "m5.xlarge"))}
    if random.random() < 0.3:
        more["endTime"] = f"2026-01-01T00:{random.randint(10, 44)}:00Z"
    zone = random.choice(ZONES)
    return reservation(
        f"cr-{number}", total=random.randint(1, 4), **{**more, "availabilityZone": zone}
    )


def _pool(random: Random, number: int) -> Manifest:
    requirements: list[Manifest] = [
        {
            "key": "karpenter.sh/capacity-type",
            "operator": "In",
            "values": list(random.choice(CAPACITY_TYPES)),
        }
    ]
    if random.random() < 0.3:
        requirements.append(
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": sorted(random.sample(TYPES, 4)),
                "minValues": random.randint(1, 3),
            }
        )
    template: Manifest = {"spec": {"requirements": requirements}}
    if random.random() < 0.15:
        template["spec"]["terminationGracePeriod"] = random.choice(["2m", "10m"])
    if random.random() < 0.1:
        template["spec"]["expireAfter"] = "40m"
    spec: Manifest = {"disruption": _disruption(random), "template": template}
    if random.random() < 0.25:
        spec["limits"] = {"cpu": str(random.randint(6, 24))}
    if random.random() < 0.5:
        spec["weight"] = random.randint(1, 100)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": f"pool-{number}"},
        "spec": spec,
    }


def _disruption(random: Random) -> Manifest:
    disruption: Manifest = {
        "consolidationPolicy": random.choice(
            ["WhenEmpty", "WhenEmptyOrUnderutilized", "WhenEmptyOrUnderutilized"]
        ),
        "consolidateAfter": random.choice(["0s", "30s", "2m"]),
        "budgets": random.choice(
            [
                [{"nodes": "100%"}],
                [{"nodes": "1"}],
                [{"nodes": "2"}, {"nodes": "1", "reasons": ["Drifted"]}],
                [{"nodes": "50%"}],
            ]
        ),
    }
    return disruption


def _workload(random: Random, name: str) -> Manifest:
    requests = {"cpu": random.choice(["300m", "700m", "1", "1500m"]), "memory": "1Gi"}
    pod_spec: Manifest = {
        "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": random.choice([5, 30, 60]),
    }
    if random.random() < 0.2:
        pod_spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": random.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": name}},
            }
        ]
    metadata: Manifest = {"labels": {"app": name}}
    if random.random() < 0.1:
        metadata["annotations"] = {"karpenter.sh/do-not-disrupt": random.choice(["true", "10m"])}
    kind = random.choice(["Deployment", "Deployment", "StatefulSet"])
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": random.randint(0, 6),
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": metadata, "spec": pod_spec},
            **({"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}),
        },
    }


def _budget(random: Random, workload: Manifest) -> Manifest:
    name = workload["metadata"]["name"]
    bounds: list[Manifest] = [{"maxUnavailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}]
    bound = random.choice(bounds)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**bound, "selector": {"matchLabels": {"app": name}}},
    }


def _daemonset() -> Manifest:
    requests = {"cpu": "100m", "memory": "128Mi"}
    containers = [{"name": "main", "image": "agent", "resources": {"requests": requests}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


# What only some worlds have


class World(NamedTuple):
    """What features are added to."""

    pools: list[Manifest]
    workloads: list[Manifest]
    spec: Manifest
    more: LessCommon

    @property
    def settings(self) -> Manifest:
        settings: Manifest = self.spec["settings"]
        return settings


def _balanced(random: Random, world: World) -> None:
    random.choice(world.pools)["spec"]["disruption"]["consolidationPolicy"] = "Balanced"


def _static_pool(random: Random, world: World) -> None:
    world.settings["featureGates"]["StaticCapacity"] = True
    values = [random.choice(["on-demand", "spot"])]
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": values}
    pool: Manifest = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "static"},
        "spec": {
            "replicas": random.randint(0, 3),
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]},
            "template": {"spec": {"requirements": [requirement]}},
        },
    }
    if random.random() < 0.5:
        pool["spec"]["limits"] = {"nodes": str(random.randint(2, 5))}
    world.more.manifests.append(pool)
    for _ in range(random.randint(0, 2)):
        labels = {"generation": str(random.randint(1, 2))}
        template = {**pool["spec"]["template"], "metadata": {"labels": labels}}
        changed = {**pool["spec"], "replicas": random.randint(0, 3), "template": template}
        applied = {"apply": [{**pool, "spec": changed}]}
        world.more.events.append({"at": _some_time(random), **applied})


def _capacity_buffer(random: Random, world: World) -> None:
    workload = random.choice(world.workloads)
    world.settings["featureGates"]["CapacityBuffer"] = True
    sizes: list[Manifest] = [{"replicas": random.randint(1, 3)}, {"percentage": 50}]
    reference = {"apiGroup": "apps", "kind": workload["kind"], "name": workload["metadata"]["name"]}
    buffer: Manifest = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": NAMESPACE},
        "spec": {"scalableRef": reference, **random.choice(sizes)},
    }
    begin = random.randint(0, 1200)
    world.more.events.append({"at": f"{begin}s", "apply": [buffer]})
    if random.random() < 0.3:
        gone = {"kind": "CapacityBuffer", "namespace": NAMESPACE, "name": "spare"}
        world.more.events.append({"at": f"{begin + random.randint(1, 900)}s", "delete": gone})


def _repair(random: Random, world: World) -> None:
    gates = world.settings["featureGates"]
    gates["NodeRepair"] = True
    gates["TerminateFirstRepair"] = random.random() < 0.3
    world.settings["nodeRepair"] = random.choice(["replace-first", "replace-first", "forceful"])
    for _ in range(random.randint(1, 3)):
        name = random.choice(world.workloads)["metadata"]["name"]
        broken = {
            "node": {"pods": [f"{NAMESPACE}/{name}-{random.randint(0, 2)}"]},
            "type": random.choice(
                ["AcceleratedHardwareReady", "AcceleratedHardwareReady", "Ready"]
            ),
            "status": "False",
        }
        world.more.events.append({"at": _some_time(random), "condition": broken})


def _deletion_costs(_: Random, world: World) -> None:
    world.settings["featureGates"]["PodDeletionCostManagement"] = True


def _brakes(random: Random, world: World) -> None:
    if random.random() < 0.7:
        breaker = {"share": random.choice(["10%", "30%"]), "nodes": random.randint(0, 2)}
        world.settings["disruptionBreaker"] = {**breaker, "window": "10m"}
    if random.random() < 0.5:
        world.settings["maxNodesPerCommand"] = random.randint(1, 2)


def _pause(random: Random, world: World) -> None:
    """By annotation, for some minutes: paused for good nothing would come to rest."""
    pool, begin = random.choice(world.pools), random.randint(0, int(FAULTS_END) - 1300)
    annotation = {"wainwright.dev/pause": random.choice(["disruption", "provisioning", "all"])}
    paused = {**pool, "metadata": {**pool["metadata"], "annotations": annotation}}
    end = begin + random.randint(60, 600)
    world.more.events.append({"at": f"{begin}s", "apply": [paused]})
    world.more.events.append({"at": f"{end}s", "apply": [pool]})


def _prices(random: Random, world: World) -> None:
    world.settings["priceRefresh"] = random.choice(["1m", "10m"])
    for _ in range(random.randint(1, 4)):
        change: Manifest = {
            "instanceType": random.choice(["m5.*", "c5.*", "*.large"]),
            "capacityType": "spot",
            "factor": random.choice([0.3, 0.8, 1.5, 3]),
        }
        if random.random() < 0.5:
            change["zone"] = random.choice(ZONES)
        for_a_while = {"for": "10m"} if random.random() < 0.5 else {}
        world.more.events.append({"at": _some_time(random), **for_a_while, "price": change})


def _less_capacity(random: Random, world: World) -> None:
    """Instances that come up meanwhile offer less than the catalogue says, so that the
    kube-scheduler does not bind what was planned onto them.
    """
    less = random.choice([{"cpu": "1500m"}, {"cpu": "3"}, {"cpu": "7"}, {"memory": "3Gi"}])
    begin = random.choice([0, random.randint(0, 900)])
    lasting = f"{random.randint(900, int(FAULTS_END) - 960)}s"
    world.more.events.append({"at": f"{begin}s", "for": lasting, "less": less})


def _moving_market(random: Random, world: World) -> None:
    """Families of instance types whose spot prices change places, and a NodePool that follows."""
    world.settings["priceRefresh"], world.settings["spotToSpotTypes"] = "1m", 1
    world.settings["featureGates"]["SpotToSpotConsolidation"] = True
    spec = random.choice(world.pools)["spec"]
    spec["disruption"] |= {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "30s",
        "budgets": [{"nodes": "100%"}],
    }
    spec["template"]["spec"]["requirements"][0]["values"] = ["spot"]
    families = ["m5.*", "c5.*", "m6g.*"]
    for begin in range(600, int(FAULTS_END) - 600, 600):
        for family, factor in zip(random.sample(families, 2), (0.3, 4), strict=True):
            change = {"instanceType": family, "capacityType": "spot", "factor": factor}
            at = f"{begin + random.randint(0, 300)}s"
            world.more.events.append({"at": at, "for": "10m", "price": change})


def _some_time(random: Random) -> str:
    return f"{random.randint(0, int(FAULTS_END) - 660)}s"


# What happens


def _change(random: Random, pools: list[Manifest], workloads: list[Manifest]) -> Manifest:
    made = random.choices(
        (_scale, _drift, _cloud_change, _outage, _loss, _reservation_change), (8, 2, 3, 1, 3, 2)
    )[0](random, pools, workloads)
    return {"at": _some_time(random), **made}


def _scale(random: Random, _: list[Manifest], workloads: list[Manifest]) -> Manifest:
    workload = random.choice(workloads)
    return {
        "scale": {
            "kind": workload["kind"],
            "name": workload["metadata"]["name"],
            "namespace": NAMESPACE,
            "replicas": random.randint(0, 8),
        }
    }


def _drift(random: Random, pools: list[Manifest], _: list[Manifest]) -> Manifest:
    pool = random.choice(pools)
    template = pool["spec"]["template"]
    labels = {"generation": str(random.randint(1, 9))}
    changed = {**template, "metadata": {"labels": labels}}
    return {"apply": [{**pool, "spec": {**pool["spec"], "template": changed}}]}


def _cloud_change(random: Random, _: list[Manifest], __: list[Manifest]) -> Manifest:
    pattern = random.choice(
        [
            {"zone": random.choice(ZONES)},
            {"capacityType": "spot"},
            {"instanceType": random.choice(["c5.*", "m5.*"]), "capacityType": "on-demand"},
        ]
    )
    return {"for": "10m", "unavailable": pattern}


def _outage(random: Random, _: list[Manifest], __: list[Manifest]) -> Manifest:
    return random.choice(
        [
            {"for": "10m", "outage": {"zone": random.choice(ZONES)}},
            {"for": "1m", "down": "apiserver"},
        ]
    )


def _loss(random: Random, _: list[Manifest], __: list[Manifest]) -> Manifest:
    return random.choice(
        [
            {"interrupt": {"share": 0.5}},
            {"interrupt": {"capacityType": "spot", "count": 1}},
            {"kill": {"node": "*"}},
            {"restart": "controller"},
        ]
    )


def _reservation_change(random: Random, _: list[Manifest], __: list[Manifest]) -> Manifest:
    identity = f"cr-{random.randint(0, 1)}"
    return random.choice(
        [
            {"reservation": {"cancel": identity}},
            {"reservation": {"change": {"id": identity, "total": random.randint(1, 5)}}},
            {"reservation": {"change": {"id": identity, "available": 0}}},
        ]
    )


def _is_limited(pools: list[Manifest], spec: Manifest) -> bool:
    return "clusterLimits" in spec["settings"] or any("limits" in each["spec"] for each in pools)


# Faults


def _extra_instances(seed: int, pools: list[Manifest], spec: Manifest) -> float:
    """Only in worlds without limits: what EC2 starts by itself exceeds them whatever we do."""
    if _is_limited(pools, spec):
        return 0.0
    return Random(f"extra instances {seed}").choice((0.0, 0.0, 0.5))


def _faults(random: Random, seed: int) -> FaultInjection:
    shares = {kind: random.choice(DEATH_SHARES if kind in DEATHS else SHARES) for kind in Fault}
    steps = [
        ClockStep(
            at=float(random.randint(0, int(FAULTS_END))),
            offset=float(random.randint(-int(LARGEST_CLOCK_STEP), int(LARGEST_CLOCK_STEP))),
        )
        for _ in range(random.choice((0, 0, 1, 3)))
    ]
    return FaultInjection(
        seed=seed,
        shares={kind: share for kind, share in shares.items() if share},
        clock_steps=tuple(sorted(steps, key=lambda each: each.at)),
        until=FAULTS_END,
    )
