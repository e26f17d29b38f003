"""What daemonsets take from new nodes, by pool and type."""

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


def agent(*wanted: Requirements, cpu: int = 300) -> DaemonSet:
    return DaemonSet(
        namespace="kube-system",
        name="agent",
        requests={"cpu": cpu},
        alternatives=wanted or (Requirements(),),
    )


def taken(pool: Pool, *daemonsets: DaemonSet) -> list[int]:
    found = daemonset_overhead(pool, INDEX, daemonsets)
    return [found.of(row).get("cpu", 0) for row in range(2)]


def test_a_daemonset_runs_on_every_type_that_it_fits() -> None:
    assert taken(POOL, agent()) == [300, 300]
    assert taken(POOL, agent(label_requirement(ARCH, "In", "arm64"))) == [0, 300]


def test_any_of_its_terms_will_do() -> None:
    assert (
        taken(
            POOL,
            agent(label_requirement(ARCH, "In", "arm64"), label_requirement(ARCH, "In", "amd64")),
        )
        == [300] * 2
    )


def test_it_does_not_run_where_it_is_not_tolerated_except_for_preferences() -> None:
    tainted = Pool(name="p", taints=(Taint(key="team"),))
    preferring = Pool(name="p", taints=(Taint(key="team", effect=PREFER_NO_SCHEDULE),))
    starting = Pool(name="p", startup_taints=(Taint(key="team"),))
    assert taken(tainted, agent()) == [0, 0]
    assert taken(preferring, agent()) == [300, 300]
    assert taken(starting, agent()) == [300, 300]


def test_labels_of_the_pool_and_of_every_node_of_ours_count() -> None:
    labelled = Pool(name="p", labels={"disk": "ssd"})
    wanting = agent(
        label_requirement("disk", "In", "ssd").narrow(label_requirement(INITIALIZED, "In", "true"))
    )
    assert taken(labelled, wanting) == [300, 300]
    assert taken(POOL, wanting) == [0, 0]


def test_a_zone_where_the_pool_buys_nothing_is_not_its_own() -> None:
    assert taken(POOL, agent(label_requirement(ZONE, "In", "zone-q"))) == [0, 0]


def test_reserved_capacity_that_is_closed_to_the_pool_is_not_its_own_either() -> None:
    slot = offering(capacity_type="reserved", reservation_id="cr-1", available=1)
    index = InstanceTypeIndex([instance_type(name="a", offerings=(offering(), slot))])
    wanting = [agent(label_requirement(CAPACITY_TYPE, "In", "reserved"))]
    assert daemonset_overhead(POOL, index, wanting).of(0).get("cpu") == 300
    assert daemonset_overhead(POOL, index, wanting, reserved_offerings(index)).of(0) == {}
    for gate, taken in ((True, 300), (False, 0)):
        [template] = compile_templates([POOL], {"p": index}, wanting, gate=gate)
        assert template.overhead.of(0).get("cpu", 0) == taken


def test_the_hostname_of_its_pods_says_nothing_about_new_nodes() -> None:
    assert taken(POOL, agent(label_requirement(HOSTNAME, "In", "node-1"))) == [300, 300]


def test_a_claim_requests_what_any_type_left_gives_up() -> None:
    found = daemonset_overhead(
        POOL, INDEX, [agent(), agent(label_requirement(ARCH, "In", "arm64"), cpu=200)]
    )
    assert found.least(INDEX.all_types) == {"cpu": 300, "pods": 1}
    assert found.least(2) == {"cpu": 500, "pods": 2}


def test_pods_have_what_daemonsets_leave() -> None:
    pod = Pod(namespace="d", name="a", requests={"cpu": 1800, "memory": GIB})
    world = Snapshot(
        pods=(pod,), pools=(POOL,), daemonsets=(agent(label_requirement(ARCH, "In", "amd64")),)
    )
    made = plan(world, {"p": INDEX})
    assert [claim.choices.instance_types for claim in made.claims] == [("b",)]
    assert made.claims[0].requests == {"cpu": 1800, "memory": GIB, "pods": 1}
