"""Whether a benchmark fails that misses a target."""

import math

import pytest
from benchmarks.cluster import Metrics
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
    with pytest.raises(SystemExit, match=r"^missed: late, p99: \w+ ms$"):  # a text is exit code 1
        targets.check()


def test_the_lag_of_a_process_is_the_bound_of_its_bucket() -> None:
    metrics = Metrics(LAGS)
    assert (metrics.lag_quantile(0.5), metrics.lag_quantile(0.99)) == (0.1, 0.25)
    assert metrics.lag_quantile(0.999) == math.inf
    assert math.isnan(Metrics("").lag_quantile(0.99))
