"""Converting old kinds: what holds beside the pairs."""

from copy import deepcopy
from typing import Any

import pytest

from wainwright.manifests.convert import Conversion, Misfit, convert
from wainwright.manifests.convert.provisioner import duration

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}


def provisioner(name: str = "web", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def node_template(name: str = "shared", **spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def test_nothing_comes_of_nothing() -> None:
    assert convert([]) == Conversion(documents=[], origins=[], notes=[], faults=[])


def test_what_is_not_old_is_the_very_same_object() -> None:
    assert convert([POD, None, "text"]).documents[0] is POD


def test_the_input_is_not_touched() -> None:
    given = [
        provisioner(providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 20}),
        node_template(amiFamily="Ubuntu", blockDeviceMappings=[{"ebs": {"volumeSize": 1}}]),
    ]
    before = deepcopy(given)
    convert(given)
    assert given == before


def test_the_documents_made_share_no_part_with_each_other() -> None:
    made = convert(
        [
            node_template(amiFamily="Ubuntu", subnetSelector={"a": "b"}),
            node_template("other", amiFamily="Ubuntu"),
            provisioner("a", providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 1}),
            provisioner("b", providerRef={"name": "shared"}, kubeletConfiguration={"maxPods": 2}),
        ]
    ).documents
    parts = [id(part) for document in made for part in _parts(document)]
    assert len(parts) == len(set(parts))


def _parts(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, (dict, list)) else []
    return own + [part for item in inner for part in _parts(item)]


def test_origins_tell_which_document_each_one_comes_from() -> None:
    made = convert([POD, provisioner(provider={}), POD])
    assert [document["kind"] for document in made.documents] == [
        "Pod",
        "NodePool",
        "EC2NodeClass",
        "Pod",
    ]
    assert made.origins == [0, 1, 1, 2]


def test_a_fault_in_one_document_leaves_it_and_converts_the_others() -> None:
    broken = provisioner(weight="ten")
    made = convert([broken, node_template()])
    assert made.documents[0] is broken
    assert made.documents[1]["apiVersion"] == "karpenter.k8s.aws/v1"
    assert [(misfit.document, misfit.fault.path) for misfit in made.faults] == [
        (0, ("spec", "weight"))
    ]


@pytest.mark.parametrize("depth", [200, 5000])
def test_deep_nesting_is_a_fault_and_no_traceback(depth: int) -> None:
    deep: Any = "x"
    for _ in range(depth):
        deep = {"evictionThreshold": deep}
    found = convert([provisioner(kubeletConfiguration=deep)]).faults
    assert [type(misfit) for misfit in found] == [Misfit]


def test_a_huge_product_of_alternatives_is_cut_without_being_computed() -> None:
    many = ",".join(str(number) for number in range(1000))
    tags = {f"tag-{number}": many for number in range(19)}
    made = convert([node_template(subnetSelector=tags, amiSelector={**tags, "aws::name": many})])
    spec = made.documents[0]["spec"]
    assert len(spec["subnetSelectorTerms"]) == len(spec["amiSelectorTerms"]) == 30


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3601, "1h1s"), (5400, "1h30m"), (2592000, "720h")],
)
def test_seconds_are_written_as_a_duration(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_a_copy_of_a_class_has_a_name_that_fits() -> None:
    long = "a" * 250
    ref, settings = {"name": long}, {"maxPods": 1}
    pools = [
        provisioner(name * 250, providerRef=ref, kubeletConfiguration=settings) for name in "bc"
    ]
    made = convert(pools).documents
    names = [document["metadata"]["name"] for document in made if document["kind"] != "NodePool"]
    assert len(set(names)) == 2
    assert max(len(name) for name in names) <= 253
