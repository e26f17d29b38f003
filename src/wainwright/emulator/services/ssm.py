"""SSM parameters, mainly the public ones that name the recommended images.

The public ones need no seeding: they exist for every version of Kubernetes, and `images` lists
their images for EC2. Unlike in AWS they can be put and deleted, so that a new or missing
recommended image can be tested.
"""

from collections.abc import Iterable, Iterator, Mapping
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
    """Parameters that were put; they override public ones of the same name."""
    deleted_public: set[str] = msgspec.field(default_factory=set, name="gone")
    """Public parameters that were deleted."""


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
        """The images of the public parameters, for DescribeImages."""
        return public_images.list_public_images(self._context.region)

    def has_parameter(self, name: str) -> bool:
        return self._find(name) is not None

    def all_parameters(self) -> Iterator[tuple[str, str]]:
        """Names and values: the public ones first, then those that were put, the latest last."""
        public = public_images.list_public_parameters(self._context.region)
        put = self.state.put_parameters
        for name, value in public.items():
            if name not in put and name not in self.state.deleted_public:
                yield name, value
        yield from ((name, each.value) for name, each in put.items())

    def publish(self, images: Iterable[PublicImage]) -> None:
        """Puts the parameters of further public images, over those of earlier ones."""
        for image in images:
            for name, value in image.parameters:
                params = {"Name": name, "Value": value, "Type": "String", "Overwrite": True}
                self.put_parameter(params)

    def get_parameter(self, params: Params) -> Response:
        name = require_text(params, "Name", error_code=VALIDATION_EXCEPTION)
        view = self._view(name)
        if view is None:
            raise parameter_not_found(name)
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
            self._names_below(path, bool(params.get("Recursive"))), params
        )
        response: Response = {"Parameters": [self._view(name) for name in rows]}
        return response if token is None else response | {"NextToken": token}

    def _names_below(self, path: str, recursive: bool) -> list[str]:
        names = (
            public_images.list_public_parameters(self._context.region).keys()
            - self.state.deleted_public
        ) | set(self.state.put_parameters)
        return sorted(
            name
            for name in names
            if name.startswith(path) and (recursive or "/" not in name[len(path) :])
        )

    def put_parameter(self, params: Params) -> Response:
        name, value = (
            require_text(params, field, error_code=VALIDATION_EXCEPTION)
            for field in ("Name", "Value")
        )
        existing = self._find(name)
        if existing is not None and not params.get("Overwrite"):
            raise AwsError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option "
                "in the request to true.",
            )
        parameter_type = params.get("Type") or ("" if existing is None else existing.type)
        if parameter_type not in PARAMETER_TYPES:
            raise AwsError(
                VALIDATION_EXCEPTION,
                f"A parameter needs a type, one of {', '.join(PARAMETER_TYPES)}.",
            )
        self.state.put_parameters[name] = SsmParameter(
            value=value,
            type=parameter_type,
            data_type=params.get("DataType") or "text",
            version=1 if existing is None else existing.version + 1,
            modified=self._context.now(),
        )
        return {"Version": self.state.put_parameters[name].version, "Tier": "Standard"}

    def delete_parameter(self, params: Params) -> Response:
        name = require_text(params, "Name", error_code=VALIDATION_EXCEPTION)
        if self._find(name) is None:
            raise parameter_not_found(name)
        self.state.put_parameters.pop(name, None)
        if name in public_images.list_public_parameters(self._context.region):
            self.state.deleted_public.add(name)
        return {}

    def _find(self, name: str) -> SsmParameter | None:
        parameter = self.state.put_parameters.get(name)
        if parameter is not None or name in self.state.deleted_public:
            return parameter
        value = public_images.list_public_parameters(self._context.region).get(name)
        if value is None:
            return None
        is_image_id = name.endswith("/image_id")
        return SsmParameter(
            value=value,
            data_type="aws:ec2:image" if is_image_id else "text",
            modified=public_images.list_public_images(self._context.region)[-1].created,
        )

    def _view(self, name_or_arn: str) -> dict[str, Any] | None:
        """The parameter by name or ARN, either with an optional `:version`."""
        name, _, version = self._strip_arn(name_or_arn).partition(":")
        parameter = self._find(name)
        if parameter is None:
            return None
        if version and version != str(parameter.version):
            raise AwsError("ParameterVersionNotFound", f"{name} has no version {version}.")
        view = {
            "Name": name,
            "Type": parameter.type,
            "Value": parameter.value,
            "Version": parameter.version,
            "LastModifiedDate": to_datetime(parameter.modified),
            "ARN": self._arn(name),
            "DataType": parameter.data_type,
        }
        return view | ({"Selector": f":{version}"} if version else {})

    def _arn(self, name: str) -> str:
        """The ARN; that of a public parameter has no account."""
        owner = "" if name.startswith("/aws/service/") else self._context.account
        return make_arn("ssm", self._context.region, owner, f"parameter/{name.lstrip('/')}")

    def _strip_arn(self, name_or_arn: str) -> str:
        if not name_or_arn.startswith("arn:"):
            return name_or_arn
        path = name_or_arn.partition(":parameter")[2]
        # A name without folders has no leading slash, but its ARN has one.
        return path if path.count("/") > 1 else path.lstrip("/")


def parameter_not_found(name: str) -> AwsError:
    return AwsError("ParameterNotFound", f"Parameter {name} not found.")
