"""What is new in a story that goes on: a page that has the one before need not get all of it again.

Nodes, pods and reservations are told by their number where they differ, lists by how many of their
entries stay and what follows, everything else as it is. `web/src/live.js` applies it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from wainwright.report.visual.story import Story

RECORDS: Final = ("nodes", "pods", "reservations")
LISTS: Final = ("events", "verdicts", "pending", "notes")
Path = tuple[str, ...]
encode: Final = msgspec.json.Encoder().encode


class ListChange(msgspec.Struct, frozen=True, kw_only=True):
    path: Path
    """From the story to the list, as events, or series, pods and running."""
    keep: int
    """How many entries stay as they are."""
    add: list[Any]
    """What follows them; everything else of the list before is gone."""


class StoryChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    records: dict[str, dict[str, msgspec.Raw]] = {}
    """Of nodes, pods and reservations those that differ, by their number."""
    lists: list[ListChange] = []
    fields: dict[str, msgspec.Raw] = {}

    def __bool__(self) -> bool:
        return bool(self.records or self.lists or self.fields)


class StorySnapshot:
    """A story as it is now: the records of a history change while a simulation runs."""

    def __init__(self, story: Story) -> None:
        self._records = {
            kind: [encode(each) for each in getattr(story.history, kind)] for kind in RECORDS
        }
        self._lists = dict(_lists_of(story))
        others = (*LISTS, "history", "series")
        self._fields = {
            name: encode(getattr(story, name))
            for name in story.__struct_fields__
            if name not in others
        }

    def changes_since(self, before: "StorySnapshot") -> StoryChanges:
        records = {
            kind: _changed_records(before._records[kind], self._records[kind]) for kind in RECORDS
        }
        lists = [
            _list_change(path, before._lists.get(path, ()), values)
            for path, values in self._lists.items()
            if before._lists.get(path) != values
        ]
        fields = {
            name: msgspec.Raw(text)
            for name, text in self._fields.items()
            if text != before._fields[name]
        }
        return StoryChanges(
            records={kind: changed for kind, changed in records.items() if changed},
            lists=lists,
            fields=fields,
        )


def _changed_records(before: Sequence[bytes], after: Sequence[bytes]) -> dict[str, msgspec.Raw]:
    known = len(before)
    return {
        str(number): msgspec.Raw(text)
        for number, text in enumerate(after)
        if number >= known or before[number] != text
    }


def _list_change(path: Path, before: Sequence[Any], after: Sequence[Any]) -> ListChange:
    both = min(len(before), len(after))
    keep = next((n for n in range(both) if before[n] != after[n]), both)
    return ListChange(path=path, keep=keep, add=list(after[keep:]))


def _lists_of(story: Story) -> Iterator[tuple[Path, Sequence[Any]]]:
    for name in LISTS:
        yield (name,), getattr(story, name)
    if story.series is not None:
        yield from _columns(("series",), msgspec.structs.asdict(story.series))


def _columns(path: Path, value: Mapping[str, Any]) -> Iterator[tuple[Path, Sequence[Any]]]:
    for name, each in value.items():
        if isinstance(each, list):
            yield (*path, name), each
        else:
            inner = each if isinstance(each, dict) else msgspec.structs.asdict(each)
            yield from _columns((*path, name), inner)
