"""What the operations of all services have in common: timestamps, resource ids and ARNs, resources
looked up by id, required parameters, dry runs, and client tokens.

The account refuses a dry run by itself where it needs no more than the right to call. A service
that looks at the request first (a template that does not exist, say) lists the operation in
`dry_runs`, and its handler raises `dry_run_error` in the end.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from wainwright.emulator.context import AccountContext, Params
from wainwright.errors import AwsError


def to_datetime(seconds: float) -> datetime:
    """As boto3 gives times."""
    return datetime.fromtimestamp(seconds, UTC)


def iso_timestamp(seconds: float) -> str:
    """As EC2 writes the few times that are texts to it."""
    return to_datetime(seconds).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def to_epoch_seconds(value: Any, name: str = "time") -> float:
    """Of a time in a request; one without a zone is UTC, as botocore takes it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        message = f"Value ({value}) for parameter {name} is invalid. Expecting a time in ISO 8601."
        raise AwsError("InvalidParameterValue", message) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def new_resource_id(context: AccountContext, prefix: str) -> str:
    """As `i-0…`; the same seed gives the same ids in the same order."""
    return f"{prefix}-0{context.random.getrandbits(64):016x}"


def aws_partition(region: str) -> str:
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"


def make_arn(
    service: str, region: str, account: str, resource: str, *, everywhere: bool = False
) -> str:
    """`everywhere` for services that are the same in all regions and whose ARNs name none."""
    place = "" if everywhere else region
    return f"arn:{aws_partition(region)}:{service}:{place}:{account}:{resource}"


def require_text(params: Mapping[str, Any], name: str, *, refused: str) -> str:
    """A text that must be there; `refused` is the code by which the service says that it is not."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise AwsError(refused, f"The request must contain the parameter {name}.")
    return value


def parse_int(params: Mapping[str, Any], name: str, *, otherwise: int, refused: str) -> int:
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


def dry_run_error() -> AwsError:
    return AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)


Row = TypeVar("Row")


class ResourceType(msgspec.Struct, frozen=True, kw_only=True):
    """What EC2 calls a kind of thing, and how it says that there is none of that id."""

    prefix: str
    resource: str
    """In tag specifications and DescribeTags."""
    words: str
    """In messages."""
    missing: str
    """The code."""

    def lost(self, ids: Iterable[str]) -> AwsError:
        found = list(ids)
        if len(found) == 1:
            return AwsError(self.missing, f"The {self.words} ID '{found[0]}' does not exist")
        return AwsError(self.missing, f"The {self.words} IDs '{', '.join(found)}' do not exist")

    def arn(self, region: str, account: str, identity: str) -> str:
        return f"arn:aws:ec2:{region}:{account}:{self.resource}/{identity}"


VPC: Final = ResourceType(
    prefix="vpc", resource="vpc", words="vpc", missing="InvalidVpcID.NotFound"
)
SUBNET: Final = ResourceType(
    prefix="subnet", resource="subnet", words="subnet", missing="InvalidSubnetID.NotFound"
)
SECURITY_GROUP: Final = ResourceType(
    prefix="sg", resource="security-group", words="security group", missing="InvalidGroup.NotFound"
)
SECURITY_GROUP_RULE: Final = ResourceType(
    prefix="sgr",
    resource="security-group-rule",
    words="security group rule",
    missing="InvalidSecurityGroupRuleId.NotFound",
)
IMAGE: Final = ResourceType(
    prefix="ami", resource="image", words="image", missing="InvalidAMIID.NotFound"
)
LAUNCH_TEMPLATE: Final = ResourceType(
    prefix="lt",
    resource="launch-template",
    words="launch template",
    missing="InvalidLaunchTemplateId.NotFound",
)
PLACEMENT_GROUP: Final = ResourceType(
    prefix="pg",
    resource="placement-group",
    words="placement group",
    missing="InvalidPlacementGroupId.NotFound",
)
INSTANCE: Final = ResourceType(
    prefix="i", resource="instance", words="instance", missing="InvalidInstanceID.NotFound"
)
FLEET: Final = ResourceType(
    prefix="fleet", resource="fleet", words="fleet", missing="InvalidFleetId.NotFound"
)
SPOT_INSTANCE_REQUEST: Final = ResourceType(
    prefix="sir",
    resource="spot-instances-request",
    words="spot instance request",
    missing="InvalidSpotInstanceRequestID.NotFound",
)
CAPACITY_RESERVATION: Final = ResourceType(
    prefix="cr",
    resource="capacity-reservation",
    words="capacity reservation",
    missing="InvalidCapacityReservationId.NotFound",
)


def find_by_ids(
    rows: Mapping[str, Row], ids: Iterable[str] | None, kind: ResourceType
) -> list[Row]:
    """The rows with these ids, each once, in the order in which they were made; all without ids."""
    if not ids:
        return list(rows.values())
    wanted = dict.fromkeys(ids)
    lost = [each for each in wanted if each not in rows]
    if lost:
        raise kind.lost(lost)
    return [row for identity, row in rows.items() if identity in wanted]


def get_by_id(rows: Mapping[str, Row], identity: str | None, kind: ResourceType) -> Row:
    """The row of that id."""
    if not identity:
        raise AwsError("MissingParameter", f"The request must contain a {kind.words} id")
    found = rows.get(identity)
    if found is None:
        raise kind.lost([identity])
    return found


TOKEN_LIFETIME_SECONDS: Final = 24 * 3600.0
MAX_TOKEN_LENGTH: Final = 64


class IdempotentResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked with a token, and what came of it."""

    asked: str
    """A digest of the parameters."""
    answer: str
    """JSON, so that every repetition gets a copy of its own."""
    at: float


class ClientTokens:
    """The tokens of one operation; `kept` is part of the state of whoever asks."""

    def __init__(self, context: AccountContext, kept: dict[str, IdempotentResponse]) -> None:
        self._context = context
        self._kept = kept

    def once(self, params: Params, act: Callable[[], Any]) -> Any:
        """What `act` gives, or gave when the token came first; it must be JSON.

        What went wrong is not remembered: it may be tried again with the same token.
        """
        token = params.get("ClientToken")
        if not token:
            return act()
        self._forget()
        asked, before = _params_digest(params), self._kept.get(token)
        if before is None:
            answer = act()
            written = msgspec.json.encode(answer).decode()
            self._kept[token] = IdempotentResponse(
                asked=asked, answer=written, at=self._context.now()
            )
            return answer
        if before.asked != asked:
            raise _token_mismatch()
        return msgspec.json.decode(before.answer)

    def _forget(self) -> None:
        """The oldest come first."""
        limit = self._context.now() - TOKEN_LIFETIME_SECONDS
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest].at > limit:
                return
            del self._kept[oldest]


def check_client_token(params: Params) -> None:
    """Refuses a token that is too long."""
    if len(params.get("ClientToken") or "") > MAX_TOKEN_LENGTH:
        raise AwsError(
            "InvalidParameterValue",
            f"ClientToken must not be longer than {MAX_TOKEN_LENGTH} characters",
        )


def _params_digest(params: Params) -> str:
    written = msgspec.json.encode(params, order="deterministic")
    return blake2b(written, digest_size=16).hexdigest()


def _token_mismatch() -> AwsError:
    return AwsError(
        "IdempotentParameterMismatch",
        "The client token you have provided is associated with a resource that was created with "
        "other parameters.",
    )
