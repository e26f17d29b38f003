"""`make bench-karpenter ARGS=cluster`: Karpenter with its KWOK provider and `wain run`, each on a
real control plane of its own, with the same Deployment, instance types, prices and kubelets.

Needs Go. 500 and 5,000 pods, of which the latter have targets; CLUSTER_PODS=100,2000 for others.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from tests.integration.run_manifests import NODE_POOL
from tests.support.control_plane import ControlPlane
from tests.support.karpenter import KWOK, RunningKarpenter, build_karpenter, kwok_crds
from tests.support.processes import MissingTool

from benchmarks.cluster import (
    LEFT,
    OURS,
    TARGET_PODS,
    Autoscaler,
    MeasuredProcess,
    ScaleDown,
    ScaleUp,
    instance_types,
    measure_autoscaler,
    wanted_sizes,
)
from benchmarks.measure import Targets
from wainwright.model.instance_type import InstanceType
from wainwright.model.labels import CAPACITY_TYPE, ON_DEMAND, ZONE
from wainwright.model.resources import Resources, add_resources, format_quantity

SIZES: Final = (500, TARGET_PODS)
SHARE_OF_REQUESTS: Final = 0.5
SHARE_OF_TIME: Final = 0.7
KWOK_OVERHEAD: Final = {"cpu": 100, "memory": 10 * 2**20}
"""What the KWOK provider subtracts from the capacity of every type."""
RESOURCES: Final = ("cpu", "memory", "ephemeral-storage", "pods")
CLASS_REFERENCE: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
NODE_CLASS: Final = {
    "apiVersion": "karpenter.kwok.sh/v1alpha1",
    "kind": "KWOKNodeClass",
    "metadata": {"name": "default"},
    "spec": {"nodeRegistrationDelay": "1s"},
}


def run() -> None:
    """SystemExit where a target is missed."""
    print("Karpenter with its KWOK provider, and wain run, each on a real control plane")
    try:
        build_karpenter(KWOK)  # else it would be part of what is measured
    except MissingTool as missing:
        sys.exit(str(missing))
    targets = Targets()
    for pods in wanted_sizes(SIZES):
        try:
            results = [measure_autoscaler(each, pods) for each in (KARPENTER, OURS)]
        except MissingTool as missing:
            sys.exit(str(missing))
        measured = [each for each in results if each is not None]
        if len(measured) == len(results):
            _print_table(f"{pods:,} pods", SCALE_UP, [up for up, _ in measured])
            _print_table(f"{pods // LEFT:,} pods left", SCALE_DOWN, [down for _, down in measured])
            if pods == TARGET_PODS:
                compare(targets, *measured)
    targets.check()


def compare(
    targets: Targets, theirs: tuple[ScaleUp, ScaleDown], ours: tuple[ScaleUp, ScaleDown]
) -> None:
    """Ours beside what Karpenter took in the same run."""
    (their_up, their_down), (up, down) = theirs, ours
    print(f"  targets at {TARGET_PODS:,} pods")
    most = SHARE_OF_REQUESTS * their_up.requests
    targets.row("  requests to the API server", up.requests, most)
    targets.row("  last pod bound after", up.last_pod, SHARE_OF_TIME * their_up.last_pod, "s")
    targets.price("  price", up.price, their_up.price)
    targets.row("  pods moved", down.moved, their_down.moved)


SCALE_UP: Final[Sequence[tuple[str, Callable[[ScaleUp], str]]]] = (
    ("last claim created after", lambda up: f"{up.last_claim:.1f} s"),
    ("last pod bound after", lambda up: f"{up.last_pod:.1f} s"),
    ("rounds", lambda up: f"{up.plans:.0f}"),
    ("own CPU", lambda up: f"{up.cpu:.1f} s"),
    ("peak memory", lambda up: f"{up.mebibytes:.0f} MiB"),
    ("requests to the API server", lambda up: f"{up.requests:,.0f}"),
    ("nodes", lambda up: f"{up.nodes}"),
    ("price", lambda up: f"${up.price:.2f}/h"),
    ("load average of the machine", lambda up: f"{up.load:.1f}"),
)
SCALE_DOWN: Final[Sequence[tuple[str, Callable[[ScaleDown], str]]]] = (
    ("settled after", lambda down: f"{down.settled:.1f} s"),
    ("pods moved", lambda down: f"{down.moved}"),
    ("nodes", lambda down: f"{down.nodes}"),
    ("price", lambda down: f"${down.price:.2f}/h"),
    ("own CPU", lambda down: f"{down.cpu:.1f} s"),
    ("requests to the API server", lambda down: f"{down.requests:,.0f}"),
    ("load average of the machine", lambda down: f"{down.load:.1f}"),
)


def _print_table(
    title: str, rows: Sequence[tuple[str, Callable[[Any], str]]], measured: Sequence[Any]
) -> None:
    print(f"  {title:<40}{'Karpenter':>14}{'Wainwright':>14}")
    for name, shown in rows:
        print(f"    {name:<38}{''.join(f'{shown(each):>14}' for each in measured)}", flush=True)


def _node_pool() -> dict[str, Any]:
    """Of the same requirements, as far as the list of instance types does not have them."""
    spec = NODE_POOL["spec"]
    template = spec["template"]["spec"]
    requirements = [each for each in template["requirements"] if each["key"] == CAPACITY_TYPE]
    changed = {**template, "nodeClassRef": CLASS_REFERENCE, "requirements": requirements}
    limited = {**spec, "template": {"spec": changed}, "limits": {"cpu": "100000"}}
    return {**NODE_POOL, "spec": limited}


def _start(plane: ControlPlane, folder: Path) -> AbstractContextManager[MeasuredProcess]:
    types = folder / "instance-types.json"
    types.write_text(json.dumps([*map(_kwok_type, instance_types())]), encoding="utf-8")
    return RunningKarpenter(KWOK, plane, folder, {"INSTANCE_TYPES_FILE_PATH": str(types)})


def _kwok_type(kind: InstanceType) -> dict[str, Any]:
    """As the KWOK provider reads it, so that nodes have what ours have."""
    return {
        "name": kind.name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": _quantities(add_resources(kind.allocatable, KWOK_OVERHEAD)),
        "offerings": [
            {
                "Price": offering.price,
                "Requirements": [
                    {"key": key, "operator": "In", "values": [value]}
                    for key in (ZONE, CAPACITY_TYPE)
                    if (value := offering.requirements.single_value(key)) is not None
                ],
            }
            for offering in kind.offerings
            if offering.requirements.single_value(CAPACITY_TYPE) == ON_DEMAND
        ],
    }


def _quantities(amounts: Resources) -> dict[str, str]:
    return {name: str(format_quantity(name, amounts[name])) for name in RESOURCES}


KARPENTER: Final = Autoscaler(
    name="Karpenter",
    crds=kwok_crds,
    node_class=("KWOKNodeClass", NODE_CLASS),
    node_pool=_node_pool(),
    start=_start,
)
