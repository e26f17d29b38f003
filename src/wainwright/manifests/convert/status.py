"""What an object's status keeps: everything that v1 still has a field for."""

from typing import Any

from wainwright.manifests.convert.draft import Draft


def with_conditions(draft: Draft) -> None:
    """The status as it is, its conditions without what v1 has no field for."""
    status = dict(draft.source.get("status", {}))
    if "conditions" in status:
        status["conditions"] = _conditions(status["conditions"], draft)
    if any(status.values()):
        draft.made["status"] = {key: item for key, item in status.items() if item}


def _conditions(given: list[dict[str, Any]], draft: Draft) -> list[dict[str, Any]]:
    made = []
    for index, condition in enumerate(given):
        path = ("status", "conditions", index)
        if "lastTransitionTime" not in condition:
            draft.lost(path, f"{condition['type']} is left out: it does not say since when")
            continue
        if "severity" in condition:
            draft.lost((*path, "severity"), "conditions have no severity any more")
        made.append({key: item for key, item in condition.items() if key != "severity"})
    return _first_of_each_type(made, draft)


def _first_of_each_type(given: list[dict[str, Any]], draft: Draft) -> list[dict[str, Any]]:
    """v1 keeps conditions as a map by type."""
    made: dict[str, dict[str, Any]] = {}
    for condition in given:
        if condition["type"] in made:
            draft.lost(("status", "conditions"), f"{condition['type']} is there twice; one is kept")
        made.setdefault(condition["type"], condition)
    return list(made.values())
