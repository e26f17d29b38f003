"""A log line is one line, whatever the texts of others in it."""

import io
import json
import logging
import sys

from tests.support.hostile_objects import UNICODE

from wainwright.operator.logs import JsonFormatter, LineFormatter, set_up_logs


def record(message: str) -> logging.LogRecord:
    return logging.LogRecord("wainwright.test", logging.INFO, __file__, 1, "%s", (message,), None)


def test_json_is_one_line_and_says_what_was_said() -> None:
    line = JsonFormatter().format(record(UNICODE))
    assert len(line.splitlines()) == 1
    assert not any(unprintable in line for unprintable in ("\x1b", "\u0085", "\u202e"))
    assert json.loads(line)["message"] == UNICODE


def test_a_line_for_people_steers_no_terminal() -> None:
    line = LineFormatter().format(record(f"{UNICODE}\nfake"))
    assert len(line.splitlines()) == 1
    assert "\x1b" not in line


def test_errors_are_part_of_their_line() -> None:
    try:
        raise ValueError(UNICODE)
    except ValueError:
        failed = record("failed")
        failed.exc_info = sys.exc_info()
    line = JsonFormatter().format(failed)
    assert len(line.splitlines()) == 1
    assert "ValueError" in json.loads(line)["error"]


def test_a_pipe_gets_json() -> None:
    logger = logging.getLogger("wainwright")
    before = (list(logger.handlers), logger.propagate, logger.level)
    stream = io.StringIO()
    try:
        set_up_logs("info", stream)
        logger.info("ready")
    finally:
        logger.handlers[:], logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
    assert json.loads(stream.getvalue())["message"] == "ready"
