"""Changes of a story carried out on its JSON, as web/src/live.js does it in the page."""

from typing import Any

Json = dict[str, Any]


def apply_changes(story: Json, changes: Json) -> None:
    for kind, records in changes.get("records", {}).items():
        known = story["history"].setdefault(kind, [])
        for number, record in sorted(records.items(), key=lambda each: int(each[0])):
            known[int(number) : int(number) + 1] = [record]
    for change in changes.get("lists", []):
        *holders, name = change["path"]
        holder = story
        for each in holders:
            holder = holder.setdefault(each, {})
        holder[name] = [*holder.get(name, [])[: change["keep"]], *change["add"]]
    story.update(changes.get("fields", {}))


def without_defaults(story: Json) -> Json:
    """Of both a field that is left out and one that is empty."""
    return {name: value for name, value in story.items() if value not in (None, [], {})}
