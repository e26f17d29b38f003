"""Logs of `wain run`: whatever a message has in it, an entry is one line that steers nothing."""

import io
import json
import logging
import sys

from wainwright.operator.logs import JsonFormatter, LineFormatter, set_up_logs

HOSTILE = "a\n::error::b\x1b[31m\u202e\ud800\x9b"


def record(message: str, *, error: Exception | None = None) -> logging.LogRecord:
    details = None if error is None else (type(error), error, None)
    return logging.LogRecord("wainwright.a", logging.INFO, "", 0, message, (), details)


def test_an_entry_is_one_line_of_json_with_the_message_in_it() -> None:
    line = JsonFormatter().format(record(HOSTILE))
    assert line.isascii()
    assert line.isprintable()
    entry = json.loads(line)
    assert (entry["message"], entry["level"], entry["logger"]) == (HOSTILE, "info", "a")


def test_lines_for_people_are_escaped_too_with_the_text_of_an_error() -> None:
    text = LineFormatter().format(record(HOSTILE, error=ValueError(HOSTILE)))
    lines = text.split("\n")
    assert all(line.isprintable() and not line.startswith("::") for line in lines)


def test_a_pipe_gets_json() -> None:
    stream = io.StringIO()
    logger = logging.getLogger("wainwright")
    before = (logger.handlers[:], logger.propagate, logger.level)
    try:
        set_up_logs("warning", stream)
        logger.info("not said")
        logger.warning("said")
    finally:
        logger.handlers[:], logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["said"]
    assert stream is not sys.stderr
