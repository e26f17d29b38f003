"""Taints and tolerations keep their meaning."""

import msgspec

from wainwright.api.builtin import node
from wainwright.api.builtin.pod import Toleration as PodToleration
from wainwright.api.scheduling import Taint as PoolTaint
from wainwright.manifests.translate.taints import taints, tolerations
from wainwright.model.taints import Taint, Toleration, TolerationOperator


def test_taints_of_nodes_and_of_pools_are_the_same() -> None:
    on_node = [node.Taint(key="dedicated", value="web", effect="NoSchedule")]
    of_pool = [PoolTaint(key="dedicated", value="web", effect="NoSchedule")]
    assert taints(on_node) == taints(of_pool)
    assert taints(on_node) == (Taint(key="dedicated", value="web", effect="NoSchedule"),)


def test_a_taint_without_a_value_has_an_empty_one() -> None:
    assert taints([PoolTaint(key="gpu", effect="NoExecute")])[0].value == ""
    assert taints(None) == ()


def test_no_operator_means_equal() -> None:
    written = msgspec.convert([{"key": "a", "value": "b"}], list[PodToleration])
    expected = Toleration(key="a", operator=TolerationOperator.EQUAL, value="b")
    assert tolerations(written) == (expected,)


def test_a_toleration_for_everything_tolerates_everything() -> None:
    [found] = tolerations([PodToleration(operator="Exists")])
    assert found.tolerates(Taint(key="any", value="thing", effect="NoExecute"))


def test_tolerations_written_twice_are_one() -> None:
    one, short = PodToleration(key="a", operator="Exists"), {"tolerationSeconds": 300}
    again = msgspec.structs.replace(one, **short)
    assert len(tolerations([one, again])) == 1
