"""The targets of `make oracle-disruption`, on runs that are stated: no Go is needed for them."""

import pytest
from tests.oracle.disruption.__main__ import judge
from tests.oracle.disruption.comparison import DisruptionCase, DisruptionResult
from tests.oracle.disruption.runs import DisruptionRun
from tests.oracle.random_cluster import RandomCluster
from tests.support.disruption_checker import CheckedCommand

from wainwright.model.plan import NodeAssignment, PlanOptions

CLUSTER = RandomCluster(profile="spot", seed=7, objects=(), types=(), options=PlanOptions())


def run(saving: float, *moves: str, complaints: tuple[str, ...] = ()) -> DisruptionRun:
    """One command for each letter of the pods that it moves."""
    commands = tuple(
        CheckedCommand(
            method="single-node",
            nodes=("n",),
            placements=(NodeAssignment(node="m", pods=(*pods,)),),
        )
        for pods in moves
    )
    return DisruptionRun(before=10.0, after=10.0 - saving, commands=commands, complaints=complaints)


def result(*pairs: tuple[DisruptionRun, DisruptionRun], broken: int = 0) -> DisruptionResult:
    made = DisruptionResult("spot")
    made.cases = [
        DisruptionCase(cluster=CLUSTER, ours=ours, theirs=(theirs,)) for ours, theirs in pairs
    ]
    made.broken = dict.fromkeys(range(broken), "OracleError: no answer")
    return made


ALIKE = (run(2.0, "ab"), run(2.0, "ab"))


def judged(capsys: pytest.CaptureFixture[str], *results: DisruptionResult) -> tuple[int, list[str]]:
    code = judge(results)
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if line.startswith("missed: ")]


def test_figures_that_are_just_good_enough_miss_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    within_one_percent = (run(1.985), run(2.0, "b"))
    half_as_often = (run(2.0, "abcd", "a"), run(2.0, "abc", "ab"))
    assert judged(capsys, result(ALIKE, within_one_percent)) == (0, [])
    assert judged(capsys, result(half_as_often)) == (0, [])


def test_one_cluster_of_a_hundred_may_save_less_and_not_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    worse = (run(1.0, "a"), run(2.0, "ab"))
    assert judged(capsys, result(*[ALIKE] * 99, worse)) == (0, [])
    code, missed = judged(capsys, result(*[ALIKE] * 98, worse), result(worse))
    assert (code, missed) == (1, ["missed: as much is saved in 98.0% of the clusters, not in 99%"])


def test_more_evictions_for_each_dollar_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, missed = judged(capsys, result((run(2.0, "abc"), run(2.0, "ab"))))
    assert code == 1
    assert missed == ["missed: 1.50 evictions per dollar saved, more than their 1.00"]


def test_evictions_do_not_count_where_theirs_save_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert judged(capsys, result((run(2.0, "abc"), run(0.0)))) == (0, [])


def test_more_than_half_their_share_of_repeated_moves_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ours, theirs = run(2.0, "abc", "a"), run(2.0, "abc", "a")
    code, missed = judged(capsys, result((ours, theirs)))
    assert code == 1
    assert missed == [
        "missed: 25.0% of the moves are of pods moved before, more than half of their 25.0%"
    ]


def test_an_invalid_command_is_named_and_theirs_do_not_count(
    capsys: pytest.CaptureFixture[str],
) -> None:
    invalid = run(2.0, "ab", complaints=("n is protected",))
    assert judged(capsys, result((ALIKE[0], invalid))) == (0, [])
    code, missed = judged(capsys, result((invalid, ALIKE[1])))
    assert (code, missed) == (1, ["missed: invalid commands in 1 clusters"])


def test_every_cluster_that_broke_down_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    code, missed = judged(capsys, result(*[ALIKE] * 300, broken=2), result(broken=1))
    assert (code, missed) == (1, ["missed: 3 of 303 clusters broke down"])
