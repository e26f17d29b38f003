"""Moments: floats in our state, aware datetimes in answers, either of them or text in requests."""

from datetime import UTC, datetime
from typing import Any

from wainwright.errors import AwsError


def moment(seconds: float) -> datetime:
    """As boto3 gives times."""
    return datetime.fromtimestamp(seconds, UTC)


def iso(seconds: float) -> str:
    """As EC2 writes the few times that are texts to it."""
    return moment(seconds).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def seconds(value: Any, name: str = "time") -> float:
    """Of a time in a request; one without a zone is UTC, as botocore takes it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        message = f"Value ({value}) for parameter {name} is invalid. Expecting a time in ISO 8601."
        raise AwsError("InvalidParameterValue", message) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
