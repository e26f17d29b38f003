"""Requests: what the services beside EC2 ask of the parameters before they look at them."""

from collections.abc import Mapping
from typing import Any

from wainwright.errors import AwsError


def text(params: Mapping[str, Any], name: str, *, refused: str) -> str:
    """A text that must be there; `refused` is the code by which the service says that it is not."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise AwsError(refused, f"The request must contain the parameter {name}.")
    return value


def whole(params: Mapping[str, Any], name: str, *, otherwise: int, refused: str) -> int:
    """A whole number, or `otherwise` where there is none; some clients send it as text."""
    value = params.get(name)
    if value is None or value == "":
        return otherwise
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AwsError(
            refused, f"Value {value!r} for parameter {name} is not a whole number."
        ) from None
