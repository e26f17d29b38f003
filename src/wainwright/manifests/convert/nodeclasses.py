"""AWSNodeTemplate and EC2NodeClass of v1beta1, to EC2NodeClass of v1.
Where the old document lacks a field that v1 requires, a placeholder is written: valid, so that the
document can be used for offline plans, and non-existent, so that a launch fails at once.
"""

import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import islice, product
from math import prod
from typing import Any, Final

from wainwright.api.field_error import FieldPath
from wainwright.api.karpenter.ec2nodeclass import RESTRICTED_TAGS, VOLUME_SIZE_PATTERN
from wainwright.api.legacy.v1alpha5 import IDS, NAME_KEY, OWNERS_KEY
from wainwright.api.quantity import parse_quantity
from wainwright.manifests.convert.conversion_draft import (
    ConversionDraft,
    JsonObject,
    copy_status,
    new_object,
)

NO_ROLE: Final = "FILL-IN-NODE-ROLE"
NO_CLUSTER: Final = "FILL-IN-CLUSTER-NAME"
NO_IMAGE: Final = "ami-placeholder"
NEWEST_AMI: Final = "al2023@latest"


def discovery_terms() -> list[dict[str, Any]]:
    """Terms with the tag that most clusters use for subnets and security groups."""
    return [{"tags": {"karpenter.sh/discovery": NO_CLUSTER}}]


