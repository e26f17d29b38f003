"""Which image a class boots: a family alone became an alias, and Ubuntu has no successor."""

from copy import deepcopy
from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.placeholders import IMAGE

DEFAULT_FAMILY: Final = "AL2"
UBUNTU_DISK: Final = {
    "deviceName": "/dev/sda1",
    "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
    "rootVolume": True,
}
"""What an Ubuntu node got without being asked; AL2, which boots it now, has another."""

Spec = dict[str, Any]


def images(spec: Spec, terms: list[dict[str, Any]], path: Path, draft: Draft) -> Spec:
    """amiFamily and amiSelectorTerms of v1, and Ubuntu's disk where it must be written now."""
    family = _family(spec, path, draft)
    place = (*path, "amiFamily")
    if family == "Ubuntu":
        return _ubuntu(spec, terms, place, draft)
    if terms:
        return {"amiFamily": family, "amiSelectorTerms": terms}
    if family == "Custom":
        return {"amiFamily": family, "amiSelectorTerms": _unknown(place, draft)}
    alias = f"{family.lower()}@latest"
    draft.changed(place, f"the family alone chose the newest image; that is the alias {alias} now")
    return {"amiSelectorTerms": [{"alias": alias}]}


def _family(spec: Spec, path: Path, draft: Draft) -> str:
    family = spec.get("amiFamily")
    if isinstance(family, str):
        return family
    draft.assumed(path, f"no amiFamily is written; that meant {DEFAULT_FAMILY}")
    return DEFAULT_FAMILY


def _ubuntu(spec: Spec, terms: list[dict[str, Any]], place: Path, draft: Draft) -> Spec:
    draft.changed(
        place,
        "the family Ubuntu is gone; AL2 is written instead, which bootstraps images of Ubuntu in "
        "the same way",
    )
    made: Spec = {"amiFamily": "AL2", "amiSelectorTerms": terms or _unknown(place, draft)}
    if not spec.get("blockDeviceMappings"):
        draft.assumed(place, "the disk that Ubuntu nodes got by themselves is written out")
        made["blockDeviceMappings"] = [deepcopy(UBUNTU_DISK)]
    return made


def _unknown(place: Path, draft: Draft) -> list[dict[str, Any]]:
    draft.missing(
        place, f"v1 cannot find these images by itself; {IMAGE} stands where terms must be written"
    )
    return [{"id": IMAGE}]
