"""How faults of core kinds are worded: what was expected, what is missing, what is in doubt."""

from typing import Any

from wainwright.api.fault import Fault, Path, did_you_mean, shown


def wrong(path: Path, value: Any, expected: str, hint: str = "") -> Fault:
    return Fault(
        path=path,
        message=f"expected {expected}",
        found=shown(value),
        expected=expected,
        hint=hint,
    )


def missing(path: Path, expected: str, message: str = "required field is missing") -> Fault:
    return Fault(path=path, message=message, found="nothing", expected=expected)


def among(path: Path, value: str, allowed: tuple[str, ...]) -> Fault:
    """A word that is none of those allowed, or none at all."""
    expected = f"one of {', '.join(allowed)}"
    if not value:
        return missing(path, expected)
    return wrong(path, value, expected, did_you_mean(value, list(allowed)))


def broken(path: Path, value: Any, message: str, expected: str = "") -> Fault:
    """A rule between fields that does not hold; the message is the rule."""
    return Fault(path=path, message=message, found=shown(value), expected=expected or message)


def twice(path: Path, value: Any) -> Fault:
    message = f"{shown(value)} is there already"
    return broken(path, value, message, "an entry that is not there yet")


def doubt(path: Path, value: Any, message: str, hint: str = "") -> Fault:
    """Something that the API server takes and that will not do what its author hopes."""
    return Fault(path=path, message=message, found=shown(value), hint=hint, warning=True)
