"""Constraints are shared by pods with equal constraints, and only by those."""

from typing import Any

import pytest
from tests.unit.translate.objects import Value, container, pod, pods, thing, translated, typed_pod

from wainwright.model.pod import NO_CONSTRAINTS, HostPort

CONSTRAINT = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
SPREAD = {"topologySpreadConstraints": [CONSTRAINT]}


def test_pods_of_equal_spec_share_their_constraints() -> None:
    translator = pods()
    one, other = (translator.translate(typed_pod(name, spec=SPREAD)) for name in "ab")
    assert one.constraints.spreads
    assert one.constraints is other.constraints


def test_equal_constraints_of_different_specs_are_one_object() -> None:
    translator = pods()
    small, large = (
        translator.translate(typed_pod(spec={**SPREAD, "containers": [container(cpu=cpu)]}))
        for cpu in "12"
    )
    assert small.requests != large.requests
    assert small.constraints is large.constraints


def test_an_unconstrained_pod_has_no_constraints() -> None:
    bare = {"affinity": {"nodeAffinity": {}, "podAffinity": {}}, "topologySpreadConstraints": []}
    assert pods().translate(typed_pod()).constraints is NO_CONSTRAINTS
    assert pods().translate(typed_pod(spec=bare)).constraints is NO_CONSTRAINTS


def test_pods_of_equal_spec_but_other_labels_have_their_own_constraints() -> None:
    translator = pods()
    keyed = {**CONSTRAINT, "matchLabelKeys": ["hash"]}
    first, again, second, without = (
        translator.translate(
            typed_pod(metadata={"labels": labels}, spec={"topologySpreadConstraints": [keyed]})
        ).constraints
        for labels in (
            {"app": "web", "hash": "1"},
            {"app": "other", "hash": "1"},
            {"app": "web", "hash": "2"},
            {"app": "web"},
        )
    )
    assert first is again
    assert [
        [clause.key for clause in constraints.spreads[0].selector.match_expressions]
        for constraints in (first, second, without)
    ] == [["app", "hash"], ["app", "hash"], ["app"]]
    assert first != second


@pytest.mark.parametrize("field", ["matchLabelKeys", "mismatchLabelKeys"])
@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_match_label_keys_make_constraints_depend_on_labels(kind: str, field: str) -> None:
    translator = pods()
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaces": ["x"], field: ["hash"]}
    weighted = [{"weight": 1, "podAffinityTerm": term}]
    spec = {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}}
    one, other = (
        translator.translate(typed_pod(metadata={"labels": {"hash": each}}, spec=spec)).constraints
        for each in "12"
    )
    assert one != other


def test_pods_of_equal_spec_in_other_namespaces_have_their_own_constraints() -> None:
    translator = pods()
    term = {"topologyKey": "zone", "labelSelector": {}}
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    in_shop, again, in_bank = (
        translator.translate(
            typed_pod(metadata={"namespace": name}, spec={"affinity": {"podAntiAffinity": away}})
        ).constraints
        for name in ("shop", "shop", "bank")
    )
    assert in_shop is again
    shop_term, bank_term = in_shop.anti_affinity[0], in_bank.anti_affinity[0]
    assert (shop_term.namespaces, bank_term.namespaces) == (
        frozenset({"shop"}),
        frozenset({"bank"}),
    )


def test_pods_of_equal_spec_but_for_a_volume_have_their_own_constraints() -> None:
    translator = pods()
    disk = {"volumes": [{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]}
    bare, attached = (translator.translate(typed_pod(spec=spec)) for spec in ({}, disk))
    assert bare.requests is attached.requests
    assert (len(bare.constraints.attachments), len(attached.constraints.attachments)) == (0, 1)


def port_container(*ports: Value, **fields: Any) -> Value:
    return {"name": "c", "ports": list(ports), **fields}


def port(**fields: Any) -> Value:
    return {"containerPort": 8080, **fields}


ROWS: dict[str, tuple[Value, tuple[HostPort, ...]]] = {
    "a port of the container": ({"containers": [port_container(port())]}, ()),
    "a port of the node": (
        {"containers": [port_container(port(hostPort=80))]},
        (HostPort(port=80, protocol="TCP", address="0.0.0.0"),),
    ),
    "one address and protocol": (
        {"containers": [port_container(port(hostPort=53, protocol="UDP", hostIP="10.0.0.1"))]},
        (HostPort(port=53, protocol="UDP", address="10.0.0.1"),),
    ),
    "an empty address": (
        {"containers": [port_container(port(hostPort=80, hostIP=""))]},
        (HostPort(port=80),),
    ),
    "the node's network": (
        {"hostNetwork": True, "containers": [port_container(port())]},
        (HostPort(port=8080),),
    ),
    "the node's network, with the port named": (
        {"hostNetwork": True, "containers": [port_container(port(hostPort=8080))]},
        (HostPort(port=8080),),
    ),
    "the node's network without ports": (
        {"hostNetwork": True, "containers": [{"name": "c"}]},
        (),
    ),
    "a sidecar": (
        {"initContainers": [port_container(port(hostPort=80), restartPolicy="Always")]},
        (HostPort(port=80),),
    ),
    "a container that is over before the others start": (
        {"initContainers": [port_container(port(hostPort=80))]},
        (),
    ),
    "several, in order, each once": (
        {
            "containers": [
                port_container(port(hostPort=443), port(hostPort=80)),
                port_container(port(hostPort=80), port(hostPort=80, protocol="UDP")),
            ]
        },
        (HostPort(port=80), HostPort(port=80, protocol="UDP"), HostPort(port=443)),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_pod_takes_ports(name: str) -> None:
    spec, expected = ROWS[name]
    [found] = translated(pod(spec=spec)).snapshot.pods
    assert found.constraints.ports == expected


@pytest.mark.parametrize("name", ROWS)
def test_a_daemonset_takes_them_on_every_node(name: str) -> None:
    spec, expected = ROWS[name]
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    agent = thing("apps/v1", "DaemonSet", "agent", spec={"template": template})
    [found] = translated(agent).snapshot.daemonsets
    assert found.ports == expected
