"""DaemonSet overhead on new nodes, by pool and instance type."""

from tests.support.model_builders import GIB, instance_type, label_requirement, offering

from wainwright.core.plan import plan
from wainwright.core.scheduling.daemonset_overhead import daemonset_overhead
from wainwright.core.scheduling.nodeclaim_template import compile_templates
from wainwright.core.scheduling.reservation_manager import reserved_offerings
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INITIALIZED, ZONE
from wainwright.model.pod import DaemonSet, Pod
from wainwright.model.requirements import Requirements
from wainwright.model.snapshot import Pool, Snapshot
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint

INDEX = InstanceTypeIndex(
    [
        instance_type(name="a", labels={ARCH: "amd64"}, offerings=(offering(price=1.0),)),
        instance_type(name="b", labels={ARCH: "arm64"}, offerings=(offering(price=2.0),)),
    ]
)
POOL = Pool(name="p")


def agent(*alternatives: Requirements, cpu: int = 300) -> DaemonSet:
    return DaemonSet(
        namespace="kube-system",
        name="agent",
        requests={"cpu": cpu},
        alternatives=alternatives or (Requirements(),),
    )


def cpu_overhead(pool: Pool, *daemonsets: DaemonSet) -> list[int]:
    overhead = daemonset_overhead(pool, INDEX, daemonsets)
    return [overhead.of(number).get("cpu", 0) for number in range(2)]


def test_a_daemonset_runs_on_every_compatible_type() -> None:
    assert cpu_overhead(POOL, agent()) == [300, 300]
    assert cpu_overhead(POOL, agent(label_requirement(ARCH, "In", "arm64"))) == [0, 300]


def test_a_daemonset_runs_where_any_of_its_node_selector_terms_matches() -> None:
    assert (
        cpu_overhead(
            POOL,
            agent(label_requirement(ARCH, "In", "arm64"), label_requirement(ARCH, "In", "amd64")),
        )
        == [300] * 2
    )


def test_only_untolerated_taints_that_bind_keep_daemonsets_away() -> None:
    tainted = Pool(name="p", taints=(Taint(key="team"),))
    preferring = Pool(name="p", taints=(Taint(key="team", effect=PREFER_NO_SCHEDULE),))
    starting = Pool(name="p", startup_taints=(Taint(key="team"),))
    assert cpu_overhead(tainted, agent()) == [0, 0]
    assert cpu_overhead(preferring, agent()) == [300, 300]
    assert cpu_overhead(starting, agent()) == [300, 300]


def test_labels_of_the_pool_and_of_every_karpenter_node_match_daemonsets() -> None:
    labelled = Pool(name="p", labels={"disk": "ssd"})
    wanting = agent(
        label_requirement("disk", "In", "ssd").narrow(label_requirement(INITIALIZED, "In", "true"))
    )
    assert cpu_overhead(labelled, wanting) == [300, 300]
    assert cpu_overhead(POOL, wanting) == [0, 0]


def test_a_daemonset_of_a_zone_without_offerings_takes_nothing() -> None:
    assert cpu_overhead(POOL, agent(label_requirement(ZONE, "In", "zone-q"))) == [0, 0]


def test_a_daemonset_of_reserved_nodes_takes_nothing_while_the_feature_gate_is_off() -> None:
    reserved = offering(capacity_type="reserved", reservation_id="cr-1", available=1)
    index = InstanceTypeIndex([instance_type(name="a", offerings=(offering(), reserved))])
    wanting = [agent(label_requirement(CAPACITY_TYPE, "In", "reserved"))]
    assert daemonset_overhead(POOL, index, wanting).of(0).get("cpu") == 300
    assert daemonset_overhead(POOL, index, wanting, reserved_offerings(index)).of(0) == {}
    for gate, expected in ((True, 300), (False, 0)):
        [template] = compile_templates([POOL], {"p": index}, wanting, gate=gate)
        assert template.overhead.of(0).get("cpu", 0) == expected


def test_the_hostname_of_daemonset_pods_is_ignored_for_new_nodes() -> None:
    assert cpu_overhead(POOL, agent(label_requirement(HOSTNAME, "In", "node-1"))) == [300, 300]


def test_a_claim_requests_the_smallest_overhead_of_its_types() -> None:
    overhead = daemonset_overhead(
        POOL, INDEX, [agent(), agent(label_requirement(ARCH, "In", "arm64"), cpu=200)]
    )
    assert overhead.smallest(INDEX.all_types) == {"cpu": 300, "pods": 1}
    assert overhead.smallest(2) == {"cpu": 500, "pods": 2}


def test_pods_fit_only_into_what_daemonsets_leave() -> None:
    pod = Pod(namespace="d", name="a", requests={"cpu": 1800, "memory": GIB})
    snapshot = Snapshot(
        pods=(pod,), pools=(POOL,), daemonsets=(agent(label_requirement(ARCH, "In", "amd64")),)
    )
    result = plan(snapshot, {"p": INDEX})
    assert [claim.choices.instance_types for claim in result.claims] == [("b",)]
    assert result.claims[0].requests == {"cpu": 1800, "memory": GIB, "pods": 1}
