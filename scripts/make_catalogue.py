"""Makes the committed catalogue from the moto package and the hand-kept lists beside it.

`make_catalogue.py` writes instance_types.json, regions.json and prices.json into the package's data
folder; `make_catalogue.py --check` says whether they are what it would write.
"""

import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import msgspec

from wainwright import data
from wainwright.catalogue.instancetypes.instance_type_info import (
    AcceleratorInfo,
    GpuInfo,
    InstanceTypeInfo,
)
from wainwright.catalogue.offerings.built_in_offerings import PriceFactorBasis
from wainwright.catalogue.regions import NOT_OFFERED

Json = dict[str, Any]

DATA = Path(data.__file__).parent
ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
BANDWIDTH = re.compile(r"(?:(?P<cards>\d+)x )?(?P<gigabit>\d+(?:\.\d+)?) Gigabit")
SIZES = {"nano": 16, "micro": 8, "small": 4, "medium": 2, "large": 1}  # how many make up a large
UNKNOWN_FACTOR = 1.2
# Zone names are an account's own, but these two are the same zones in nearly every account.
FIXED_ZONES = {"us-east-1": {"us-east-1e": "use1-az3", "us-east-1f": "use1-az5"}}


def main(arguments: list[str]) -> int:
    stale = []
    for name, content in generate_files().items():
        path = DATA / name
        if "--check" not in arguments:
            path.write_bytes(content)
        elif not path.exists() or path.read_bytes() != content:
            stale.append(name)
    if stale:
        print(
            f"not what {Path(__file__).name} makes of {source()}: {', '.join(stale)}",
            file=sys.stderr,
        )
    return 1 if stale else 0


def generate_files() -> dict[str, bytes]:
    """The content of every generated file."""
    infos: Json = moto("instance_types")
    types = [instance_type_row(infos[name]) for name in sorted(infos)]
    names = [each.name for each in types]
    return {
        "instance_types.json": instance_type_file(types),
        "regions.json": region_file(names),
        "prices.json": price_file(infos, names),
    }


def source() -> str:
    return f"moto {version('moto')}"


def moto(name: str) -> Any:
    """A resource of moto's EC2, read as a file: importing moto takes seconds."""
    return json.loads(gzip.decompress((resources() / f"{name}.json.gz").read_bytes()))


@cache
def resources() -> Path:
    spec = find_spec("moto")
    if spec is None or spec.origin is None:
        raise SystemExit("moto is not installed: pip install -r requirements/dev.txt")
    return Path(spec.origin).parent / "ec2" / "resources"


@cache
def read_kept_list(name: str) -> Json:
    """A list kept by hand; its numbers are decimals, as they are written."""
    content: Json = json.loads(data.read_data_file(name), parse_float=Decimal)
    return content


def instance_type_file(types: list[InstanceTypeInfo]) -> bytes:
    columns = json.dumps(InstanceTypeInfo.__struct_fields__)
    rows = ",\n".join(json.dumps(row(each), separators=(",", ":")) for each in types)
    return f'{{"source":"{source()}","columns":{columns},"instance_types":[\n{rows}\n]}}\n'.encode()


def row(info: InstanceTypeInfo) -> list[object]:
    """The columns up to the last one that is not its default."""
    values: list[object] = msgspec.to_builtins(info)
    defaults = (*[msgspec.NODEFAULT] * len(values), *InstanceTypeInfo.__struct_defaults__)[
        -len(values) :
    ]
    while values[-1] == defaults[len(values) - 1]:
        values.pop()
    return values


