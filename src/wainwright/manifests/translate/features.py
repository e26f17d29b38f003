"""What a pod uses that the planner cannot honour."""

from wainwright.api.builtin.pod import PodSpec
from wainwright.model.pod import Feature


def unsupported(spec: PodSpec) -> tuple[Feature, ...]:
    return (Feature.RESOURCE_CLAIMS,) if spec.resourceClaims else ()
