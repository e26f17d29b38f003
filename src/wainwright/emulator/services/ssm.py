"""SSM: parameters, foremost the public ones that say which image is recommended.

The public ones need no seeding: they are there for every version of Kubernetes, and `images` lists
what is behind them for the EC2 side. Unlike in AWS they can be put and deleted, so that a new
recommended image, or one that is missing, can be tried.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from wainwright.emulator.services import public_images
from wainwright.emulator.services.arns import arn
from wainwright.emulator.services.pages import Paging
from wainwright.emulator.services.public_images import PublicImage
from wainwright.emulator.services.requests import text
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

INVALID: Final = "ValidationException"
TYPES: Final = ("String", "StringList", "SecureString")
MOST_NAMES: Final = 10
PAGING: Final = Paging(
    size="MaxResults",
    token="NextToken",
    most=10,
    otherwise=10,
    bad_size=INVALID,
    bad_token="InvalidNextToken",
)


class Parameter(msgspec.Struct, kw_only=True):
    value: str
    type: str = "String"
    data_type: str = "text"
    version: int = 1
    modified: float


class SsmState(msgspec.Struct, kw_only=True):
    put: dict[str, Parameter] = {}
    """What somebody put; goes before the public one of the same name."""
    gone: set[str] = set()
    """Public ones that somebody deleted."""


class Ssm:
    name = "ssm"

    def __init__(self, world: World) -> None:
        self.state = SsmState()
        self._world = world

    def operations(self) -> Mapping[str, Handler]:
        return {
            "GetParameter": self.get_parameter,
            "GetParameters": self.get_parameters,
            "GetParametersByPath": self.get_parameters_by_path,
            "PutParameter": self.put_parameter,
            "DeleteParameter": self.delete_parameter,
        }

    def images(self) -> tuple[PublicImage, ...]:
        """The images behind the public parameters, for DescribeImages to know."""
        return public_images.images(self._world.region)

    def get_parameter(self, params: Params) -> Answer:
        asked = text(params, "Name", refused=INVALID)
        view = self._view(asked)
        if view is None:
            raise not_found(asked)
        return {"Parameter": view}

    def get_parameters(self, params: Params) -> Answer:
        names = list(params.get("Names") or ())
        if not 1 <= len(names) <= MOST_NAMES:
            raise AwsError(INVALID, f"Names must have between 1 and {MOST_NAMES} members.")
        views = {name: self._view(name) for name in sorted(set(names))}
        return {
            "Parameters": [view for view in views.values() if view is not None],
            "InvalidParameters": [name for name, view in views.items() if view is None],
        }

    def get_parameters_by_path(self, params: Params) -> Answer:
        path = text(params, "Path", refused=INVALID).rstrip("/") + "/"
        if not path.startswith("/"):
            raise AwsError(INVALID, "The parameter path must begin with /.")
        if params.get("ParameterFilters"):
            raise AwsError("InvalidFilterKey", "Parameters by path cannot be filtered here.")
        rows, token = PAGING.cut(self._below(path, bool(params.get("Recursive"))), params)
        answer: Answer = {"Parameters": [self._view(name) for name in rows]}
        return answer if token is None else answer | {"NextToken": token}

    def _below(self, path: str, recursive: bool) -> list[str]:
        known = (public_images.parameters(self._world.region).keys() - self.state.gone) | set(
            self.state.put
        )
        return sorted(
            name
            for name in known
            if name.startswith(path) and (recursive or "/" not in name[len(path) :])
        )

    def put_parameter(self, params: Params) -> Answer:
        name, value = (text(params, field, refused=INVALID) for field in ("Name", "Value"))
        known = self._find(name)
        if known is not None and not params.get("Overwrite"):
            raise AwsError(
                "ParameterAlreadyExists",
                "The parameter already exists. To overwrite this value, set the overwrite option "
                "in the request to true.",
            )
        kind = params.get("Type") or ("" if known is None else known.type)
        if kind not in TYPES:
            raise AwsError(INVALID, f"A parameter needs a type, one of {', '.join(TYPES)}.")
        self.state.put[name] = Parameter(
            value=value,
            type=kind,
            data_type=params.get("DataType") or "text",
            version=1 if known is None else known.version + 1,
            modified=self._world.now(),
        )
        return {"Version": self.state.put[name].version, "Tier": "Standard"}

    def delete_parameter(self, params: Params) -> Answer:
        name = text(params, "Name", refused=INVALID)
        if self._find(name) is None:
            raise not_found(name)
        self.state.put.pop(name, None)
        if name in public_images.parameters(self._world.region):
            self.state.gone.add(name)
        return {}

    def _find(self, name: str) -> Parameter | None:
        put = self.state.put.get(name)
        if put is not None or name in self.state.gone:
            return put
        value = public_images.parameters(self._world.region).get(name)
        if value is None:
            return None
        image = name.endswith("/image_id")
        return Parameter(
            value=value,
            data_type="aws:ec2:image" if image else "text",
            modified=public_images.images(self._world.region)[-1].created,
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
            "LastModifiedDate": moment(known.modified),
            "ARN": self._arn(name),
            "DataType": known.data_type,
        }
        return view | ({"Selector": f":{version}"} if version else {})

    def _arn(self, name: str) -> str:
        """Public parameters belong to nobody."""
        owner = "" if name.startswith("/aws/service/") else self._world.account
        return arn("ssm", self._world.region, owner, f"parameter/{name.lstrip('/')}")

    def _local(self, asked: str) -> str:
        if not asked.startswith("arn:"):
            return asked
        rest = asked.partition(":parameter")[2]
        # A name without folders loses its only slash in the ARN.
        return rest if rest.count("/") > 1 else rest.lstrip("/")


def not_found(name: str) -> AwsError:
    return AwsError("ParameterNotFound", f"Parameter {name} not found.")
