"""Whether a benchmark fails that misses a target."""

import math
from typing import Any

import pytest
from benchmarks.cluster import Metrics, ScaleDown, ScaleUp, check_scale_up
from benchmarks.karpenter_cluster import compare
from benchmarks.measure import Targets

LAG = "wainwright_event_loop_lag_seconds"
LAGS = f"""
{LAG}_bucket{{le="0.1"}} 90
{LAG}_bucket{{le="0.25"}} 99
{LAG}_bucket{{le="+Inf"}} 100
{LAG}_count 100
"""


@pytest.mark.parametrize(
    ("figure", "is_missed"), [(250.0, False), (250.4, True), (math.inf, True), (math.nan, True)]
)
def test_a_figure_above_its_target_ends_with_exit_code_1(
    figure: float, is_missed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = Targets()
    targets.row("  late, p99", figure, 250, "ms")
    targets.row("  slowest answer", 0.25, 1, "s")
    assert "at most 250 ms" in capsys.readouterr().out
    if not is_missed:
        targets.check()
        return
    # A text is exit code 1.
    with pytest.raises(SystemExit, match=r"^missed: late, p99: \w+ ms, at most 250 ms$"):
        targets.check()


def test_the_lag_of_a_process_is_the_bound_of_its_bucket() -> None:
    metrics = Metrics(LAGS)
    assert (metrics.lag_quantile(0.5), metrics.lag_quantile(0.99)) == (0.1, 0.25)
    assert metrics.lag_quantile(0.999) == math.inf
    assert math.isnan(Metrics("").lag_quantile(0.99))


UP = ScaleUp(
    last_claim=5.0,
    last_pod=14.0,
    plans=2,
    cpu=10.0,
    mebibytes=164,
    requests=333,
    nodes=60,
    price=121.33,
    lag="0.1 s",
    load=1.0,
)
THEIR_UP = UP._replace(last_claim=21.8, last_pod=20.0, plans=24, requests=666, price=121.34)
DOWN = ScaleDown(settled=96.5, moved=406, nodes=12, price=24.58, cpu=3.4, requests=1373, load=1.0)


def missed(targets: Targets) -> list[str]:
    """The lines that the process ends with."""
    try:
        targets.check()
    except SystemExit as ended:
        return str(ended.code).splitlines()
    return []


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        (
            {"last_claim": 5.01},
            ["missed: last claim created after: 5.01 s, at most 5 s"],
        ),
        (
            {"plans": 3, "cpu": 10.1},
            ["missed: plans: 3, at most 2", "missed: own CPU: 10.10 s, at most 10 s"],
        ),
    ],
)
def test_a_scale_up_has_targets_of_its_own(changes: dict[str, Any], lines: list[str]) -> None:
    targets = Targets()
    check_scale_up(targets, UP._replace(**changes))
    assert missed(targets) == lines


@pytest.mark.parametrize(
    ("up", "down", "lines"),
    [
        ({}, {}, []),
        (
            {"requests": 334, "last_pod": 14.01},
            {},
            [
                "missed: requests to the API server: 334, at most 333",
                "missed: last pod bound after: 14.01 s, at most 14 s",
            ],
        ),
        (
            {"price": 121.338},
            {"moved": 407},
            [
                "missed: price: $121.34/h, less than $121.34/h",
                "missed: pods moved: 407, at most 406",
            ],
        ),
    ],
)
def test_beside_karpenter_its_figures_are_the_targets(
    up: dict[str, Any], down: dict[str, Any], lines: list[str]
) -> None:
    targets = Targets()
    compare(targets, (THEIR_UP, DOWN), (UP._replace(**up), DOWN._replace(**down)))
    assert missed(targets) == lines
