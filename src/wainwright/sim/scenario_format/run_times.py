"""The annotation that says how long a pod runs, wherever a manifest has one."""

from collections.abc import Iterator
from typing import Any, Final

from wainwright.api.field_error import FieldError, FieldPath, invalid_value
from wainwright.sim.scenario_format.field_reader import EXPECTED_DURATION, duration_seconds
from wainwright.translate.annotations import RUNS_FOR_ANNOTATION


def check_run_times(value: Any, path: FieldPath = ()) -> Iterator[FieldError]:
    """What is wrong with them, in the metadata of pods and of every template."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from check_run_times(each, (*path, index))
    elif isinstance(value, dict):
        yield from _check_metadata(value.get("metadata"), (*path, "metadata"))
        for key, each in value.items():
            if key in NESTED:
                yield from check_run_times(each, (*path, key))


NESTED: Final = ("items", "jobTemplate", "spec", "template")
"""Where manifests hold pods, or templates of them."""


def _check_metadata(metadata: Any, path: FieldPath) -> Iterator[FieldError]:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(annotations, dict) or RUNS_FOR_ANNOTATION not in annotations:
        return
    found = annotations[RUNS_FOR_ANNOTATION]
    if duration_seconds(found) is None:
        yield invalid_value((*path, "annotations", RUNS_FOR_ANNOTATION), found, EXPECTED_DURATION)
