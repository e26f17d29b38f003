"""Snapshots and plans as JSON: nothing is lost, and a plan of what was read again is the same."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.model_builders import explained_plan
from tests.support.processes import output_with_hash_seed
from tests.support.random_inputs.constrained import random_mixed_input, random_running_cluster
from tests.support.random_inputs.unconstrained import PlannerInput, random_input

from wainwright.model.instance_type import InstanceType
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.plan import ExplainedPlan, PlanOptions
from wainwright.model.serialization import decode_model, encode_model, from_plain, to_plain
from wainwright.model.snapshot import Snapshot

SEEDS = st.integers(min_value=0, max_value=10**9)
every_input = pytest.mark.parametrize(
    "maker", [random_input, random_mixed_input, random_running_cluster]
)
Maker = Callable[[int], PlannerInput]


@every_input
@given(seed=SEEDS)
def test_a_snapshot_survives_json(maker: Maker, seed: int) -> None:
    snapshot = maker(seed).snapshot
    data = encode_model(snapshot)
    again = decode_model(data, Snapshot)
    assert again == snapshot
    assert encode_model(again) == data
    assert from_plain(to_plain(snapshot), Snapshot) == snapshot


@every_input
@given(seed=SEEDS)
def test_a_plan_survives_json(maker: Maker, seed: int) -> None:
    made = maker(seed)
    first = explained_plan(made.snapshot, made.catalogs, made.options)
    data = encode_model(first)
    assert decode_model(data, ExplainedPlan) == first
    assert encode_model(decode_model(data, ExplainedPlan)) == data


@every_input
@given(seed=SEEDS)
def test_a_plan_of_what_was_read_again_is_the_same(maker: Maker, seed: int) -> None:
    made = maker(seed)
    types = decode_model(encode_model(made.types), dict[str, tuple[InstanceType, ...]])
    again = explained_plan(
        decode_model(encode_model(made.snapshot), Snapshot),
        {name: InstanceTypeIndex(kinds) for name, kinds in types.items()},
        decode_model(encode_model(made.options), PlanOptions),
    )
    assert encode_model(again) == encode_model(
        explained_plan(made.snapshot, made.catalogs, made.options)
    )


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys\n"
        "from tests.support.random_inputs.constrained import random_mixed_input\n"
        "from wainwright.model.serialization import encode_model\n"
        "for seed in range(10):\n"
        "    sys.stdout.buffer.write(encode_model(random_mixed_input(seed).snapshot))\n"
    )
    assert output_with_hash_seed(program, "1") == output_with_hash_seed(program, "2") != b""


def test_what_is_no_snapshot_is_refused_with_its_place() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"`\$\.pods\[0\]\.requests"):
        decode_model(b'{"pods":[{"namespace":"a","name":"b","requests":[]}]}', Snapshot)
