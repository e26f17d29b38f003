"""YAML and quantities mean to a real API server what they mean to us."""

import json

import pytest
from tests.support.control_plane import ControlPlane
from tests.unit.manifests.test_documents import SPELLINGS

from wainwright.api.quantity import parse_quantity

# Storage is rounded up to thousandths before it is stored, so nothing finer can be compared.
# A dash begins a list, and the server's JSON has no integers above 63 bits.
PLAIN = [(text, value) for text, value in SPELLINGS if text not in ("-", "18446744073709551615")]
QUANTITIES = [
    *("1500m", "0.5", "1e3", "2Gi", "1500M", "1E", "1.5Gi", "0.1Gi", "1024", "1024Ki"),
    *("1Ei", "1000", "1000k", "12e6", "5e-1", "9999Mi", "1048576Ki"),
    *("1e18", "123456789012345678901234567890", "16Ei", "1023Gi", "1536Mi"),
]


def test_every_scalar_is_stored_as_we_read_it(api: ControlPlane) -> None:
    entries = "".join(f"\n    k{n}: {text}" for n, (text, _) in enumerate(PLAIN))
    body = (
        "apiVersion: karpenter.sh/v1alpha1\nkind: InstanceType\nmetadata: {name: scalars}\n"
        f"spec:\n  offerings:\n  - a: b{entries}\n"
    )
    answer = api.request(
        "POST",
        "/apis/karpenter.sh/v1alpha1/instancetypes",
        body=body.encode(),
        content_type="application/yaml",
        query={"dryRun": "All", "fieldValidation": "Strict"},
    )
    assert answer.status == 201, answer.message
    [stored] = answer.json()["spec"]["offerings"]
    values = {text: stored.get(f"k{n}") for n, (text, _) in enumerate(PLAIN)}
    assert values == dict(PLAIN)


@pytest.mark.parametrize("text", QUANTITIES)
def test_the_server_prints_a_quantity_as_we_do(text: str, control_plane: ControlPlane) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": text}}},
    }
    answer = control_plane.request(
        "POST",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        body=json.dumps(claim).encode(),
        query={"dryRun": "All"},
    )
    assert answer.status == 201, answer.message
    assert answer.json()["spec"]["resources"]["requests"]["storage"] == str(parse_quantity(text))
