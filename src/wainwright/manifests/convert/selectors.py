"""Selector maps of old, where one value could list several, as the selector terms of v1."""

from collections.abc import Iterable, Iterator
from itertools import islice, product
from math import prod
from typing import Any, Final

from wainwright.api.fault import Path
from wainwright.api.old.awsnodetemplate import IDS, NAME, OWNERS
from wainwright.manifests.convert.draft import Draft

MOST_TERMS: Final = 30
SPECIAL: Final = (*IDS, NAME, OWNERS)

Selector = dict[str, str]
Term = dict[str, Any]


def terms(selector: Selector, path: Path, draft: Draft) -> list[Term]:
    """Subnets or security groups: by ids, or else by every combination of the tags listed."""
    if not selector:
        return []
    ids = _ids(selector)
    if ids:
        _say_only_ids_count([key for key in selector if key not in IDS], path, draft)
        return _cut(({"id": one} for one in ids), len(ids), path, draft)
    _explain_tags(selector, path, draft)
    return _cut(({"tags": tags} for tags in _tags(selector)), _count(selector), path, draft)


def image_terms(selector: Selector, path: Path, draft: Draft) -> list[Term]:
    """Images: by ids, or else by every combination of owners, names and tags listed."""
    if not selector:
        return []
    ids = _ids(selector)
    if ids:
        _say_only_ids_count([key for key in selector if key not in IDS], path, draft)
        return _cut(({"id": one} for one in ids), len(ids), path, draft)
    tags = {key: text for key, text in selector.items() if key not in SPECIAL}
    _explain_tags(tags, path, draft)
    owners, names = _listed(selector, OWNERS), _listed(selector, NAME)
    made = (
        _image_term(owner, name, tagged)
        for owner in owners or [""]
        for name in names or [""]
        for tagged in _tags(tags)
    )
    count = (len(owners) or 1) * (len(names) or 1) * _count(tags)
    return _cut(made, count, path, draft)


def _image_term(owner: str, name: str, tags: dict[str, str]) -> Term:
    """v1 takes an owner only beside something else; any name is as good as none."""
    if owner and not name and not tags:
        name = "*"
    parts = (("name", name), ("owner", owner), ("tags", tags))
    return {key: part for key, part in parts if part}


def _ids(selector: Selector) -> list[str]:
    return list(dict.fromkeys(one for key in IDS for one in _listed(selector, key)))


def _listed(selector: Selector, key: str) -> list[str]:
    return [piece.strip() for piece in selector.get(key, "").split(",") if piece.strip()]


def _choices(text: str) -> list[str]:
    """The values that a tag may have; nothing written used to stand for any."""
    return list(dict.fromkeys(p.strip() for p in text.split(",") if p.strip())) or ["*"]


def _tags(selector: Selector) -> Iterator[dict[str, str]]:
    keys = list(selector)
    for values in product(*(_choices(selector[key]) for key in keys)):
        yield dict(zip(keys, values, strict=True))


def _count(selector: Selector) -> int:
    return prod(len(_choices(text)) for text in selector.values())


def _cut(made: Iterable[Term], count: int, path: Path, draft: Draft) -> list[Term]:
    if count > MOST_TERMS:
        draft.lost(
            path,
            f"this selector comes to {count:,} terms and v1 takes {MOST_TERMS}; "
            "the others are left out",
        )
    return list(islice(made, MOST_TERMS))


def _explain_tags(tags: Selector, path: Path, draft: Draft) -> None:
    for key, text in tags.items():
        count = len(_choices(text))
        if count > 1:
            draft.changed(
                (*path, key),
                f"the commas are read as separating {count} alternatives, each in terms of its own",
            )
        elif not text.strip(", "):
            draft.changed((*path, key), "no value meant any value; that is written * now")


def _say_only_ids_count(others: list[str], path: Path, draft: Draft) -> None:
    for key in others:
        draft.lost((*path, key), f"{key} is left out: a term with an id has nothing else")
