"""Refuses names of files and classes that occur twice without a reason.

Names may be the same on the two sides of a border, where they mean the same thing: an object of the
API and its value in the model, a call of EC2 in the provider and in the emulator, a reason and its
sentence. Each is listed here with its group; a name that is not, or no longer occurs twice, is an
error.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent.parent / "src" / "wainwright"

FILES: Final = {
    "a subject in several layers: command, decision, value, sentence, translation": """
        disruption input_remarks plan requirements resources simulation snapshot suggestions
        topology unschedulable""",
    "a kind of the API, and what is done with it": "auto_mode cluster kubelet",
    "EC2 seen by the provider, and emulated": """
        bottlerocket create_fleet instances interruptions launch_templates launcher pricing
        user_data""",
    "a decision, and the controller or provider that has a part in it": """
        capacity_reservations drift static_capacity""",
    "each package has its own": "context settings",
}
CLASSES: Final = {
    "an object of the API, and its value in the model": """
        Condition DaemonSet DisruptionBudget InstanceType Node NodeClaim NodePoolDisruption Pod
        PodDisruptionBudget Taint Toleration VolumeAttachment""",
    "an object of EC2: as a class selects it, as the emulator has it, or as the model knows it": """
        CapacityReservation CapacityReservations Instance InterruptionKind LaunchTemplate
        NetworkInterface SecurityGroup Subnet""",
    "a service of AWS: its client, and the emulated one": """
        Eks Iam RateLimit ResourceGroups Sqs Ssm TokenBucket""",
    "what a Scenario states, and the controller that does it": "DisruptionBreaker Pause",
    "what an option states, and what is made of it": "ClusterLimits EvictionThreshold",
    "reasons of the provider, and of the core": "DriftReason",
    "faults of EC2, and of every call that controllers make": "FaultInjector",
    "a kind of old, and the controller that Karpenter has named after it": "Provisioner",
}


def repeated() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Files and classes by name, those that occur more than once."""
    files: dict[str, list[str]] = defaultdict(list)
    classes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        place = str(path.relative_to(SOURCES))
        files[path.stem].append(place)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{place}:{node.lineno}")
    del files["__init__"]
    return _several(files), _several(classes)


def _several(found: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: places for name, places in found.items() if len(places) > 1}


def errors(kind: str, found: Mapping[str, list[str]], allowed: Mapping[str, str]) -> Iterator[str]:
    known = {name for names in allowed.values() for name in names.split()}
    for name in sorted(found.keys() - known):
        yield f"the {kind} name {name} occurs more than once: {', '.join(found[name])}"
    for name in sorted(known - found.keys()):
        yield f"the {kind} name {name} occurs only once: take it off the list in {__file__}"


def main() -> None:
    files, classes = repeated()
    found = [*errors("file", files, FILES), *errors("class", classes, CLASSES)]
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
