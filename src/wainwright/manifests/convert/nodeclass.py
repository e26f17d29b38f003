"""AWSNodeTemplate and EC2NodeClass of v1beta1, to EC2NodeClass of v1."""

from typing import Any, Final

from wainwright.api.ec2nodeclass import RESTRICTED_TAGS
from wainwright.api.fault import Path
from wainwright.manifests.convert.disks import disks
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.images import images
from wainwright.manifests.convert.metadata import begun
from wainwright.manifests.convert.placeholders import identity, some_terms
from wainwright.manifests.convert.selectors import image_terms, terms
from wainwright.manifests.convert.status import with_conditions

API_VERSION: Final = "karpenter.k8s.aws/v1"
KIND: Final = "EC2NodeClass"
SAME: Final = (
    "userData",
    "blockDeviceMappings",
    "instanceStorePolicy",
    "associatePublicIPAddress",
    "detailedMonitoring",
    "metadataOptions",
    "context",
)
"""Fields that mean in v1 what they meant."""

TERMS: Final = ("amiSelectorTerms", "subnetSelectorTerms", "securityGroupSelectorTerms")

Spec = dict[str, Any]


def node_template(draft: Draft) -> None:
    """AWSNodeTemplate to EC2NodeClass."""
    spec = template_spec(draft.source.get("spec", {}), ("spec",), draft)
    _finish(draft, spec)


def node_class(draft: Draft) -> None:
    """EC2NodeClass of v1beta1 to v1."""
    old = draft.source["spec"]
    path: Path = ("spec",)
    made = _spec(old, {field: old.get(field, []) for field in TERMS}, path, draft)
    if "httpPutResponseHopLimit" not in old.get("metadataOptions", {}):
        _say_hops_changed((*path, "metadataOptions"), draft)
    _finish(draft, made)


def template_spec(old: Spec, path: Path, draft: Draft) -> Spec:
    """The settings of an AWSNodeTemplate, also where a Provisioner carries them itself."""
    selected = {
        "amiSelectorTerms": image_terms(old.get("amiSelector", {}), (*path, "amiSelector"), draft),
        **{
            f"{field}Terms": terms(old.get(field, {}), (*path, field), draft)
            for field in ("subnetSelector", "securityGroupSelector")
        },
    }
    if "launchTemplate" in old:
        draft.lost(
            (*path, "launchTemplate"),
            f"launch templates of one's own are gone; write what {old['launchTemplate']} sets "
            "into the class",
        )
    _say_what_metadata_meant(old.get("metadataOptions"), path, draft)
    return _spec(old, selected, path, draft)


def _spec(old: Spec, selected: dict[str, list[Any]], path: Path, draft: Draft) -> Spec:
    made = images(old, selected["amiSelectorTerms"], path, draft)
    made.update(identity(old, path, draft))
    for field, what in (
        ("subnetSelectorTerms", "subnets"),
        ("securityGroupSelectorTerms", "security groups"),
    ):
        made[field] = some_terms(selected[field], what, path, draft)
    made.update({field: old[field] for field in SAME if field in old})
    if old.get("blockDeviceMappings"):
        place = (*path, "blockDeviceMappings")
        made["blockDeviceMappings"] = disks(old["blockDeviceMappings"], place, draft)
    tags = _tags(old.get("tags", {}), (*path, "tags"), draft)
    return {**made, "tags": tags} if tags else made


def _tags(given: dict[str, str], path: Path, draft: Draft) -> dict[str, str]:
    made = {}
    for key, text in given.items():
        if key in RESTRICTED_TAGS or key.startswith("kubernetes.io/cluster"):
            draft.lost((*path, key), f"the tag {key} is left out: the controller sets it")
        else:
            made[key] = text
    return made


def _say_what_metadata_meant(options: Spec | None, path: Path, draft: Draft) -> None:
    """A template without options meant two hops; one with some options, EC2's own defaults."""
    place = (*path, "metadataOptions")
    if options is None:
        _say_hops_changed(place, draft)
    elif "httpTokens" not in options:
        draft.changed(
            place,
            "httpTokens is not written: beside other options that meant optional, now required",
        )


def _say_hops_changed(place: Path, draft: Draft) -> None:
    draft.changed(
        place,
        "httpPutResponseHopLimit is not written: that meant 2 and now means 1; write 2 where pods "
        "without host network ask for instance metadata",
    )


def _finish(draft: Draft, spec: Spec) -> None:
    draft.made = begun(draft, API_VERSION, KIND)
    draft.made["spec"] = spec
    with_conditions(draft)
