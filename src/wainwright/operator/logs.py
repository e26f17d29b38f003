"""Logs of `wain run` on standard error: a JSON object a line, on a terminal lines for people."""

import json
import logging
import sys
from typing import Any, Final, TextIO

from wainwright.clock import format_microseconds
from wainwright.messages.formatting import escape_unprintable

ROOT: Final = "wainwright"
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": format_microseconds(record.created),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name.removeprefix(f"{ROOT}."),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)  # as ASCII: nothing in a message steers a terminal or a log


class LineFormatter(logging.Formatter):
    """12:00:01 info  provisioned default-abcde"""

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%H:%M:%S")
        text = escape_unprintable(record.getMessage())
        line = f"{time} {record.levelname.lower():<7} {text}"
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).split("\n")
        return "\n".join([line, *map(escape_unprintable, trace)])


def set_up_logs(level: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter() if stream.isatty() else JsonFormatter())
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(LEVELS[level])
