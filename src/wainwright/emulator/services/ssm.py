"""SSM: parameters, foremost the public ones that say which image is recommended.

The public ones need no seeding: they are there for every version of Kubernetes, and `images` lists
what is behind them for the EC2 side. Unlike in AWS they can be put and deleted, so that a new
recommended image, or one that is missing, can be tried.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator.api_conventions import make_arn, require_text, to_datetime
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import ServicePagination
from wainwright.emulator.services import public_images
from wainwright.emulator.services.public_images import PublicImage
from wainwright.errors import AwsError

VALIDATION_EXCEPTION: Final = "ValidationException"
PARAMETER_TYPES: Final = ("String", "StringList", "SecureString")
MAX_NAMES: Final = 10
PARAMETER_PAGINATION: Final = ServicePagination(
    size_param="MaxResults",
    token_param="NextToken",
    max_size=10,
    default_size=10,
    invalid_size_code=VALIDATION_EXCEPTION,
    invalid_token_code="InvalidNextToken",
)


class SsmParameter(msgspec.Struct, kw_only=True):
    value: str
    type: str = "String"
    data_type: str = "text"
    version: int = 1
    modified: float


class SsmState(msgspec.Struct, kw_only=True):
    put_parameters: dict[str, SsmParameter] = msgspec.field(default_factory=dict, name="put")
    """What somebody put; goes before the public one of the same name."""
    deleted_public: set[str] = msgspec.field(default_factory=set, name="gone")
    """Public ones that somebody deleted."""


class Ssm:
    name = "ssm"

    def __init__(self, context: AccountContext) -> None:
        self.state = SsmState()
        self._context = context

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "GetParameter": self.get_parameter,
            "GetParameters": self.get_parameters,
            "GetParametersByPath": self.get_parameters_by_path,
            "PutParameter": self.put_parameter,
            "DeleteParameter": self.delete_parameter,
        }

    def images(self) -> tuple[PublicImage, ...]:
        """The images behind the public parameters, for DescribeImages to know."""
        return public_images.list_public_images(self._context.region)

    def get_parameter(self, params: Params) -> Response:
        asked = require_text(params, "Name", error_code=VALIDATION_EXCEPTION)
        view = self._view(asked)
        if view is None:
            raise parameter_not_found(asked)
        return {"Parameter": view}

    def get_parameters(self, params: Params) -> Response:
        names = list(params.get("Names") or ())
        if not 1 <= len(names) <= MAX_NAMES:
            raise AwsError(
                VALIDATION_EXCEPTION, f"Names must have between 1 and {MAX_NAMES} members."
            )
        views = {name: self._view(name) for name in sorted(set(names))}
        return {
            "Parameters": [view for view in views.values() if view is not None],
            "InvalidParameters": [name for name, view in views.items() if view is None],
        }

    def get_parameters_by_path(self, params: Params) -> Response:
        path = require_text(params, "Path", error_code=VALIDATION_EXCEPTION).rstrip("/") + "/"
        if not path.startswith("/"):
            raise AwsError(VALIDATION_EXCEPTION, "The parameter path must begin with /.")
        if params.get("ParameterFilters"):
            raise AwsError("InvalidFilterKey", "Parameters by path cannot be filtered here.")
        rows, token = PARAMETER_PAGINATION.paginate(
            self._below(path, bool(params.get("Recursive"))), params
        )
        answer: Response = {"Parameters": [self._view(name) for name in rows]}
        return answer if token is None else answer | {"NextToken": token}

    def _below(self, path: str, recursive: bool) -> list[str]:
        known = (
            public_images.list_public_parameters(self._context.region).keys() - self.state.gone
        ) | set(self.state.put)
        return sorted(
            name
            for name in known
            if name.startswith(path) and (recursive or "/" not in name[len(path) :])
        )

    def put_parameter(self, params: Params) -> Response:
        name, value = (
            require_text(params, field, error_code=VALIDATION_EXCEPTION)
            for field in ("Name", "Value")
        )
        known = self._find(name)
        if known is not None and not params.get("Overwrite"):
            raise AwsError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option "
                "in the request to true.",
            )
        kind = params.get("Type") or ("" if known is None else known.type)
        if kind not in PARAMETER_TYPES:
            raise AwsError(
                VALIDATION_EXCEPTION,
                f"A parameter needs a type, one of {', '.join(PARAMETER_TYPES)}.",
            )
        self.state.put[name] = SsmParameter(
            value=value,
            type=kind,
            data_type=params.get("DataType") or "text",
            version=1 if known is None else known.version + 1,
            modified=self._context.now(),
        )
        return {"Version": self.state.put[name].version, "Tier": "Standard"}

    def delete_parameter(self, params: Params) -> Response:
        name = require_text(params, "Name", error_code=VALIDATION_EXCEPTION)
        if self._find(name) is None:
            raise parameter_not_found(name)
        self.state.put.pop(name, None)
        if name in public_images.list_public_parameters(self._context.region):
            self.state.gone.add(name)
        return {}

    def _find(self, name: str) -> SsmParameter | None:
        put = self.state.put.get(name)
        if put is not None or name in self.state.gone:
            return put
        value = public_images.list_public_parameters(self._context.region).get(name)
        if value is None:
            return None
        image = name.endswith("/image_id")
        return SsmParameter(
            value=value,
            data_type="aws:ec2:image" if image else "text",
            modified=public_images.list_public_images(self._context.region)[-1].created,
        )

    def _view(self, asked: str) -> dict[str, Any] | None:
        """By name, by ARN, or by either with `:version` behind it."""
        name, _, version = self._local(asked).partition(":")
        known = self._find(name)
        if known is None:
            return None
        if version and version != str(known.version):
            raise AwsError("ParameterVersionNotFound", f"{name} has no version {version}.")
        view = {
            "Name": name,
            "Type": known.type,
            "Value": known.value,
            "Version": known.version,
            "LastModifiedDate": to_datetime(known.modified),
            "ARN": self._arn(name),
            "DataType": known.data_type,
        }
        return view | ({"Selector": f":{version}"} if version else {})

    def _arn(self, name: str) -> str:
        """Public parameters belong to nobody."""
        owner = "" if name.startswith("/aws/service/") else self._context.account
        return make_arn("ssm", self._context.region, owner, f"parameter/{name.lstrip('/')}")

    def _local(self, asked: str) -> str:
        if not asked.startswith("arn:"):
            return asked
        rest = asked.partition(":parameter")[2]
        # A name without folders loses its only slash in the ARN.
        return rest if rest.count("/") > 1 else rest.lstrip("/")


def parameter_not_found(name: str) -> AwsError:
    return AwsError("ParameterNotFound", f"Parameter {name} not found.")
