"""What the operations of all services have in common: timestamps, resource ids and ARNs, resources
looked up by id, required parameters, dry runs, and client tokens.

The account answers a dry run itself where permission to call is all that is checked. A service that
validates the request first (a launch template that does not exist, say) lists the operation in
`dry_runs`, and its handler raises `dry_run_error` after validation.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from wainwright.emulator.context import AccountContext, Params
from wainwright.errors import AwsError


@lru_cache(maxsize=4096)
def to_datetime(seconds: float) -> datetime:
    """A timestamp as boto3 returns it; thousands of instances are launched in the same second."""
    return datetime.fromtimestamp(seconds, UTC)


def iso_timestamp(seconds: float) -> str:
    """A timestamp in the fields that EC2 models as strings."""
    return to_datetime(seconds).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def to_epoch_seconds(value: Any, name: str = "time") -> float:
    """The timestamp of a request; without a time zone it is UTC, as in botocore."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        message = f"Value ({value}) for parameter {name} is invalid. Expecting a time in ISO 8601."
        raise AwsError("InvalidParameterValue", message) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def new_resource_id(context: AccountContext, prefix: str) -> str:
    """A new id such as `i-0…`; the same seed gives the same ids in the same order."""
    return f"{prefix}-0{context.random.getrandbits(64):016x}"


def aws_partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def make_arn(
    service: str, region: str, account: str, resource: str, *, global_service: bool = False
) -> str:
    """`global_service`: of a service without regions, whose ARNs name none."""
    arn_region = "" if global_service else region
    return f"arn:{aws_partition(region)}:{service}:{arn_region}:{account}:{resource}"


def require_text(params: Mapping[str, Any], name: str, *, error_code: str) -> str:
    """A required string parameter; AwsError with `error_code` where it is missing or empty."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise AwsError(error_code, f"The request must contain the parameter {name}.")
    return value


def parse_int(params: Mapping[str, Any], name: str, *, default: int, error_code: str) -> int:
    """An integer parameter, or `default` where it is absent; some clients send it as a string."""
    value = params.get(name)
    if value is None or value == "":
        return default
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AwsError(
            error_code, f"Value {value!r} for parameter {name} is not a whole number."
        ) from None


def parse_price(value: Any, name: str) -> float:
    """A price that a request states as text."""
    try:
        price = float(value)
    except (TypeError, ValueError):
        price = math.nan
    if not math.isfinite(price) or price < 0:
        message = f"Value ({value}) for parameter {name} is invalid. Expecting a price."
        raise AwsError("InvalidParameterValue", message)
    return price


def dry_run_error() -> AwsError:
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


Row = TypeVar("Row")


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """A resource type of EC2, and the error for an id that does not exist."""

    prefix: str
    resource: str
    """The name in tag specifications and DescribeTags."""
    display_name: str
    """The name in error messages."""
    not_found_code: str
    """The error code for an unknown id."""

    def not_found_error(self, ids: Iterable[str]) -> AwsError:
        id_list = list(ids)
        if len(id_list) == 1:
            return AwsError(
                self.not_found_code, f"The {self.display_name} ID '{id_list[0]}' does not exist"
            )
        return AwsError(
            self.not_found_code, f"The {self.display_name} IDs '{', '.join(id_list)}' do not exist"
        )

    def arn(self, region: str, account: str, identity: str) -> str:
        return f"arn:aws:ec2:{region}:{account}:{self.resource}/{identity}"


VPC: Final = ResourceType(
    prefix="vpc", resource="vpc", display_name="vpc", not_found_code="InvalidVpcID.NotFound"
)
SUBNET: Final = ResourceType(
    prefix="subnet",
    resource="subnet",
    display_name="subnet",
    not_found_code="InvalidSubnetID.NotFound",
)
SECURITY_GROUP: Final = ResourceType(
    prefix="sg",
    resource="security-group",
    display_name="security group",
    not_found_code="InvalidGroup.NotFound",
)
SECURITY_GROUP_RULE: Final = ResourceType(
    prefix="sgr",
    resource="security-group-rule",
    display_name="security group rule",
    not_found_code="InvalidSecurityGroupRuleId.NotFound",
)
IMAGE: Final = ResourceType(
    prefix="ami", resource="image", display_name="image", not_found_code="InvalidAMIID.NotFound"
)
LAUNCH_TEMPLATE: Final = ResourceType(
    prefix="lt",
    resource="launch-template",
    display_name="launch template",
    not_found_code="InvalidLaunchTemplateId.NotFound",
)
PLACEMENT_GROUP: Final = ResourceType(
    prefix="pg",
    resource="placement-group",
    display_name="placement group",
    not_found_code="InvalidPlacementGroupId.NotFound",
)
INSTANCE: Final = ResourceType(
    prefix="i",
    resource="instance",
    display_name="instance",
    not_found_code="InvalidInstanceID.NotFound",
)
FLEET: Final = ResourceType(
    prefix="fleet", resource="fleet", display_name="fleet", not_found_code="InvalidFleetId.NotFound"
)
SPOT_INSTANCE_REQUEST: Final = ResourceType(
    prefix="sir",
    resource="spot-instances-request",
    display_name="spot instance request",
    not_found_code="InvalidSpotInstanceRequestID.NotFound",
)
CAPACITY_RESERVATION: Final = ResourceType(
    prefix="cr",
    resource="capacity-reservation",
    display_name="capacity reservation",
    not_found_code="InvalidCapacityReservationId.NotFound",
)


def find_by_ids(
    rows: Mapping[str, Row], ids: Iterable[str] | None, kind: ResourceType
) -> list[Row]:
    """The rows with these ids, each once, in order of creation; all rows where no ids are given."""
    if not ids:
        return list(rows.values())
    requested = dict.fromkeys(ids)
    missing_ids = [each for each in requested if each not in rows]
    if missing_ids:
        raise kind.not_found_error(missing_ids)
    return [row for identity, row in rows.items() if identity in requested]


def get_by_id(rows: Mapping[str, Row], identity: str | None, kind: ResourceType) -> Row:
    """The row with that id; an AwsError where there is none."""
    if not identity:
        raise AwsError("MissingParameter", f"The request must contain a {kind.display_name} id")
    row = rows.get(identity)
    if row is None:
        raise kind.not_found_error([identity])
    return row


TOKEN_LIFETIME_SECONDS: Final = 24 * 3600.0
MAX_TOKEN_LENGTH: Final = 64


class IdempotentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The request that first used a client token, and its response."""

    params_digest: str = msgspec.field(name="asked")
    """A digest of the parameters."""
    response_json: str = msgspec.field(name="answer")
    """JSON, so that every repetition gets its own copy."""
    at: float


