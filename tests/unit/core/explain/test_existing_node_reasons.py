"""Why existing nodes do not take a pod, and which topology constraints rule out domains."""

import msgspec
from tests.support.model_builders import (
    affinity_term,
    existing_node,
    explain_pods,
    label_requirement,
    labelled_pods,
    spread_constraint,
    zonal_instance_type,
)

from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.pod import HostPort, Pod, PodConstraints, VolumeAttachment
from wainwright.model.reasons import (
    DomainCount,
    InsufficientResource,
    NodeAffinityMismatch,
    NodeHostPortsTaken,
    NodeViolatesTopology,
    PodAffinityUnsatisfied,
    PodAntiAffinityUnsatisfied,
    Reason,
    TopologySpreadUnsatisfied,
    TopologyUnsatisfied,
    UntoleratedTaint,
    VolumeLimitExceeded,
)
from wainwright.model.snapshot import Node
from wainwright.model.taints import Taint


def verdicts(pod: Pod, *nodes: Node) -> list[tuple[int, Reason]]:
    [group] = explain_pods([pod], pools=(), nodes=nodes)
    return [(each.nodes, each.reason) for each in group.nodes]


def test_nodes_with_the_same_reason_are_counted_and_the_closest_is_named() -> None:
    (big,) = labelled_pods(1, cpu=5000)
    small = [existing_node(f"n{n}", "zone-a", cpu=1000 * n) for n in range(3)]
    assert verdicts(big, *small) == [
        (3, InsufficientResource(resource="cpu", short=3000, node="n2"))
    ]


def test_each_node_has_its_first_reason() -> None:
    (pod,) = labelled_pods(
        1,
        cpu=500,
        constraints=PodConstraints(
            ports=(HostPort(port=80),),
            attachments=(VolumeAttachment(driver="ebs", volume="new"),),
            anti_affinity=(affinity_term(HOSTNAME, "db"),),
        ),
        alternatives=(label_requirement(ZONE, "In", "zone-a"),),
    )
    taint = Taint(key="team")
    tainted = msgspec.structs.replace(existing_node("tainted", "zone-z"), taints=(taint,))
    with_port = existing_node(
        "busy",
        "zone-a",
        *labelled_pods(1, "p", constraints=PodConstraints(ports=(HostPort(port=80),))),
    )
    full = existing_node(
        "full",
        "zone-a",
        *labelled_pods(
            1,
            "v",
            constraints=PodConstraints(attachments=(VolumeAttachment(driver="ebs", volume="old"),)),
        ),
    )
    full = msgspec.structs.replace(full, attach_limits={"ebs": 1})
    found = verdicts(
        pod,
        tainted,
        existing_node("elsewhere", "zone-b"),
        existing_node("tiny", "zone-a", cpu=100),
        with_port,
        full,
        existing_node("anti-affinity", "zone-a", *labelled_pods(1, "db")),
    )
    assert sorted((str(reason.__struct_config__.tag), count) for count, reason in found) == [
        ("OtherLabels", 1),
        ("OutOfBounds", 1),
        ("PortTaken", 1),
        ("TooLittle", 1),
        ("TooManyVolumes", 1),
        ("Untolerated", 1),
    ]
    reasons = [reason for _, reason in found]
    assert UntoleratedTaint(taint=taint) in reasons
    assert NodeAffinityMismatch(key=ZONE) in reasons
    assert NodeHostPortsTaken(ports=(80,)) in reasons
    assert VolumeLimitExceeded(driver="ebs") in reasons
    assert NodeViolatesTopology() in reasons


def topology_reasons(pod: Pod, *nodes: Node, zones: tuple[str, ...] = ("zone-a",)) -> object:
    [group] = explain_pods([pod], zonal_instance_type(zones=zones), nodes=nodes)
    reason = group.reason
    assert isinstance(reason, TopologyUnsatisfied)
    return reason.by


def test_a_topology_spread_is_reported_with_the_counts_of_every_domain() -> None:
    occupied = existing_node("n", "zone-a", *labelled_pods(2, "web", cpu=1), cpu=2)
    (pod,) = labelled_pods(1, "x", constraints=spread_constraint(app="web"))
    pod = msgspec.structs.replace(pod, labels={"app": "web"})
    empty = existing_node("m", "zone-b", cpu=0)
    assert topology_reasons(pod, occupied, empty) == (
        TopologySpreadUnsatisfied(
            key=ZONE,
            max_skew=1,
            counts=(DomainCount(domain="zone-a", pods=2), DomainCount(domain="zone-b", pods=0)),
            allowed_domains=("zone-b",),
        ),
    )


def test_an_unsatisfied_pod_affinity_is_reported_with_its_selector() -> None:
    (pod,) = labelled_pods(1, constraints=PodConstraints(affinity=(affinity_term(app="ghost"),)))
    assert topology_reasons(pod) == (
        PodAffinityUnsatisfied(key=ZONE, pods="app=ghost", allowed_domains=()),
    )


def test_a_pod_anti_affinity_is_reported_with_its_direction_and_domains() -> None:
    anti_affinity = PodConstraints(anti_affinity=(affinity_term(app="web"),))
    node = existing_node("n", "zone-a", *labelled_pods(1, "db", cpu=1), cpu=1)
    (pod,) = labelled_pods(
        1, "x", constraints=PodConstraints(anti_affinity=(affinity_term(app="db"),))
    )
    assert topology_reasons(pod, node) == (
        PodAntiAffinityUnsatisfied(key=ZONE, pods="app=db", taken=("zone-a",)),
    )
    (web,) = labelled_pods(1)
    other = existing_node(
        "n", "zone-a", *labelled_pods(1, "shy", cpu=1, constraints=anti_affinity), cpu=1
    )
    assert topology_reasons(web, other) == (
        PodAntiAffinityUnsatisfied(key=ZONE, pods="app=web", taken=("zone-a",), theirs=True),
    )
