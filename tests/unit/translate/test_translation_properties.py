"""Properties of any pods, selectors and volumes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.translate.objects import Value, pod, translated
from tests.unit.translate.volume_objects import bound, claimed, placed, storage_class, term, volume

from wainwright.api.kubernetes.label_validation import selector_matches
from wainwright.api.kubernetes.meta import LabelSelector, LabelSelectorRequirement
from wainwright.model.requirements import Requirements
from wainwright.translate.topology import translate_selector

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["1", "2", "3"])
LABELS = st.dictionaries(KEYS, VALUES)
SETS = st.lists(VALUES, min_size=1, max_size=2, unique=True)

expressions = st.one_of(
    st.builds(
        LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["In", "NotIn"]), values=SETS
    ),
    st.builds(
        LabelSelectorRequirement, key=KEYS, operator=st.sampled_from(["Exists", "DoesNotExist"])
    ),
)
selectors = st.builds(
    LabelSelector,
    matchLabels=st.none() | LABELS,
    matchExpressions=st.none() | st.lists(expressions, max_size=3),
)


@given(selectors, LABELS)
def test_a_selector_selects_what_was_written(
    written: LabelSelector, labels: dict[str, str]
) -> None:
    made = translate_selector(written)
    assert made is not None
    assert made.selects(labels) == selector_matches(written, labels)


@given(selectors, st.randoms())
def test_the_order_in_which_a_selector_is_written_does_not_matter(
    written: LabelSelector, rng: Any
) -> None:
    pairs, asked = list((written.matchLabels or {}).items()), list(written.matchExpressions or ())
    rng.shuffle(pairs)
    rng.shuffle(asked)
    other = LabelSelector(matchLabels=dict(pairs), matchExpressions=asked)
    assert translate_selector(other) == translate_selector(written)


def _term(asked: dict[str, list[str]]) -> Value:
    return {
        "matchExpressions": [
            {"key": key, "operator": "In", "values": values} for key, values in asked.items()
        ]
    }


terms = st.dictionaries(KEYS, SETS, min_size=1, max_size=2).map(_term)


def _meets(node: dict[str, str], wanted: Value) -> bool:
    return all(node.get(each["key"]) in each["values"] for each in wanted["matchExpressions"])


@given(st.lists(st.lists(terms, min_size=1, max_size=3), min_size=1, max_size=3), LABELS)
def test_a_node_serves_a_pod_if_it_reaches_each_of_its_volumes(
    affinities: list[list[Value]], node: dict[str, str]
) -> None:
    names = [f"d{number}" for number in range(len(affinities))]
    around = [bound(name, f"pv-{name}") for name in names]
    disks = [volume(f"pv-{n}", *each) for n, each in zip(names, affinities, strict=True)]
    found = placed(*around, *disks, spec=claimed(*names))
    reached = all(any(_meets(node, each) for each in terms) for terms in affinities)
    labels = Requirements.from_labels(node)
    fits = any(labels.is_compatible(each) for each in found.constraints.volume_topology)
    assert (fits and found.volume_problem is None) == reached


CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPECS: list[Value] = [
    {},
    claimed("data"),
    {"topologySpreadConstraints": [{**CONSTRAINT, "labelSelector": {}}]},
    {
        "topologySpreadConstraints": [
            {**CONSTRAINT, "labelSelector": {}, "matchLabelKeys": ["a", "b"]}
        ]
    },
    {"affinity": {"podAffinity": {REQUIRED: [NEAR]}}},
    {"affinity": {"podAffinity": {REQUIRED: [{**NEAR, "namespaces": ["bank"]}]}}},
    {
        "affinity": {
            "podAffinity": {REQUIRED: [{**NEAR, "namespaces": ["x"], "matchLabelKeys": ["b"]}]}
        }
    },
    {"affinity": {"podAntiAffinity": {REQUIRED: [{**NEAR, "mismatchLabelKeys": ["a"]}]}}},
    {
        "volumes": [
            {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "w", "awsElasticBlockStore": {"volumeID": "vol-1"}},
        ]
    },
]
AROUND = (
    bound(),
    volume("pv", term("zone", "a")),
    bound(metadata={"namespace": "bank"}, volume="pv-bank"),
    volume("pv-bank", term("zone", "b")),
    storage_class(
        metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    ),
)

written_pods = st.builds(
    lambda spec, labels, space: {"spec": spec, "metadata": {"labels": labels, "namespace": space}},
    st.sampled_from(SPECS),
    LABELS,
    st.sampled_from(["shop", "bank"]),
)


@given(st.lists(written_pods, max_size=12))
def test_a_pod_is_the_same_among_others_as_alone(given_pods: list[Value]) -> None:
    values = [pod(f"p-{number:02}", **fields) for number, fields in enumerate(given_pods)]
    together = {each.name: each for each in translated(*AROUND, *values).snapshot.pods}
    for value in values:
        [alone] = translated(*AROUND, value).snapshot.pods
        assert together[alone.name] == alone
    kinds = {each.constraints for each in together.values()}
    assert len({id(each.constraints) for each in together.values()}) == len(kinds)
