"""NodeClaims as objects and in the model, both ways."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.test_requirements import entries
from tests.unit.translate.objects import Value, claim, requirement, typed

from wainwright.api.karpenter.nodeclaim import NodeClaim as WireClaim
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.api.wire import to_manifest
from wainwright.model.node_claim import LaunchRecord, NodeClaim
from wainwright.model.requirements import Requirements
from wainwright.model.taints import NO_SCHEDULE, Taint
from wainwright.translate.nodeclaims import node_claim_object, translate_node_claim

RECORD = LaunchRecord(token="t", batch="b", index=2, attempt=3, at=1_700_000_000.5)
TAINTS = [Taint(key="t", value=value, effect=NO_SCHEDULE) for value in ("", "v")]
OWNED = {"apiVersion": "v1", "kind": "NodePool", "name": "b", "uid": "1"}
WRITTEN = '{"token": "t", "batch": "b", "index": 2, "attempt": 3, "at": 1700000000.5}'
KEY = "wainwright.dev/launch-record"


def read(value: Value) -> NodeClaim:
    wire = typed(value)
    assert isinstance(wire, WireClaim)
    return translate_node_claim(wire)


durations = st.none() | st.integers(0, 10**7).map(float)
claims = st.builds(
    NodeClaim,
    name=st.just("web-1"),
    uid=st.sampled_from(["", "u-1"]),
    pool=st.just("web"),
    node_class=st.sampled_from(["default", "gpu"]),
    requirements=st.lists(entries, max_size=3).map(Requirements.from_entries),
    requests=st.dictionaries(
        st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 10**12)
    ),
    labels=st.just({"karpenter.sh/nodepool": "web"}),
    annotations=st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=3)),
    taints=st.lists(
        st.builds(
            Taint, key=st.just("t"), value=st.sampled_from(["", "v"]), effect=st.just(NO_SCHEDULE)
        ),
        max_size=2,
    ).map(tuple),
    expire_after=durations,
    termination_grace_period=durations,
    min_values_relaxed=st.booleans(),
    reservation_required=st.booleans(),
    launch_record=st.none() | st.just(RECORD),
)


@given(claims)
def test_a_claim_comes_back_from_its_object(original: NodeClaim) -> None:
    expected = msgspec.structs.replace(original, requests=dict(sorted(original.requests.items())))
    assert translate_node_claim(node_claim_object(original)) == expected


@given(claims)
def test_the_object_of_a_claim_is_accepted(original: NodeClaim) -> None:
    sane = Requirements.from_entries([("karpenter.sh/capacity-type", "In", ("spot",), None)])
    made = node_claim_object(msgspec.structs.replace(original, requirements=sane))
    kind = known_kinds()["karpenter.sh/v1", "NodeClaim"]
    assert validate_object(kind, to_manifest(made)) == []


def test_everything_of_the_object_that_a_launch_depends_on_is_read() -> None:
    found = read(
        claim(
            spec={
                "requirements": [requirement("karpenter.sh/capacity-type", "spot")],
                "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
                "startupTaints": [{"key": "starting", "effect": "NoExecute"}],
                "expireAfter": "1h30m",
                "terminationGracePeriod": "90s",
            },
            metadata={
                "uid": "u-1",
                "annotations": {
                    "karpenter.sh/nodeclaim-min-values-relaxed": "true",
                    KEY: WRITTEN,
                    "note": "kept",
                },
            },
            status={
                "providerID": "aws:///us-west-2a/i-0123",
            },
        )
    )
    assert (found.pool, found.node_class, found.uid) == ("web", "default", "u-1")
    assert found.requirements.single_value("karpenter.sh/capacity-type") == "spot"
    assert found.requests == {"cpu": 1500, "memory": 2**30}
    assert found.startup_taints == (Taint(key="starting", value="", effect="NoExecute"),)
    assert (found.expire_after, found.termination_grace_period) == (5400.0, 90.0)
    assert (found.min_values_relaxed, found.launch_record) == (True, RECORD)
    assert found.annotations == {"note": "kept"}
    assert (found.instance, found.has_pending_launch) == ("i-0123", False)


def test_requests_are_rounded_up() -> None:
    spec = {"resources": {"requests": {"cpu": "100u", "memory": "1500m"}}}
    assert read(claim(spec=spec)).requests == {"cpu": 1, "memory": 2}


@pytest.mark.parametrize(
    ("metadata", "pool"),
    [
        ({"labels": {"karpenter.sh/nodepool": "a"}}, "a"),
        (
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "NodePool", "name": "b", "uid": "1"}
                ]
            },
            "b",
        ),
        ({}, ""),
    ],
)
def test_the_pool_is_named_by_label_or_owner(metadata: Value, pool: str) -> None:
    assert read(claim(pool=None, metadata=metadata)).pool == pool


@pytest.mark.parametrize("text", ["", "{", '{"token": 1}', "[]"])
def test_an_unreadable_launch_record_is_none(text: str) -> None:
    assert read(claim(metadata={"annotations": {KEY: text}})).launch_record is None


def test_never_is_no_expiry() -> None:
    assert read(claim(spec={"expireAfter": "Never"})).expire_after is None
