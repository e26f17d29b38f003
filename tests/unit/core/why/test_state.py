"""What the funnel remembers holds for whom it was found out, and for nobody else."""

from tests.support.model import GIB, instance_type

from wainwright.core.templates import compiled
from wainwright.core.why.funnel import descent
from wainwright.core.why.state import State
from wainwright.model.index import TypeIndex
from wainwright.model.pod import Pod
from wainwright.model.pool import Pool
from wainwright.model.reason import LimitReached

INDEX = TypeIndex(
    [
        instance_type(name="roomy", capacity={"cpu": 4000, "memory": 64 * GIB, "pods": 9}),
        instance_type(name="quick", capacity={"cpu": 64_000, "memory": 4 * GIB, "pods": 9}),
    ]
)
POD = Pod(namespace="d", name="a", requests={"cpu": 100})


def nearest(cpu: int, memory: int, state: State) -> str:
    """The type that breaks limits by the least, where 2 cpu and 2Gi are left of them."""
    limits = {"cpu": cpu, "memory": memory}
    in_use = {"cpu": cpu - 2000, "memory": memory - 2 * GIB}
    [template] = compiled([Pool(name="p", limits=limits, in_use=in_use)], {"p": INDEX}, ())
    reason = descent(template, POD, state).reason
    assert isinstance(reason, LimitReached)
    return reason.instance_type


def test_limits_of_which_as_much_is_left_are_not_the_same_limits() -> None:
    state = State(free={})
    assert nearest(1_000_000, 2 * GIB, state) == "quick"
    assert nearest(2000, 1000 * GIB, state) == "roomy"
