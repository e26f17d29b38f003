"""What stands in an EC2NodeClass where the old document has nothing that v1 asks for.

The words are legal, so that the document can be planned with offline, and impossible, so that a
launch fails at once instead of doing something else than was meant.
"""

from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.manifests.convert.draft import Draft

ROLE: Final = "FILL-IN-NODE-ROLE"
CLUSTER: Final = "FILL-IN-CLUSTER-NAME"
IMAGE: Final = "ami-placeholder"
NEWEST: Final = "al2023@latest"

Spec = dict[str, Any]


def discovery() -> list[dict[str, Any]]:
    """The tag that nearly every cluster marks its subnets and security groups with."""
    return [{"tags": {"karpenter.sh/discovery": CLUSTER}}]


def identity(spec: Spec, path: Path, draft: Draft) -> Spec:
    """The role or the instance profile of the nodes, whichever is written."""
    for field in ("role", "instanceProfile"):
        if spec.get(field):
            return {field: spec[field]}
    draft.missing(
        path,
        f"a class needs a role or an instanceProfile; role {ROLE} stands in its place",
    )
    return {"role": ROLE}


def some_terms(found: list[dict[str, Any]], what: str, path: Path, draft: Draft) -> Any:
    """The terms, or one that must be filled in."""
    if found:
        return found
    draft.missing(path, f"a class needs to select {what}; the tag value {CLUSTER} stands there")
    return discovery()


def blank(path: Path, draft: Draft) -> Spec:
    """A class of which nothing is known but that it must exist."""
    draft.missing(
        path,
        f"nothing is known of the class but its kubelet settings: fill in its role ({ROLE}) and "
        f"its subnets and security groups ({CLUSTER}); {NEWEST} is assumed as image",
    )
    return {
        "amiSelectorTerms": [{"alias": NEWEST}],
        "role": ROLE,
        "subnetSelectorTerms": discovery(),
        "securityGroupSelectorTerms": discovery(),
    }