class ClientTokens:
    """The client tokens of one operation; `responses` belongs to the state of its service."""

    def __init__(self, context: AccountContext, responses: dict[str, IdempotentResponse]) -> None:
        self._context = context
        self._responses = responses

    def run_once(self, params: Params, operation: Callable[[], Any]) -> Any:
        """The result of `operation`, or of its first call with the token; it must be JSON.

        An error is not stored: the request may be repeated with the same token.
        """
        token = params.get("ClientToken")
        if not token:
            return operation()
        self._drop_expired()
        digest, previous = _params_digest(params), self._responses.get(token)
        if previous is None:
            response = operation()
            encoded = msgspec.json.encode(response).decode()
            self._responses[token] = IdempotentResponse(
                params_digest=digest, response_json=encoded, at=self._context.now()
            )
            return response
        if previous.params_digest != digest:
            raise _token_mismatch()
        return msgspec.json.decode(previous.response_json)

    def _drop_expired(self) -> None:
        """Entries are in order of age, so the first one that is young enough ends the scan."""
        limit = self._context.now() - TOKEN_LIFETIME_SECONDS
        while self._responses:
            oldest = next(iter(self._responses))
            if self._responses[oldest].at > limit:
                return
            del self._responses[oldest]


def check_client_token(params: Params) -> None:
    """Raises where the token is too long."""
    if len(params.get("ClientToken") or "") > MAX_TOKEN_LENGTH:
        raise AwsError(
            "InvalidParameterValue",
            f"ClientToken must not be longer than {MAX_TOKEN_LENGTH} characters",
        )


def _params_digest(params: Params) -> str:
    encoded = msgspec.json.encode(params, order="deterministic")
    return blake2b(encoded, digest_size=16).hexdigest()


def _token_mismatch() -> AwsError:
    return AwsError(
        "IdempotentParameterMismatch",
        "The client token you have provided is associated with a resource that was created with "
        "other parameters.",
    )
