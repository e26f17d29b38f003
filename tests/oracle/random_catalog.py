"""Small random catalogues in the shape of our Catalog kind, which both schedulers are given."""

from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from wainwright.model.instance_type import UNLIMITED
from wainwright.model.labels import (
    ARCH,
    CAPACITY_TYPE,
    INSTANCE_CATEGORY,
    INSTANCE_CPU,
    INSTANCE_FAMILY,
    INSTANCE_GENERATION,
    INSTANCE_GPU_COUNT,
    INSTANCE_SIZE,
    INSTANCE_TYPE,
    ON_DEMAND,
    OS,
    RESERVED,
    SPOT,
    ZONE,
    ZONE_ID,
)

Manifest: TypeAlias = dict[str, Any]

ZONES: Final = {"test-1a": "t1-az1", "test-1b": "t1-az2", "test-1c": "t1-az3"}
REGION: Final = "test-1"
SIZES: Final = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}
GIB_PER_CPU: Final = {"c": 2, "m": 4, "r": 8, "g": 4}
GPU: Final = "nvidia.com/gpu"
DISK: Final = "example.com/disk"
"""A label of our own that some types have; being in the catalogue makes it well known."""


class Shortage(NamedTuple):
    """Unavailable capacity."""

    percent: int = 0
    """The percentage of unavailable offerings."""
    zone: str | None = None
    """Where everything is."""


def instance_types(rng: Random, shortage: Shortage, *, gpus: bool) -> list[Manifest]:
    """Ten to forty types, offered on demand and as spot in each of three zones."""
    names = [
        (family, generation, size)
        for family in ("c", "m", "r")
        for generation in (5, 6, 7)
        for size in SIZES
    ]
    names += [("g", 5, size) for size in ("xlarge", "4xlarge")] if gpus else []
    chosen = sorted(rng.sample(names, rng.randint(10, min(40, len(names)))))
    return [_type(rng, *name, shortage) for name in chosen]


def _type(rng: Random, family: str, generation: int, size: str, shortage: Shortage) -> Manifest:
    cpus, name = SIZES[size], f"{family}{generation}.{size}"
    labels = {
        ARCH: "arm64" if generation == 7 else "amd64",
        OS: "linux",
        INSTANCE_TYPE: name,
        INSTANCE_CATEGORY: family,
        INSTANCE_FAMILY: f"{family}{generation}",
        INSTANCE_GENERATION: str(generation),
        INSTANCE_SIZE: size,
        INSTANCE_CPU: str(cpus),
    }
    labels |= {DISK: rng.choice(("ssd", "none"))} if rng.random() < 0.3 else {}
    labels |= {INSTANCE_GPU_COUNT: "1"} if family == "g" else {}
    return {
        "name": name,
        "requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in labels.items()
        ],
        "capacity": _capacity(family, cpus),
        "overhead": {"cpu": f"{70 + cpus}m", "memory": f"{300 + 40 * cpus}Mi"},
        "offerings": _offerings(rng, _price(rng, family, cpus), shortage),
    }


def _capacity(family: str, cpus: int) -> dict[str, str]:
    found = {
        "cpu": str(cpus),
        "memory": f"{cpus * GIB_PER_CPU[family]}Gi",
        "pods": str(min(110, 8 + 6 * cpus)),
        "ephemeral-storage": "20Gi",
    }
    return found | ({GPU: "1"} if family == "g" else {})


def _price(rng: Random, family: str, cpus: int) -> float:
    of_memory = 1 + GIB_PER_CPU[family] / 10 + (1.5 if family == "g" else 0)
    return round(cpus * 0.035 * of_memory * rng.uniform(0.9, 1.1), 4)


def _offerings(rng: Random, price: float, shortage: Shortage) -> list[Manifest]:
    found = []
    for zone, zone_id in ZONES.items():
        for capacity_type in (ON_DEMAND, SPOT):
            gone = rng.randrange(100) < shortage.percent or zone == shortage.zone
            ratio = rng.uniform(0.25, 0.8) if capacity_type == SPOT else 1.0
            found.append(
                {
                    "labels": {CAPACITY_TYPE: capacity_type, ZONE: zone, ZONE_ID: zone_id},
                    "price": round(price * ratio, 5),
                    "available": 0 if gone else UNLIMITED,
                    "reservationID": None,
                }
            )
    return found


def add_reservations(rng: Random, types: list[Manifest], count: int) -> None:
    """Adds so many reservations of one type and zone each to the types."""
    for number in range(count):
        kind = rng.choice(types)
        zone = rng.choice(tuple(ZONES))
        dearest = max(each["price"] for each in kind["offerings"])
        kind["offerings"].append(
            {
                "labels": {CAPACITY_TYPE: RESERVED, ZONE: zone, ZONE_ID: ZONES[zone]},
                "price": dearest / 1e7,
                "available": rng.choice((0, 1, 1, 2, 2, 3, 5)),
                "reservationID": f"cr-{number}",
            }
        )


def allocatable(kind: Manifest) -> dict[str, str]:
    """Capacity less overhead, in the units that the catalogue is written in."""
    cpu = int(kind["capacity"]["cpu"]) * 1000 - int(kind["overhead"]["cpu"].removesuffix("m"))
    gib = int(kind["capacity"]["memory"].removesuffix("Gi"))
    left = gib * 1024 - int(kind["overhead"]["memory"].removesuffix("Mi"))
    return {**kind["capacity"], "cpu": f"{cpu}m", "memory": f"{left}Mi"}