def instance_type_row(info: Json) -> InstanceTypeInfo:
    network = info["NetworkInfo"]
    cards = network["NetworkCards"]
    processor = info["ProcessorInfo"]
    storage = info.get("InstanceStorageInfo", {})
    return InstanceTypeInfo(
        name=info["InstanceType"],
        vcpus=info["VCpuInfo"]["DefaultVCpus"],
        memory_mib=info["MemoryInfo"]["SizeInMiB"],
        architecture=architecture(processor["SupportedArchitectures"]),
        cpu_manufacturer=label(processor["Manufacturer"]),
        clock_mhz=round(processor.get("SustainedClockSpeedInGhz", 0) * 1000),
        hypervisor=info.get("Hypervisor", ""),
        spot="spot" in info["SupportedUsageClasses"],
        encryption_in_transit=network["EncryptionInTransitSupported"],
        addresses_per_interface=network["Ipv4AddressesPerInterface"],
        network_interfaces=cards[network["DefaultNetworkCardIndex"]]["MaximumNetworkInterfaces"],
        all_network_interfaces=network["MaximumNetworkInterfaces"],
        network_cards=network["MaximumNetworkCards"],
        ebs_attachments=info["EbsInfo"]["MaximumEbsAttachments"],
        dedicated_ebs_attachments=info["EbsInfo"]["AttachmentLimitType"] == "dedicated",
        ebs_mbps=ebs_bandwidth(info["EbsInfo"]),
        network_mbps=network_bandwidth(network),
        local_storage_gb=storage.get("TotalSizeInGB", 0),
        nvme=storage.get("NvmeSupport") == "required",
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        branch_interfaces=branch_interfaces(info["InstanceType"]),
        capacity_block="capacity-block" in info["SupportedUsageClasses"],
        gpu=gpu(info),
        accelerator=accelerator(info),
    )


def architecture(supported: list[str]) -> str:
    known = [ARCHITECTURES[each] for each in supported if each in ARCHITECTURES]
    return known[0] if known else f"[{' '.join(supported)}]"


def label(text: str) -> str:
    return text.lower().replace(" ", "-")


def ebs_bandwidth(ebs: Json) -> int | None:
    """Only what is dedicated without asking counts."""
    if ebs["EbsOptimizedSupport"] != "default":
        return None
    bandwidth: int = ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"]
    return bandwidth


def network_bandwidth(network: Json) -> int | None:
    """The figure that EC2 states for the whole machine, else what its cards carry at all times."""
    stated = network["NetworkPerformance"]
    if figure := BANDWIDTH.fullmatch(stated):
        return int(Decimal(figure["gigabit"]) * 1000) * int(figure["cards"] or 1)
    if not stated.startswith("Up to"):
        return None
    cards = [Decimal(str(card["BaselineBandwidthInGbps"])) for card in network["NetworkCards"]]
    return int(sum(cards) * 1000)


def branch_interfaces(name: str) -> int | None:
    family, _, size = name.partition(".")
    exception: int | None = (
        read_kept_list("branch_interfaces.json")["families"].get(family, {}).get(size)
    )
    return exception


def gpu(info: Json) -> GpuInfo | None:
    kinds = info.get("GpuInfo", {}).get("Gpus", [])
    if len(kinds) != 1:
        return None
    (only,) = kinds
    # A type with a slice of a GPU counts no GPU of its own, but a pod still finds one to use.
    count = only["Count"] or only["LogicalGpuCount"]
    memory = only["MemoryInfo"]["SizeInMiB"]
    return GpuInfo(label(only["Name"]), label(only["Manufacturer"]), count, memory)


def accelerator(info: Json) -> AcceleratorInfo | None:
    """Neuron devices are listed twice; the list of their own also has the cores."""
    for device in info.get("NeuronInfo", {}).get("NeuronDevices", []):
        return AcceleratorInfo(
            label(device["Name"]), "aws", device["Count"], device["CoreInfo"]["Count"]
        )
    for device in info.get("InferenceAcceleratorInfo", {}).get("Accelerators", []):
        return AcceleratorInfo(
            label(device["Name"]), label(device["Manufacturer"]), device["Count"], 0
        )
    return None


def region_file(names: list[str]) -> bytes:
    regions = region_names()
    body = ",\n".join(f"{json.dumps(each)}:{region_row(each, names)}" for each in regions)
    return f'{{"source":"{source()}","regions":{{\n{body}\n}}}}\n'.encode()


def region_names() -> list[str]:
    folder = resources() / "instance_type_offerings" / "region"
    return sorted(path.name.removesuffix(".json.gz") for path in folder.iterdir())


