"""Law 23: kube-scheduler can bind the pods of a plan as planned, on the nodes of the plan."""

from collections.abc import Callable, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.support.kube_scheduler.binding import (
    BoundCluster,
    launch_differently,
    without_min_values,
)
from tests.support.kube_scheduler.filters import BoundNode, filter_failure
from tests.support.model_builders import label_requirement
from tests.support.random_inputs.constrained import (
    random_constrained_input,
    random_mixed_input,
    with_attach_limits,
)
from tests.support.random_inputs.shrinking import describe_input, shrink_input
from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.core.plan import plan
from wainwright.model.labels import HOSTNAME, ZONE
from wainwright.model.plan import PackingPolicy
from wainwright.model.pod import (
    ALL_PODS,
    AffinityTerm,
    HostPort,
    Pod,
    PodConstraints,
    TopologySpread,
    VolumeAttachment,
)
from wainwright.model.taints import PREFER_NO_SCHEDULE, Taint

SEEDS = st.integers(min_value=0, max_value=10**9)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # a smaller seed is no smaller input
INPUTS = settings().max_examples ** 2 // 10  # 250, and 1,000 in long runs
thorough = settings(max_examples=INPUTS, phases=UNSHRUNK)


@thorough
@example(seed=330347589)  # an instance that may become spot does not count for on-demand pods
@example(
    seed=623944594
)  # a node with a choice of labels does not count, though its offering is known
@given(seed=SEEDS)
def test_law_23_kube_scheduler_accepts_constrained_pods(seed: int) -> None:
    assert_accepted(random_constrained_input(seed))


