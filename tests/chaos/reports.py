"""A failing seed in a few lines: what broke, how to replay it, and the shrunk timeline."""

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml
from tests.chaos.random_cases import ChaosCase
from tests.chaos.shrinking import ShrunkCase
from tests.chaos.trial import TrialResult


def describe_failure(seed: int, trial: TrialResult, bug: str = "") -> str:
    """One line that says what broke and how to see it again."""
    first = trial.broken[0]
    at = "" if first.at is None else f" at {first.at:g} s"
    planted = f" BUG={bug}" if bug else ""
    return f"seed {seed}: {first.law}{at}: {first.message}; replay: make chaos SEED={seed}{planted}"


def describe_shrunk(original: TrialResult, shrunk: ShrunkCase) -> Iterator[str]:
    case, trial = shrunk.case, shrunk.trial
    yield (
        f"shrunk in {shrunk.runs} runs to {len(case.events)} events and {len(trial.faults)} of "
        f"{len(original.faults)} faults:"
    )
    for at, text in sorted(_moments(case, trial), key=lambda each: each[0]):
        yield f"  {at:>9.3f} s  {text}"
    for each in trial.broken:
        moment = "at the end" if each.at is None else f"{each.at:>9.3f} s"
        yield f"  {moment}  BROKEN {each.law}: {each.message}"


def _moments(case: ChaosCase, trial: TrialResult) -> Iterator[tuple[float, str]]:
    for event in case.events:
        rest = {key: value for key, value in event.items() if key != "at"}
        yield float(str(event["at"]).removesuffix("s")), _in_one_line(rest)
    for step in case.faults.clock_steps:
        yield step.at, f"clock of the controllers: {step.offset:+g} s"
    for fault in trial.faults:
        yield fault.at, fault.name


def describe_world(case: ChaosCase) -> Iterator[str]:
    """The objects at the start, one a line."""
    for manifest in case.manifests:
        name = manifest.get("metadata", {}).get("name", "")
        yield f"  {manifest['kind']}/{name} {_in_one_line(manifest.get('spec', {}))}"
    yield f"  spec {_in_one_line(case.spec)}"


def describe_timeline(trial: TrialResult) -> Iterator[str]:
    """Everything that happened, as `wain simulate -o json` has it."""
    for entry in [] if trial.result is None else trial.result.timeline:
        fields: dict[str, Any] = msgspec.to_builtins(entry)
        at, what, about = fields.pop("at"), fields.pop("what"), fields.pop("object", "")
        rest = " ".join(f"{key}={value}" for key, value in fields.items() if value)
        yield f"  {at:>9.3f} s  {what:<10} {about} {rest}"


def _in_one_line(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return " ".join(text.split())
