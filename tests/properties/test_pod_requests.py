"""The requests of a pod are those of the Kubernetes documentation, resource by resource."""

from fractions import Fraction
from math import ceil
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from wainwright.api.kubernetes.workloads import PodSpec
from wainwright.translate.resources import pod_requests

AMOUNTS = {
    "0": Fraction(0),
    "1": Fraction(1),
    "250m": Fraction(1, 4),
    "0.0001": Fraction(1, 10000),
    "1.0005": Fraction(10005, 10000),
    "3": Fraction(3),
    "2k": Fraction(2000),
    "4Mi": Fraction(4 * 2**20),
    "1e3": Fraction(1000),
}
FOR_PODS = ("cpu", "memory", "hugepages-2Mi")
NAMES = (*FOR_PODS, "ephemeral-storage", "nvidia.com/gpu")

amounts = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(AMOUNTS)))
pod_amounts = st.dictionaries(st.sampled_from(FOR_PODS), st.sampled_from(sorted(AMOUNTS)))
containers = st.lists(
    st.fixed_dictionaries({"requests": amounts, "limits": amounts}).map(
        lambda resources: {"name": "c", "resources": resources}
    ),
    max_size=3,
)
policies = st.sampled_from([None, "Always"])
init_containers = st.lists(
    st.tuples(containers.filter(bool), policies).map(
        lambda made: {**made[0][0], "restartPolicy": made[1]}
    ),
    max_size=4,
)
specs = st.fixed_dictionaries(
    {
        "containers": containers,
        "initContainers": init_containers,
        "resources": st.none()
        | st.fixed_dictionaries({"requests": pod_amounts, "limits": pod_amounts}),
        "overhead": st.none() | amounts,
    }
)

Value = dict[str, Any]


def stored(amount: str) -> Fraction:
    """The API server keeps no more than thousandths."""
    return Fraction(ceil(AMOUNTS[amount] * 1000), 1000)


def asked(container: Value, name: str) -> Fraction | None:
    resources = container["resources"]
    written = resources["requests"].get(name, resources["limits"].get(name))
    return None if written is None else stored(written)


def amount_of(container: Value, name: str) -> Fraction:
    return asked(container, name) or Fraction(0)


def by_containers(spec: Value, name: str) -> Fraction:
    """The larger of the whole time and of each moment of the start."""
    inits = spec["initContainers"]
    beside = [
        amount_of(each, name) if each["restartPolicy"] == "Always" else Fraction(0)
        for each in inits
    ]
    starting = [sum(beside[:i]) + amount_of(each, name) for i, each in enumerate(inits)]
    running = sum(amount_of(each, name) for each in spec["containers"]) + sum(beside)
    return max([Fraction(running), *map(Fraction, starting)])


def by_pod(spec: Value, name: str) -> Fraction | None:
    stated = spec["resources"] or {"requests": {}, "limits": {}}
    if name in stated["requests"]:
        return stored(stated["requests"][name])
    named = any(
        asked(each, name) is not None for each in [*spec["containers"], *spec["initContainers"]]
    )
    if name in stated["limits"] and (not named or name.startswith("hugepages-")):
        return stored(stated["limits"][name])
    return None


def slowly(spec: Value, name: str) -> int:
    whole = by_pod(spec, name)
    total = by_containers(spec, name) if whole is None else whole
    total += stored((spec["overhead"] or {}).get(name, "0"))
    return ceil(total * 1000) if name == "cpu" else ceil(total)


@given(specs)
def test_every_resource_is_what_the_documentation_says(spec: Value) -> None:
    found = pod_requests(msgspec.convert(spec, PodSpec))
    expected = {name: slowly(spec, name) for name in sorted(NAMES)}
    assert list(found.items()) == [(name, each) for name, each in expected.items() if each]


@given(specs, st.randoms())
def test_the_order_of_containers_does_not_matter(spec: Value, random: Any) -> None:
    shuffled = list(spec["containers"])
    random.shuffle(shuffled)
    other = {**spec, "containers": shuffled}
    assert pod_requests(msgspec.convert(spec, PodSpec)) == pod_requests(
        msgspec.convert(other, PodSpec)
    )


@given(specs, containers.filter(bool))
def test_another_container_never_makes_a_pod_smaller(spec: Value, more: list[Value]) -> None:
    bare = {**spec, "resources": None}
    larger = {**bare, "containers": [*spec["containers"], *more]}
    before = pod_requests(msgspec.convert(bare, PodSpec))
    after = pod_requests(msgspec.convert(larger, PodSpec))
    assert all(after[name] >= amount for name, amount in before.items())
