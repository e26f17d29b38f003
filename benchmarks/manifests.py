"""Reading manifests: 20,000 pods as YAML and as JSON, parsed, checked and typed."""

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import median_seconds, peak_memory_megabytes, print_row, run_in_process
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.documents import load_manifests
from wainwright.manifests.manifest_validation import validate_manifests
from wainwright.manifests.yaml_writer import dump_yaml

PODS = 20_000


def pod_manifest(number: int, rng: random.Random) -> dict[str, Any]:
    """A pod as a Deployment makes it: spread over zones, with a toleration and a selector."""
    app = f"app-{number % 200}"
    requests = {"cpu": f"{rng.choice([100, 250, 500])}m", "memory": f"{rng.choice([128, 512])}Mi"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    container = {"name": "main", "image": "nginx:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{app}-{number}", "namespace": "default", "labels": {"app": app}},
        "spec": {
            "containers": [container],
            "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"kubernetes.io/arch": "amd64"},
            "topologySpreadConstraints": [spread],
        },
        "status": {"phase": "Pending"},
    }


def write_files(folder: Path, count: int) -> tuple[Path, Path]:
    rng = random.Random(1)
    pods = [pod_manifest(number, rng) for number in range(count)]
    as_yaml, as_json = folder / "pods.yaml", folder / "pods.json"
    as_json.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    # The slow, careful printer is not what is measured: one document is printed a template.
    as_yaml.write_text("---\n".join(dump_yaml(one) for one in pods))
    return as_yaml, as_json


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        as_yaml, as_json = write_files(Path(folder), PODS)
        print(f"reading {PODS:,} pods")
        for name, file, target in (
            ("YAML", as_yaml, "a few seconds"),
            ("JSON", as_json, "well under 1 s"),
        ):
            _report(name, str(file), target)


def _report(name: str, file: str, target: str) -> None:
    size = Path(file).stat().st_size / 2**20
    print_row(
        f"{name}, {size:.1f} MiB: parsed",
        f"{median_seconds(lambda: load_manifests([file]), 3):.2f} s",
    )
    print_row(
        f"{name}: parsed, checked and typed",
        f"{median_seconds(lambda: read_manifests([file]), 3):.2f} s",
        target,
    )
    print_row(
        f"{name}: wain validate", f"{median_seconds(lambda: validate_manifests([file]), 3):.2f} s"
    )
    print_row(f"{name}: peak memory", f"{run_in_process('benchmarks.manifests', file):.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        read_manifests(sys.argv[1:])
        print(peak_memory_megabytes())
    else:
        run()