def convert_identity(spec: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """The role or the instance profile of the nodes, whichever is set."""
    for field in ("role", "instanceProfile"):
        if spec.get(field):
            return {field: spec[field]}
    draft.missing(
        path,
        f"a class needs a role or an instanceProfile; role {NO_ROLE} is used as a placeholder",
    )
    return {"role": NO_ROLE}


def terms_or_placeholder(
    terms: list[dict[str, Any]], resources: str, path: FieldPath, draft: ConversionDraft
) -> Any:
    """The terms, or a placeholder."""
    if terms:
        return terms
    draft.missing(
        path, f"a class needs to select {resources}; the tag value {NO_CLUSTER} stands there"
    )
    return discovery_terms()


def placeholder_class(path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """The spec of a class that is referred to and not in the input."""
    draft.missing(
        path,
        f"nothing is known of the class but its kubelet settings: fill in its role ({NO_ROLE}) and "
        f"its subnets and security groups ({NO_CLUSTER}); {NEWEST_AMI} is assumed as image",
    )
    return {
        "amiSelectorTerms": [{"alias": NEWEST_AMI}],
        "role": NO_ROLE,
        "subnetSelectorTerms": discovery_terms(),
        "securityGroupSelectorTerms": discovery_terms(),
    }


DEFAULT_AMI_FAMILY: Final = "AL2"
UBUNTU_DISK: Final = {
    "deviceName": "/dev/sda1",
    "ebs": {"encrypted": True, "volumeSize": "20Gi", "volumeType": "gp3"},
    "rootVolume": True,
}
"""The default disk of the Ubuntu family; that of AL2, which replaces the family, differs."""


def convert_images(
    spec: JsonObject, terms: list[dict[str, Any]], path: FieldPath, draft: ConversionDraft
) -> JsonObject:
    """amiFamily and amiSelectorTerms of v1, and Ubuntu's default disk where it applied."""
    family = _ami_family(spec, path, draft)
    place = (*path, "amiFamily")
    if family == "Ubuntu":
        return _convert_ubuntu(spec, terms, place, draft)
    if terms:
        return {"amiFamily": family, "amiSelectorTerms": terms}
    if family == "Custom":
        return {"amiFamily": family, "amiSelectorTerms": _placeholder_image(place, draft)}
    alias = f"{family.lower()}@latest"
    draft.changed(place, f"the family alone chose the newest image; that is the alias {alias} now")
    return {"amiSelectorTerms": [{"alias": alias}]}


def _ami_family(spec: JsonObject, path: FieldPath, draft: ConversionDraft) -> str:
    family = spec.get("amiFamily")
    if isinstance(family, str):
        return family
    draft.assumed(path, f"no amiFamily is written; that meant {DEFAULT_AMI_FAMILY}")
    return DEFAULT_AMI_FAMILY


def _convert_ubuntu(
    spec: JsonObject, terms: list[dict[str, Any]], place: FieldPath, draft: ConversionDraft
) -> JsonObject:
    draft.changed(
        place,
        "the family Ubuntu is gone; AL2 is written instead, which bootstraps images of Ubuntu in "
        "the same way",
    )
    converted: JsonObject = {
        "amiFamily": "AL2",
        "amiSelectorTerms": terms or _placeholder_image(place, draft),
    }
    if not spec.get("blockDeviceMappings"):
        draft.assumed(place, "the disk that Ubuntu nodes got by themselves is written out")
        converted["blockDeviceMappings"] = [deepcopy(UBUNTU_DISK)]
    return converted


def _placeholder_image(place: FieldPath, draft: ConversionDraft) -> list[dict[str, Any]]:
    draft.missing(
        place,
        f"v1 cannot find these images by itself; {NO_IMAGE} stands where terms must be written",
    )
    return [{"id": NO_IMAGE}]


GIB: Final = 2**30
MAX_VOLUME_GIB: Final = 59_000
"""The largest volume that v1 accepts."""


def convert_disks(
    source: list[dict[str, Any]], path: FieldPath, draft: ConversionDraft
) -> list[dict[str, Any]]:
    return [_convert_disk(disk, (*path, index), draft) for index, disk in enumerate(source)]


def _convert_disk(disk: dict[str, Any], path: FieldPath, draft: ConversionDraft) -> dict[str, Any]:
    volume = disk.get("ebs")
    if volume is None or "volumeSize" not in volume:
        return disk
    size = _convert_size(volume["volumeSize"], (*path, "ebs", "volumeSize"), draft)
    return {**disk, "ebs": {**volume, "volumeSize": size}}


def _convert_size(source: int | str, path: FieldPath, draft: ConversionDraft) -> str:
    """The size in a unit that v1 accepts; EBS has always rounded up to whole gibibytes."""
    if isinstance(source, str) and re.fullmatch(VOLUME_SIZE_PATTERN, source):
        return source
    size = parse_quantity(str(source)).units
    gibibytes = min(max(-(-size // GIB), 1), MAX_VOLUME_GIB)
    if gibibytes * GIB < size:
        draft.lost(path, f"{source} is more than a volume can hold; {gibibytes}Gi is the most")
    elif gibibytes * GIB != size:
        draft.changed(path, f"{source} is rounded up to {gibibytes}Gi, as EBS has always done")
    return f"{gibibytes}Gi"


MAX_TERMS: Final = 30
SPECIAL_KEYS: Final = (*IDS, NAME_KEY, OWNERS_KEY)

LegacySelector = dict[str, str]
SelectorTerm = dict[str, Any]


def convert_selector(
    selector: LegacySelector, path: FieldPath, draft: ConversionDraft
) -> list[SelectorTerm]:
    """Terms for subnets or security groups: by IDs, or else by every combination of tag values."""
    if not selector:
        return []
    ids = _selected_ids(selector)
    if ids:
        _note_ignored_keys([key for key in selector if key not in IDS], path, draft)
        return _limit_terms(({"id": id} for id in ids), len(ids), path, draft)
    _note_tags(selector, path, draft)
    return _limit_terms(
        ({"tags": tags} for tags in _tag_combinations(selector)),
        _count_combinations(selector),
        path,
        draft,
    )


def convert_ami_selector(
    selector: LegacySelector, path: FieldPath, draft: ConversionDraft
) -> list[SelectorTerm]:
    """Terms for images: by IDs, or else by every combination of owners, names and tag values."""
    if not selector:
        return []
    ids = _selected_ids(selector)
    if ids:
        _note_ignored_keys([key for key in selector if key not in IDS], path, draft)
        return _limit_terms(({"id": id} for id in ids), len(ids), path, draft)
    tags = {key: text for key, text in selector.items() if key not in SPECIAL_KEYS}
    _note_tags(tags, path, draft)
    owners, names = _split_values(selector, OWNERS_KEY), _split_values(selector, NAME_KEY)
    ami_terms = (
        _ami_term(owner, name, tag_values)
        for owner in owners or [""]
        for name in names or [""]
        for tag_values in _tag_combinations(tags)
    )
    count = (len(owners) or 1) * (len(names) or 1) * _count_combinations(tags)
    return _limit_terms(ami_terms, count, path, draft)


def _ami_term(owner: str, name: str, tags: dict[str, str]) -> SelectorTerm:
    """v1 accepts an owner only with another field; the name * matches every image."""
    if owner and not name and not tags:
        name = "*"
    parts = (("name", name), ("owner", owner), ("tags", tags))
    return {key: part for key, part in parts if part}


def _selected_ids(selector: LegacySelector) -> list[str]:
    return list(dict.fromkeys(id for key in IDS for id in _split_values(selector, key)))


def _split_values(selector: LegacySelector, key: str) -> list[str]:
    return [part.strip() for part in selector.get(key, "").split(",") if part.strip()]


def _tag_values(text: str) -> list[str]:
    """The values that a tag may have; an empty text meant any."""
    return list(dict.fromkeys(p.strip() for p in text.split(",") if p.strip())) or ["*"]


def _tag_combinations(selector: LegacySelector) -> Iterator[dict[str, str]]:
    keys = list(selector)
    for values in product(*(_tag_values(selector[key]) for key in keys)):
        yield dict(zip(keys, values, strict=True))


def _count_combinations(selector: LegacySelector) -> int:
    return prod(len(_tag_values(text)) for text in selector.values())


def _limit_terms(
    terms: Iterable[SelectorTerm], count: int, path: FieldPath, draft: ConversionDraft
) -> list[SelectorTerm]:
    if count > MAX_TERMS:
        draft.lost(
            path,
            f"this selector comes to {count:,} terms and v1 takes {MAX_TERMS}; "
            "the others are left out",
        )
    return list(islice(terms, MAX_TERMS))


def _note_tags(tags: LegacySelector, path: FieldPath, draft: ConversionDraft) -> None:
    for key, text in tags.items():
        count = len(_tag_values(text))
        if count > 1:
            draft.changed(
                (*path, key),
                f"the commas are read as separating {count} alternatives, each in terms of its own",
            )
        elif not text.strip(", "):
            draft.changed((*path, key), "no value meant any value; that is written * now")


def _note_ignored_keys(others: list[str], path: FieldPath, draft: ConversionDraft) -> None:
    for key in others:
        draft.lost((*path, key), f"{key} is left out: a term with an id has nothing else")


NODE_CLASS_API_VERSION: Final = "karpenter.k8s.aws/v1"
NODE_CLASS_KIND: Final = "EC2NodeClass"
UNCHANGED_FIELDS: Final = (
    "userData",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "associatePublicIPAddress",
    "detailedMonitoring",
    "metadataOptions",
    "context",
)
"""Fields with the same meaning in v1."""

TERM_FIELDS: Final = ("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms")


def convert_node_template(draft: ConversionDraft) -> None:
    """AWSNodeTemplate to EC2NodeClass."""
    spec = convert_template_spec(draft.source.get("spec", {}), ("spec",), draft)
    _finish_node_class(draft, spec)


def convert_node_class(draft: ConversionDraft) -> None:
    """EC2NodeClass of v1beta1 to v1."""
    old = draft.source["spec"]
    path: FieldPath = ("spec",)
    selected = {
        field: [
            _only_id(term, ("spec", field, number), draft)
            for number, term in enumerate(old.get(field, []))
        ]
        for field in TERM_FIELDS
    }
    converted = _convert_spec(old, selected, path, draft)
    if "httpPutResponseHopLimit" not in old.get("metadataOptions", {}):
        _note_hop_limit((*path, "metadataOptions"), draft)
    _finish_node_class(draft, converted)


def _only_id(term: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """A term with an id selected by that alone; v1 refuses anything beside it."""
    if "id" not in term:
        return term
    for key in term:
        if key != "id":
            draft.lost((*path, key), f"{key} was ignored: the term selects by id")
    return {"id": term["id"]}


def convert_template_spec(old: JsonObject, path: FieldPath, draft: ConversionDraft) -> JsonObject:
    """The spec of an AWSNodeTemplate, or of a Provisioner's embedded provider."""
    selected = {
        "amiSelectorTerms": convert_ami_selector(
            old.get("amiSelector", {}), (*path, "amiSelector"), draft
        ),
        **{
            f"{field}Terms": convert_selector(old.get(field, {}), (*path, field), draft)
            for field in ("subnetSelector", "securityGroupSelector")
        },
    }
    if "launchTemplate" in old:
        draft.lost(
            (*path, "launchTemplate"),
            f"launch templates of one's own are gone; write what {old['launchTemplate']} sets "
            "into the class",
        )
    _note_metadata_options(old.get("metadataOptions"), path, draft)
    return _convert_spec(old, selected, path, draft)


def _convert_spec(
    old: JsonObject, selected: dict[str, list[Any]], path: FieldPath, draft: ConversionDraft
) -> JsonObject:
    converted = convert_images(old, selected["amiSelectorTerms"], path, draft)
    converted.update(convert_identity(old, path, draft))
    for field, resources in (
        ("subnetSelectorTerms", "subnets"),
        ("securityGroupSelectorTerms", "security groups"),
    ):
        converted[field] = terms_or_placeholder(selected[field], resources, path, draft)
    converted.update({field: old[field] for field in UNCHANGED_FIELDS if field in old})
    if old.get("blockDeviceMappings"):
        place = (*path, "blockDeviceMappings")
        converted["blockDeviceMappings"] = convert_disks(old["blockDeviceMappings"], place, draft)
    tags = _convert_tags(old.get("tags", {}), (*path, "tags"), draft)
    return {**converted, "tags": tags} if tags else converted


def _convert_tags(
    source: dict[str, str], path: FieldPath, draft: ConversionDraft
) -> dict[str, str]:
    converted = {}
    for key, text in source.items():
        if key in RESTRICTED_TAGS or key.startswith("kubernetes.io/cluster"):
            draft.lost((*path, key), f"the tag {key} is left out: the controller sets it")
        else:
            converted[key] = text
    return converted


def _note_metadata_options(
    options: JsonObject | None, path: FieldPath, draft: ConversionDraft
) -> None:
    """Without options a template meant a hop limit of 2; with some, EC2's defaults."""
    place = (*path, "metadataOptions")
    if options is None:
        _note_hop_limit(place, draft)
    elif "httpTokens" not in options:
        draft.changed(
            place,
            "httpTokens is not written: beside other options that meant optional, now required",
        )


def _note_hop_limit(place: FieldPath, draft: ConversionDraft) -> None:
    draft.changed(
        place,
        "httpPutResponseHopLimit is not written: that meant 2 and now means 1; write 2 where pods "
        "without host network ask for instance metadata",
    )


def _finish_node_class(draft: ConversionDraft, spec: JsonObject) -> None:
    draft.converted = new_object(draft, NODE_CLASS_API_VERSION, NODE_CLASS_KIND)
    draft.converted["spec"] = spec
    copy_status(draft)