@settings(max_examples=INPUTS // 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_23_kube_scheduler_accepts_constrained_pods_among_others(seed: int) -> None:
    assert_accepted(random_mixed_input(seed))


@settings(max_examples=INPUTS // 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_23_kube_scheduler_accepts_plans_packed_by_cost(seed: int) -> None:
    planner_input = random_constrained_input(seed)
    cost_options = msgspec.structs.replace(planner_input.options, packing=PackingPolicy.COST)
    assert_accepted(msgspec.structs.replace(planner_input, options=cost_options))


@settings(max_examples=INPUTS // 2, phases=UNSHRUNK)
@given(seed=SEEDS)
def test_law_23_new_nodes_attach_the_volumes_of_their_pods(seed: int) -> None:
    """Whatever of the remaining types is launched."""
    planner_input = with_attach_limits(random_constrained_input(seed), seed)
    planner_input = without_min_values(planner_input)
    packing = Random(f"packing {seed}").choice([*PackingPolicy])
    options = msgspec.structs.replace(planner_input.options, packing=packing)
    assert_accepted(msgspec.structs.replace(planner_input, options=options))
    made = plan(planner_input.snapshot, planner_input.catalogs, options)
    launched = launch_differently(planner_input, made, Random(seed))
    assert BoundCluster(planner_input, launched).refused() == []


@thorough
@given(seed=SEEDS)
def test_law_23_kube_scheduler_accepts_every_launch_of_the_claims(seed: int) -> None:
    """What is left to a claim suits its pods, and those of the others, whatever the cloud picks."""
    planner_input = without_min_values(random_constrained_input(seed))
    made = plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    assert (
        BoundCluster(planner_input, launch_differently(planner_input, made, Random(seed))).refused()
        == []
    )


def assert_accepted(planner_input: PlannerInput) -> None:
    if refused(planner_input):
        small = shrink_input(planner_input, lambda smaller: bool(refused(smaller)))
        pytest.fail(f"{refused(small)} in\n{describe_input(small)}")


def refused(planner_input: PlannerInput) -> list[str]:
    return BoundCluster(
        planner_input, plan(planner_input.snapshot, planner_input.catalogs, planner_input.options)
    ).refused()


def test_the_random_inputs_vary() -> None:
    """That nobody is refused would be worth little if nothing interesting ever happened."""
    planner_inputs = [random_constrained_input(seed) for seed in range(300)]
    plans = [plan(each.snapshot, each.catalogs, each.options) for each in planner_inputs]
    pods = sum(len(each.snapshot.pods) for each in planner_inputs)
    assert sum(each.scheduled for each in plans) > pods // 2
    assert sum(len(each.claims) for each in plans) > 2 * len(plans)
    assert sum(len(each.placements) for each in plans) > len(plans) // 4
    assert sum(any(claim.round > 1 for claim in each.claims) for each in plans) > len(plans) // 20
    assert sum(bool(each.relaxed) for each in plans) > len(plans) // 8
    assert sum(bool(each.unplaced) for each in plans) > len(plans) // 4
    placed = [pod for planner_input in planner_inputs for pod in planner_input.snapshot.pods]
    for feature in msgspec.structs.fields(PodConstraints):
        assert any(getattr(pod.constraints, feature.name) != feature.default for pod in placed)


NEAR = AffinityTerm(key=ZONE, selector=ALL_PODS)
ALONE = AffinityTerm(key=HOSTNAME, selector=ALL_PODS)
EVEN = TopologySpread(key=ZONE, selector=ALL_PODS)
WEB = Pod(namespace="shop", name="web", requests={"cpu": 1000}, labels={"app": "web"})


def host(name: str = "a", zone: str = "zone-a", *pods: Pod) -> BoundNode:
    made = BoundNode(name, {HOSTNAME: name, ZONE: zone}, (), {"cpu": 2000, "pods": 3})
    made.pods = list(pods)
    return made


def bound(**constraints: object) -> Pod:
    return msgspec.structs.replace(WEB, constraints=msgspec.convert(constraints, PodConstraints))


CASES: list[tuple[str, Pod, Callable[[], Sequence[BoundNode]]]] = [
    (
        "selected",
        msgspec.structs.replace(WEB, alternatives=(label_requirement("disk"),)),
        lambda: [host()],
    ),
    ("too little cpu", msgspec.structs.replace(WEB, requests={"cpu": 3000}), lambda: [host()]),
    (
        "too many pods",
        msgspec.structs.replace(WEB, requests={}),
        lambda: [host("a", "zone-a", *[Pod(namespace="shop", name=str(n)) for n in range(3)])],
    ),
    (
        "port",
        bound(ports=(HostPort(port=80),)),
        lambda: [host("a", "zone-a", bound(ports=(HostPort(port=80, address="10.0.0.1"),)))],
    ),
    (
        "reached",
        bound(volume_topology=(label_requirement(ZONE, "In", "zone-b"),)),
        lambda: [host()],
    ),
    ("skew", bound(spreads=(EVEN,)), lambda: [host("a", "zone-a", WEB), host("b", "zone-b")]),
    (
        "skew",
        bound(spreads=(msgspec.structs.replace(EVEN, min_domains=2),)),
        lambda: [host("a", "zone-a", WEB)],
    ),
    ("elsewhere", bound(affinity=(NEAR,)), lambda: [host(), host("b", "zone-b", WEB)]),
    ("not want to be near", bound(anti_affinity=(ALONE,)), lambda: [host("a", "zone-a", WEB)]),
    (
        "not want it near",
        WEB,
        lambda: [host(), host("b", "zone-a", bound(anti_affinity=(NEAR,)))],
    ),
]


@pytest.mark.parametrize(("why", "pod", "hosts"), CASES)
def test_the_filter_refuses(why: str, pod: Pod, hosts: Callable[[], Sequence[BoundNode]]) -> None:
    there = hosts()
    assert why in (filter_failure(pod, there[0], there) or "")
    assert filter_failure(WEB, host(), [host()]) is None


def test_a_no_schedule_taint_keeps_pods_off_and_prefer_no_schedule_does_not() -> None:
    tainted = host()
    tainted.taints = (Taint(key="team"),)
    assert "taint" in (filter_failure(WEB, tainted, [tainted]) or "")
    tainted.taints = (Taint(key="team", effect=PREFER_NO_SCHEDULE),)
    assert filter_failure(WEB, tainted, [tainted]) is None


def test_a_shared_volume_is_attached_once() -> None:
    def mounting(*volumes: str) -> Pod:
        return bound(attachments=tuple(VolumeAttachment(driver="ebs", volume=v) for v in volumes))

    limited = host("a", "zone-a", mounting("one"))
    limited.attach_limits = {"ebs": 1}
    assert filter_failure(mounting("one"), limited, [limited]) is None
    assert "volumes" in (filter_failure(mounting("two"), limited, [limited]) or "")


def test_an_order_is_found_where_there_is_one() -> None:
    """The first of its kind has to be bound before the others make it too late."""
    first = bound(affinity=(AffinityTerm(key=ZONE, selector=ALL_PODS),))
    assert filter_failure(first, host(), [host(), host("b", "zone-b")]) is None
    assert filter_failure(first, host(), [host(), host("b", "zone-b", WEB)]) is not None
