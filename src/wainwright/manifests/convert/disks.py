"""Block devices: sizes that could be any quantity are whole gibibytes in v1."""

import re
from typing import Any, Final

from wainwright.api.ec2nodeclass import VOLUME_SIZE
from wainwright.api.fault import Path
from wainwright.api.quantity import parse
from wainwright.manifests.convert.draft import Draft

GIB: Final = 2**30
MOST: Final = 64 * 1024
"""Gibibytes of the largest volume that v1 takes."""


def disks(given: list[dict[str, Any]], path: Path, draft: Draft) -> list[dict[str, Any]]:
    return [_disk(disk, (*path, index), draft) for index, disk in enumerate(given)]


def _disk(disk: dict[str, Any], path: Path, draft: Draft) -> dict[str, Any]:
    volume = disk.get("ebs")
    if volume is None or "volumeSize" not in volume:
        return disk
    size = _size(volume["volumeSize"], (*path, "ebs", "volumeSize"), draft)
    return {**disk, "ebs": {**volume, "volumeSize": size}}


def _size(given: int | str, path: Path, draft: Draft) -> str:
    """The size in a unit that v1 takes; EBS has always rounded up to whole gibibytes."""
    if isinstance(given, str) and re.fullmatch(VOLUME_SIZE, given):
        return given
    size = parse(str(given)).units
    whole = min(max(-(-size // GIB), 1), MOST)
    if whole * GIB < size:
        draft.lost(path, f"{given} is more than a volume can hold; {whole}Gi is the most")
    elif whole * GIB != size:
        draft.changed(path, f"{given} is rounded up to {whole}Gi, as EBS has always done")
    return f"{whole}Gi"
