"""Commands that print no fixes have none tried."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from click.testing import CliRunner
from tests.support.explaining import CLOUD, NOW, pod, pool

from wainwright.cli.main import wain
from wainwright.core.remedies.trials import Trials

WORLD = "".join((CLOUD, pool("p"), pod("small"), pod("large", "50")))
TRIED = Trials.__init__.__code__


@contextmanager
def watched() -> Iterator[list[str]]:
    """What is called for every plan that has fixes tried."""
    met: list[str] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is TRIED:
            met.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield met
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize(
    ("command", "tried"),
    [
        (("plan",), 1),
        (("reservations",), 0),
        (("explain", "pod", "small"), 0),
        (("explain", "pod", "large"), 1),
    ],
)
def test_fixes_are_tried_only_where_they_are_told(command: tuple[str, ...], tried: int) -> None:
    with watched() as met:
        said = CliRunner().invoke(wain, [*command, "-", *NOW], input=WORLD, standalone_mode=False)
    assert said.exception is None, said.output
    assert len(met) == tried
    assert ("try: " in said.stdout) == bool(tried)