def region_row(region: str, names: list[str]) -> str:
    offered = defaultdict(set)
    for offering in moto(f"instance_type_offerings/availability-zone-id/{region}"):
        offered[offering["InstanceType"]].add(offering["Location"])
    zones = zone_names(region, set().union(*offered.values()))
    placed = {name: tuple(zone for zone in zones if zones[zone] in offered[name]) for name in names}
    sets = dict(zip(sorted(set(placed.values()) - {()}), ascii_lowercase, strict=False))
    types = "".join(sets.get(placed[name], NOT_OFFERED) for name in names)
    shown = {letter: members for members, letter in sets.items()}
    return json.dumps({"zones": zones, "sets": shown, "types": types}, separators=(",", ":"))


def zone_names(region: str, ids: set[str]) -> dict[str, str]:
    """Zone names to ids, in step but for the few that are fixed."""
    rows = moto(f"instance_type_offerings/availability-zone/{region}")
    fixed = FIXED_ZONES.get(region, {})
    names = sorted({each["Location"] for each in rows} - fixed.keys())
    free = sorted(ids - set(fixed.values()))
    return dict(sorted((fixed | dict(zip(names, free, strict=True))).items()))


def price_file(infos: Json, names: list[str]) -> bytes:
    listed = read_kept_list("price_list.json")
    prices = {name: price(infos, name, listed) for name in names}
    known = {name: float(amount) for name, amount in prices.items() if amount is not None}
    own = sorted(listed["types"].keys() & known.keys())
    regions = {name: factor(name, listed["regions"]) for name in region_names()}
    content = {"source": f"price list, {source()}", "types": known, "own": own, "regions": regions}
    return (json.dumps(content, indent=0, separators=(",", ":")) + "\n").encode()


def factor(region: str, known: Mapping[str, Json]) -> Json:
    entry = known.get(region, {"factor": UNKNOWN_FACTOR, "basis": PriceFactorBasis.UNKNOWN.value})
    return {"factor": float(entry["factor"]), "basis": entry["basis"]}


def price(infos: Json, name: str, listed: Json) -> Decimal | None:
    """USD per hour in us-east-1, to the sixth digit."""
    family = listed["families"].get(name.partition(".")[0])
    own: Decimal | None = listed["types"].get(name)
    if own is not None or family is None:
        return own
    scale = metal_factor(infos, name, family)
    if scale is None:
        return None
    info = infos[name]
    amount = Fraction(family["large"]) * sizes_in_larges(info)
    amount += Fraction(family.get("accelerator", 0)) * accelerators(info)
    return Decimal(round(amount * scale * 10**6)) / 10**6


def metal_factor(infos: Json, name: str, family: Json) -> Fraction | None:
    """What bare metal costs beyond the virtual machine of its size; None where nobody knows."""
    if ".metal" not in name:
        return Fraction(1)
    siblings = [each for each in infos if each.startswith(name.partition("metal")[0] + "metal")]
    largest = max(siblings, key=lambda each: sizes_in_larges(infos[each]))
    known: Decimal | None = family.get("metal" if name == largest else "smallerMetal")
    return None if known is None else Fraction(known)


def sizes_in_larges(info: Json) -> Fraction:
    """The size of a type, counted in machines of the size large."""
    size = info["InstanceType"].partition(".")[2]
    if size in SIZES:
        return Fraction(1, SIZES[size])
    if size == "metal":
        return Fraction(info["VCpuInfo"]["DefaultVCpus"], 2)
    return Fraction(2 * int(re.sub(r"\D", "", size) or 1))


def accelerators(info: Json) -> Fraction:
    """GPUs, counted in whole ones, or Neuron devices."""
    whole = Fraction(0)
    for kind in info.get("GpuInfo", {}).get("Gpus", []):
        whole += Fraction(kind["GpuPartitionSize"]) * kind["LogicalGpuCount"]
    for device in info.get("NeuronInfo", {}).get("NeuronDevices", []):
        whole += device["Count"]
    return whole


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
