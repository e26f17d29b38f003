"""Money as people say it."""

from wainwright.report.money import cost_line, hourly, monthly


def test_the_cost_line_has_its_settled_form() -> None:
    assert cost_line(3, 0.584) == "3 nodes · $0.584/h · $426/month"
    assert cost_line(1, 0.001) == "1 node · $0.001/h · $0.73/month"


def test_fees_are_shown_apart_and_counted_in_the_month() -> None:
    assert cost_line(2, 1.0, 0.1) == "2 nodes · $1.000/h · $803/month · fees $0.100/h"


def test_reserved_capacity_is_next_to_nothing_but_not_free() -> None:
    assert hourly(5e-13) == "≈$0/h"
    assert hourly(0.0) == "$0.000/h"
    assert monthly(0.0) == "$0.00/month"
