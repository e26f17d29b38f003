"""What is read of a kubeconfig and of the files that it names: no more than a limit, whatever they
are.

A kubeconfig may be a pipe, as `--kubeconfig <(aws …)` makes one, and whoever wrote it need not be
whoever reads it: a device has no end, nested YAML takes all of a stack, and 300 bytes of aliases
are more values than there is memory for.
"""

import errno
from typing import Any, Final

import yaml
from yaml._yaml import CParser

MAX_FILE: Final = 16 * 2**20
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 250_000
"""Ten thousand clusters with their users and contexts have fewer; each takes half a kilobyte."""
MAX_ALIASED: Final = 4 * 2**20
"""Characters that aliases may add."""
VALUE: Final = 16
"""What a value counts for beside its characters: an empty one takes memory, too."""


def read_bounded(file: str) -> bytes:
    """The content; OSError, with the name of the file, also where it is too large."""
    with open(file, "rb") as opened:  # noqa: PTH123 - names are strings all the way
        data = opened.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        message = f"it is larger than {MAX_FILE >> 20} MiB; name an ordinary file"
        raise OSError(errno.EFBIG, message, file)
    return data


def check_size_of_values(text: str) -> None:
    """YAMLError where its values are nested too deep, or too many by aliases. Nothing is built."""
    parser = CParser(text)
    try:
        counter = _ValueCounter()
        while not isinstance(event := parser.get_event(), yaml.StreamEndEvent):
            counter.count(event)
    finally:
        parser.dispose()


class _ValueCounter:
    """Of the events of a stream: how deep they are, and how large what aliases stand for is."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, int]] = []
        """The anchor of each open collection, and the size of all before it."""
        self._size = 0
        self._aliased = 0
        self._sizes: dict[str | None, int] = {}
        self._values = 0

    def count(self, event: Any) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _error(f"more than {MAX_VALUES:,} values", event)
        match event:
            case yaml.AliasEvent():
                self._count_alias(event)
            case yaml.ScalarEvent():
                self._add(event.anchor, VALUE + len(event.value))
            case yaml.CollectionStartEvent():
                if len(self._open) >= MAX_DEPTH:
                    raise _error(f"more than {MAX_DEPTH} levels of nesting", event)
                self._open.append((event.anchor, self._size))
            case yaml.CollectionEndEvent():
                anchor, before = self._open.pop()
                size, self._size = VALUE + self._size - before, before
                self._add(anchor, size)
            case _:  # the begin or end of a stream or a document
                pass

    def _add(self, anchor: str | None, size: int) -> None:
        self._size += size
        if anchor is not None:
            self._sizes[anchor] = size

    def _count_alias(self, event: yaml.AliasEvent) -> None:
        size = self._sizes.get(event.anchor)
        if size is None:  # of a value that has not ended, or of none
            raise _error(f"the alias *{event.anchor} stands for no value above", event)
        self._size += size
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _error("aliases blow the file up to millions of characters", event)


def _error(problem: str, event: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
