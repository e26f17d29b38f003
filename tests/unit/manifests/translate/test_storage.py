"""Storage classes: the default, ephemeral volumes, claims that a StatefulSet still owes."""

from typing import Any

import pytest
from tests.unit.manifests.translate.disks import (
    DEFAULT,
    GONE,
    ZONE,
    bonds,
    claim,
    claimed,
    ephemeral,
    places,
    problem,
    storage_class,
    topology,
)
from tests.unit.manifests.translate.objects import Value, owned, pod, thing, translated

from wainwright.model.pod import ANYWHERE, Pod

UNNAMED = claim(spec={"storageClassName": None})


def in_zone(name: str, zone: str, **fields: Any) -> Value:
    return storage_class(name, allowedTopologies=[topology(ZONE, zone)], **fields)


def default(name: str, zone: str, created: str = "") -> Value:
    moment = {"creationTimestamp": f"{created}T00:00:00Z"} if created else {}
    return in_zone(name, zone, metadata={**DEFAULT, **moment})


@pytest.mark.parametrize("given", [{"spec": ephemeral()}, {"claim": UNNAMED}])
@pytest.mark.parametrize(
    ("classes", "zone"),
    [
        ([default("gp3", "a"), in_zone("other", "b")], "a"),
        ([default("old", "a", "2025-01-01"), default("new", "b", "2026-01-01")], "b"),
        ([default("new", "b", "2026-01-01"), default("old", "a", "2025-01-01")], "b"),
        ([default("fresh", "a"), default("new", "b", "2026-01-01")], "a"),
        ([default("y", "b", "2026-01-01"), default("x", "a", "2026-01-01")], "a"),
        (
            [
                in_zone(
                    "beta",
                    "c",
                    metadata={
                        "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}
                    },
                )
            ],
            "c",
        ),
    ],
)
def test_who_names_no_class_gets_the_default_one(
    given: dict[str, Value], classes: list[Value], zone: str
) -> None:
    around = [*classes, *([given["claim"]] if "claim" in given else [])]
    assert places(*around, spec=given.get("spec")) == [f"{ZONE} In [{zone}]"]


def test_an_ephemeral_volume_may_name_its_class() -> None:
    around = (default("gp3", "a"), in_zone("fast", "b"))
    assert places(*around, spec=ephemeral(storageClassName="fast")) == [f"{ZONE} In [b]"]


@pytest.mark.parametrize("name", ["gone", "", None])
def test_an_ephemeral_volume_needs_a_class_as_well(name: str | None) -> None:
    asked = {} if name is None else {"storageClassName": name}
    not_default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}
    found = problem(storage_class(metadata=not_default), spec=ephemeral(**asked))
    assert found.claim == "a-scratch"


def test_a_claim_of_old_names_its_class_by_annotation() -> None:
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}
    asked = claim(metadata=annotated, spec={"storageClassName": None})
    assert places(asked, default("gp3", "a"), in_zone("fast", "b")) == [f"{ZONE} In [b]"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"zone": "a"}, [f"{ZONE} In [a]"]),
        ({"zones": "a, b"}, [f"{ZONE} In [a b]"]),
        ({"Zones": "a"}, [f"{ZONE} In [a]"]),
        ({"type": "gp3"}, [""]),
    ],
)
def test_classes_of_old_name_their_zones_as_parameters(
    parameters: dict[str, str], expected: list[str]
) -> None:
    old = storage_class(provisioner="kubernetes.io/aws-ebs", parameters=parameters)
    assert places(claim(), old) == expected


def test_to_a_driver_the_same_parameter_means_nothing() -> None:
    assert bonds(claim(), storage_class(parameters={"zone": "a"})).volume_places is ANYWHERE


def stateful_pods(*around: Value, name: str = "db", **metadata: Any) -> tuple[Pod, ...]:
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}]
    spec = {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "c"}]}},
        "volumeClaimTemplates": templates,
    }
    metadata = {"namespace": "shop", **metadata}
    made = thing("apps/v1", "StatefulSet", name, metadata=metadata, spec=spec)
    return translated(made, *around).snapshot.pods


def test_a_stateful_set_makes_the_claims_of_its_pods() -> None:
    found = stateful_pods(in_zone("gp3", "a"))
    assert [each.volume_problem for each in found] == [None, None]
    assert [each.bonds.attachments[0].volume for each in found] == [
        "shop/data-db-0",
        "shop/data-db-1",
    ]
    assert [str(each.bonds.volume_places[0]) for each in found] == [f"{ZONE} In [a]"] * 2


def test_a_claim_that_is_there_already_counts_before_its_template() -> None:
    there = claim("data-db-1", spec={"storageClassName": "other"})
    first, second = stateful_pods(in_zone("gp3", "a"), in_zone("other", "b"), there)
    assert str(first.bonds.volume_places[0]) == f"{ZONE} In [a]"
    assert str(second.bonds.volume_places[0]) == f"{ZONE} In [b]"


def test_a_stateful_set_whose_name_is_yet_to_be_chosen_makes_claims_too() -> None:
    found = stateful_pods(storage_class(), name="", generateName="db-")
    assert [each.name for each in found] == ["db-0", "db-1"]
    assert [each.volume_problem for each in found] == [None, None]


def test_a_pod_in_place_of_one_on_its_way_out_gets_the_claim_of_that() -> None:
    going = pod("db-0", metadata={**owned("StatefulSet", "db"), **GONE}, spec=claimed("data-db-0"))
    found = stateful_pods(in_zone("gp3", "a"), going)
    assert [(each.name, each.bonds.attachments[0].volume) for each in found] == [
        ("db-1", "shop/data-db-0"),
        ("db-2", "shop/data-db-1"),
    ]


@pytest.mark.parametrize(
    "name", ["data-db", "data-db-", "data-db-x", "other-db-0", "data-dba-0", "7"]
)
def test_a_stateful_set_makes_no_other_claims(name: str) -> None:
    stranger = pod("x", metadata=owned("StatefulSet", "db"), spec=claimed(name))
    found = {each.name: each.volume_problem for each in stateful_pods(storage_class(), stranger)}
    assert found["x"] is not None


def test_nobody_but_a_stateful_set_makes_claims_of_templates() -> None:
    namesake = pod("db-x", metadata=owned("ReplicaSet", "db"), spec=claimed("data-db-7"))
    found = {each.name: each.volume_problem for each in stateful_pods(storage_class(), namesake)}
    assert found["db-0"] is None
    assert found["db-x"] is not None


def test_claims_of_templates_need_a_class_as_well() -> None:
    assert [each.volume_problem is None for each in stateful_pods()] == [False, False]


def test_a_template_may_name_its_class_by_annotation() -> None:
    annotated = {"annotations": {"volume.beta.kubernetes.io/storage-class": "fast"}}
    template = {"volumeClaimTemplate": {"metadata": annotated, "spec": {}}}
    spec = {"volumes": [{"name": "scratch", "ephemeral": template}]}
    assert places(in_zone("fast", "b"), spec=spec) == [f"{ZONE} In [b]"]
