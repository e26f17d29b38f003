"""The series of a simulation and the sums over time that come from them.

A series is a step function: the values of a moment hold until the next one. Sums are made from the
same rounded values and moments as the series have, so that both agree to the last digit.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.model.simulation import PodSeries, ReservationSeries, Series
from wainwright.sim.observed_state import ReservationCount

SERIES_LIMIT: Final = 2_000
HOUR: Final = 3600.0
NO_RESERVATION: Final = ReservationCount(used=0, total=0)


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted at one moment."""

    nodes: int = 0
    running: int = 0
    pending: int = 0
    price: float = 0.0
    fees: float = 0.0
    reservations: Mapping[str, ReservationCount] = {}


class Point(msgspec.Struct, frozen=True):
    at: float
    values: Values


class SeriesRecorder:
    """Keeps the points, at most twice the limit unless all are wanted, and adds up hours."""

    def __init__(self, *, keep_all: bool = False) -> None:
        self._keep_all = keep_all
        self._points: list[Point] = []
        self._current = Values()
        self._summed_until = 0.0
        self.cost = 0.0
        self.fees = 0.0
        self.node_hours = 0.0
        self.pod_hours = 0.0

    @property
    def current(self) -> Values:
        return self._current

    def record(self, at: float, values: Values) -> None:
        """These values hold from now on; several records of one moment leave the last."""
        self._add_up(at)
        if self._points and values == self._current:
            return
        self._current = values
        if self._points and self._points[-1].at == at:
            self._points.pop()
        self._points.append(Point(at, values))
        if not self._keep_all and len(self._points) > 2 * SERIES_LIMIT:
            # The first point stays: it is where the series begins.
            self._points = self._points[::2]

    def finish(self, at: float) -> Series:
        """The series up to the end, with a last point there."""
        self._add_up(at)
        points = self._points
        if not self._keep_all and len(points) >= SERIES_LIMIT:
            step = -(-len(points) // (SERIES_LIMIT - 1))
            points = points[::step]
        if not points or points[-1].at < at:
            points = [*points, Point(at, self._current)]
        elif points[-1].values != self._current:
            points = [*points[:-1], Point(at, self._current)]
        return _to_series(points)

    def _add_up(self, at: float) -> None:
        hours = (at - self._summed_until) / HOUR
        if hours <= 0:
            return
        values = self._current
        self.cost += values.price * hours
        self.fees += values.fees * hours
        self.node_hours += values.nodes * hours
        self.pod_hours += values.running * hours
        self._summed_until = at


def _to_series(points: list[Point]) -> Series:
    ids = sorted({each for point in points for each in point.values.reservations})
    return Series(
        at=[point.at for point in points],
        nodes=[point.values.nodes for point in points],
        pods=PodSeries(
            running=[point.values.running for point in points],
            pending=[point.values.pending for point in points],
        ),
        pricePerHour=[point.values.price for point in points],
        reservations={
            each: ReservationSeries(
                used=[point.values.reservations.get(each, NO_RESERVATION).used for point in points],
                total=[
                    point.values.reservations.get(each, NO_RESERVATION).total for point in points
                ],
            )
            for each in ids
        },
    )
