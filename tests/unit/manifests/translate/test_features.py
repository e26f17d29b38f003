"""Pods that use what the planner cannot honour are known by it."""

from tests.unit.manifests.translate.objects import pod_spec

from wainwright.manifests.translate.features import unsupported
from wainwright.model.pod import Feature


def test_devices_that_a_pod_claims_are_noticed() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    assert unsupported(pod_spec(resourceClaims=claims)) == (Feature.RESOURCE_CLAIMS,)


def test_a_pod_without_claims_is_fine() -> None:
    assert unsupported(pod_spec(resourceClaims=[], hostNetwork=True)) == ()
