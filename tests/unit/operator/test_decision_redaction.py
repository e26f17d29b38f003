"""What is left of names in a recorded decision: of every text that its input has, by place."""

import copy
from typing import Any, Final

from tests.support.marked_objects import MARKER, marked, marked_places

from wainwright.operator.decision_redaction import redact_decision
from wainwright.report.plan_input import SavedInput

ANNOTATIONS: Final = (
    *("karpenter.sh/do-not-disrupt", "kubernetes.io/change-cause", "acme.example/owner"),
    "wainwright.dev/replaces",
)
OF_THE_PROGRAM: Final = frozenset({"apiVersion", "wainwright", "now", "hash"})
OF_THE_CLOUD: Final = frozenset({"region", "zone", "zones", "instance_type"})
CHOICES: Final = frozenset(
    {"effect", "operator", "policy", "protocol", "reasons", "status", "nodes", "schedule"}
)
AMOUNTS: Final = frozenset({"max_unavailable", "min_available"})
KEYS: Final = frozenset(
    {
        *("key", "labels{}", "requests{}", "overhead{}", "capacity{}", "allocatable{}"),
        *("limits{}", "in_use{}", "attach_limits{}", "attach_limits", "reported_attach_limits"),
        "driver",
    }
)
PLACES: Final = frozenset(
    {
        ".instanceTypes.name",
        ".instanceTypes.offerings.reservation_id",
        ".snapshot.nodes.reservation_id",
        ".snapshot.reservations.id",
        ".snapshot.nodes.pods.eviction.owner",  # its kind: the name behind it is a word
        ".snapshot.pods.eviction.owner",
        ".region.subject",  # of files; a provider states none
        ".region.value",
    }
)
KEPT_FIELDS: Final = OF_THE_PROGRAM | OF_THE_CLOUD | CHOICES | AMOUNTS | KEYS


def decision() -> dict[str, Any]:
    """Of the NodePool the test of snapshots speaks."""
    document = marked(SavedInput, ANNOTATIONS)
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": MARKER}}
    return {**document, "nodePools": {MARKER: pool}}


def test_no_text_of_a_decision_is_left_but_where_this_list_says_so() -> None:
    """A new field is in no list: decide whether its text is a name, and say so here or there."""
    places = set(marked_places(redact_decision(decision())))
    assert {place for place in places if place.rpartition(".")[2] not in KEPT_FIELDS} == PLACES
    assert {place.rpartition(".")[2] for place in places} >= KEPT_FIELDS


def test_a_template_of_a_node_pool_loses_annotations_of_others() -> None:
    document = decision()
    pool = document["nodePools"][MARKER]
    annotations = {"kubernetes.io/change-cause": MARKER, "karpenter.sh/do-not-disrupt": "true"}
    document["nodePools"][MARKER] = {
        **pool,
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }
    [redacted] = redact_decision(document)["nodePools"].values()
    kept = redacted["spec"]["template"]["metadata"]["annotations"]
    assert kept == {"karpenter.sh/do-not-disrupt": "true"}


def requirement(key: str, *values: str, **bounds: Any) -> dict[str, Any]:
    return {"key": key, "allowed": {"values": list(values), "lower": None, "upper": None, **bounds}}


def test_a_pod_and_an_offering_with_a_label_of_the_team_still_meet() -> None:
    document = copy.deepcopy(decision())
    document["snapshot"]["pods"][0]["alternatives"] = [[requirement("team", "payments")]]
    document["instanceTypes"][0][0]["offerings"][0]["requirements"] = [
        requirement("team", "payments")
    ]
    redacted = redact_decision(document)
    [[wanted]] = redacted["snapshot"]["pods"][0]["alternatives"]
    assert [wanted] == redacted["instanceTypes"][0][0]["offerings"][0]["requirements"]
    assert wanted["allowed"]["values"] != ["payments"]


def test_requirements_that_contradict_each_other_have_words_too() -> None:
    """One side is a bound: the other is compared with it as a number."""
    sides = [requirement("", "8"), requirement("", lower=0)]
    for each in sides:
        del each["key"]
    document = decision()
    document["snapshot"]["pods"][0]["contradictory"] = [
        {"key": "size", "sides": sides},
        {"key": "team", "sides": [{"allowed": {"values": ["payments"]}}]},
    ]
    size, team = redact_decision(document)["snapshot"]["pods"][0]["contradictory"]
    assert size["sides"][0]["allowed"]["values"] == ["8"]
    assert team["sides"][0]["allowed"]["values"] != ["payments"]
