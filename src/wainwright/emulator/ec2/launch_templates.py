"""Launch templates: by name and by id, in versions, with the codes that clients react to."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from wainwright.emulator import api_conventions
from wainwright.emulator.api_conventions import (
    LAUNCH_TEMPLATE,
    ClientTokens,
    IdempotentResponse,
    parse_int,
    to_datetime,
)
from wainwright.emulator.context import AccountContext, OperationHandler, Params, Response
from wainwright.emulator.describe_requests import FilterFields, apply_filters, bool_value, paginate
from wainwright.emulator.ec2.tags import check_taggable_types, parse_tag_specifications, to_tag_list
from wainwright.errors import AwsError


class LaunchTemplateVersion(msgspec.Struct, kw_only=True):
    number: int
    created: float
    data: dict[str, Any]
    """LaunchTemplateData, in the shape of the API."""
    description: str | None = None


class LaunchTemplate(msgspec.Struct, kw_only=True):
    id: str
    name: str
    created: float
    versions: list[LaunchTemplateVersion]
    """In the order of their numbers; at least one."""
    default: int = 1
    tags: dict[str, str] = {}

    @property
    def latest(self) -> int:
        return self.versions[-1].number


TEMPLATE_NAME: Final = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
MAX_USER_DATA_BYTES: Final = 16384


def check_template_name(name: Any) -> str:
    if not isinstance(name, str) or not TEMPLATE_NAME.fullmatch(name):
        raise AwsError(
            "InvalidLaunchTemplateName.MalformedException",
            "A launch template name must be between 3 and 128 characters, and may contain "
            "letters, numbers, and the following characters: - ( ) . / _.",
        )
    return name


def check_template_data(params: Params) -> dict[str, Any]:
    """A copy of LaunchTemplateData; most errors in it only show at the launch."""
    data = params.get("LaunchTemplateData")
    if not data:
        raise AwsError(
            "MissingParameter", "The request must contain the parameter LaunchTemplateData"
        )
    check_user_data(data.get("UserData"))
    return deepcopy(dict(data))


def check_user_data(text: str | None) -> None:
    """Base64 of no more than 16 KiB."""
    if not text:
        return
    try:
        decoded = b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise AwsError(
            "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
        ) from None
    if len(decoded) > MAX_USER_DATA_BYTES:
        raise AwsError(
            "InvalidUserData.Malformed", f"User data is limited to {MAX_USER_DATA_BYTES} bytes"
        )


def parse_template_reference(params: Params) -> tuple[str | None, str | None]:
    """Id and name of the requested template, exactly one of them."""
    identity, name = params.get("LaunchTemplateId"), params.get("LaunchTemplateName")
    if identity and name:
        raise AwsError(
            "InvalidParameterCombination",
            "Only one of launch template ID or launch template name can be specified.",
        )
    if not identity and not name:
        raise AwsError(
            "MissingParameter",
            "Either a launch template ID or a launch template name must be specified.",
        )
    return identity, name


def template_name_not_found(name: str | None) -> AwsError:
    return AwsError(
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def template_version_not_found(requested: str, identity: str) -> AwsError:
    return AwsError(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find the specified version {requested} for the launch template with ID "
        f"{identity}.",
    )


MAX_TEMPLATES: Final = 5000
MAX_TEMPLATE_VERSIONS: Final = 10_000
MAX_RESULTS: Final = 200

TEMPLATE_FILTERS: Final[FilterFields[LaunchTemplate]] = {
    "create-time": lambda template: (to_datetime(template.created).isoformat(),),
    "launch-template-name": lambda template: (template.name,),
}
TEMPLATE_VERSION_FILTERS: Final[FilterFields[LaunchTemplateVersion]] = {
    "create-time": lambda version: (to_datetime(version.created).isoformat(),),
    "image-id": lambda version: _data_field(version, "ImageId"),
    "instance-type": lambda version: _data_field(version, "InstanceType"),
    "ebs-optimized": lambda version: bool_value(bool(version.data.get("EbsOptimized"))),
}


class LaunchTemplatesState(msgspec.Struct, kw_only=True):
    templates: dict[str, LaunchTemplate] = {}
    names: dict[str, str] = {}
    """Template ids by name."""
    tokens: dict[str, IdempotentResponse] = {}


class LaunchTemplates:
    """Launch templates of CreateFleet and RunInstances."""

    name = "ec2"

    def __init__(self, context: AccountContext) -> None:
        self.state = LaunchTemplatesState()
        self._context = context

    def operations(self) -> Mapping[str, OperationHandler]:
        return {
            "CreateLaunchTemplate": self.create,
            "DescribeLaunchTemplates": self.describe,
            "DeleteLaunchTemplate": self.delete,
            "CreateLaunchTemplateVersion": self.create_version,
            "DescribeLaunchTemplateVersions": self.describe_versions,
            "ModifyLaunchTemplate": self.modify,
        }

    def template(self, params: Params) -> LaunchTemplate:
        """The template of `LaunchTemplateId` or `LaunchTemplateName`; exactly one must be set."""
        identity, name = parse_template_reference(params)
        if identity is None:
            identity = self.state.names.get(name or "")
            if identity is None:
                raise template_name_not_found(name)
        template = self.state.templates.get(identity)
        if template is None:
            raise _template_id_not_found(identity)
        return template

    def resolve(self, specification: Params) -> tuple[LaunchTemplate, LaunchTemplateVersion]:
        """The template and version of a launch; the default version unless it names one."""
        template = self.template(specification)
        return template, self._find_version(template, specification.get("Version") or "$Default")

    def create(self, params: Params) -> Response:
        check_taggable_types(params, LAUNCH_TEMPLATE.resource)
        name, data = (
            check_template_name(params.get("LaunchTemplateName")),
            check_template_data(params),
        )
        tokens = ClientTokens(self._context, self.state.tokens)
        identity = tokens.run_once(params, lambda: self._create(name, data, params).id)
        template = self.state.templates.get(identity)
        if template is None:
            raise _template_id_not_found(identity)
        return {"LaunchTemplate": self._view(template)}

    def describe(self, params: Params) -> Response:
        rows = sorted(self._requested_templates(params), key=_template_id)
        rows = apply_filters(rows, params.get("Filters"), TEMPLATE_FILTERS, lambda row: row.tags)
        page, token = paginate(
            rows, params, maximum=MAX_RESULTS, minimum=1, all_by_default=False, key=_template_id
        )
        return {"LaunchTemplates": [self._view(row) for row in page], **token}

    def delete(self, params: Params) -> Response:
        template = self.template(params)
        del self.state.templates[template.id]
        del self.state.names[template.name]
        return {"LaunchTemplate": self._view(template)}

    def create_version(self, params: Params) -> Response:
        template, data = self.template(params), check_template_data(params)
        if len(template.versions) >= MAX_TEMPLATE_VERSIONS:
            raise AwsError(
                "VersionLimitExceeded", "The template has reached its maximum number of versions."
            )
        source = params.get("SourceVersion")
        base = self._find_version(template, source).data if source else {}
        tokens = ClientTokens(self._context, self.state.tokens)
        number = tokens.run_once(
            params, lambda: self._add_version(template, {**base, **data}, params)
        )
        return {
            "LaunchTemplateVersion": _version_view(
                template, self._find_version(template, str(number)), self
            )
        }

    def describe_versions(self, params: Params) -> Response:
        template = self.template(params)
        requested = params.get("Versions")
        rows = (
            [self._find_version(template, each) for each in requested]
            if requested
            else template.versions
        )
        low, high = (
            parse_int(params, name, default=default, error_code="InvalidParameterValue")
            for name, default in (("MinVersion", 1), ("MaxVersion", template.latest))
        )
        rows = [row for row in rows if low <= row.number <= high]
        rows = sorted(rows, key=lambda row: -row.number)
        rows = apply_filters(rows, params.get("Filters"), TEMPLATE_VERSION_FILTERS)
        page, token = paginate(rows, params, maximum=MAX_RESULTS, minimum=1, all_by_default=False)
        return {
            "LaunchTemplateVersions": [_version_view(template, row, self) for row in page],
            **token,
        }

    def modify(self, params: Params) -> Response:
        template = self.template(params)
        requested = params.get("DefaultVersion")
        if requested:
            template.default = self._find_version(template, str(requested)).number
        return {"LaunchTemplate": self._view(template)}

    def _create(self, name: str, data: dict[str, Any], params: Params) -> LaunchTemplate:
        if name in self.state.names:
            raise AwsError(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "Launch template name already in use.",
            )
        if len(self.state.templates) >= MAX_TEMPLATES:
            raise AwsError(
                "MaxTemplateLimitExceeded", "Account has already reached max permitted templates"
            )
        now, description = self._context.now(), params.get("VersionDescription")
        template = LaunchTemplate(
            id=api_conventions.new_resource_id(self._context, LAUNCH_TEMPLATE.prefix),
            name=name,
            created=now,
            versions=[
                LaunchTemplateVersion(number=1, created=now, data=data, description=description)
            ],
            tags=parse_tag_specifications(params, LAUNCH_TEMPLATE.resource),
        )
        self.state.templates[template.id] = template
        self.state.names[name] = template.id
        return template

    def _add_version(self, template: LaunchTemplate, data: dict[str, Any], params: Params) -> int:
        version = LaunchTemplateVersion(
            number=template.latest + 1,
            created=self._context.now(),
            data=data,
            description=params.get("VersionDescription"),
        )
        template.versions.append(version)
        return version.number

    def _requested_templates(self, params: Params) -> Iterable[LaunchTemplate]:
        identities, names = params.get("LaunchTemplateIds"), params.get("LaunchTemplateNames")
        if not identities and not names:
            return self.state.templates.values()
        templates = {each: self.template({"LaunchTemplateId": each}) for each in identities or ()}
        for name in names or ():
            if name not in self.state.names:
                raise AwsError(
                    "InvalidLaunchTemplateName.NotFoundException",
                    "At least one of the launch templates specified in the request does not exist.",
                )
            template = self.template({"LaunchTemplateName": name})
            templates[template.id] = template
        return templates.values()

    def _find_version(self, template: LaunchTemplate, requested: str) -> LaunchTemplateVersion:
        aliases = {"$Latest": template.latest, "$Default": template.default}
        number = aliases.get(requested, requested)
        for version in template.versions:
            if str(version.number) == str(number):
                return version
        raise template_version_not_found(requested, template.id)

    def _view(self, template: LaunchTemplate) -> Response:
        return {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "CreateTime": to_datetime(template.created),
            "CreatedBy": self.creator,
            "DefaultVersionNumber": template.default,
            "LatestVersionNumber": template.latest,
            "Tags": to_tag_list(template.tags),
        }

    @property
    def creator(self) -> str:
        return f"arn:aws:iam::{self._context.account}:root"


def _version_view(
    template: LaunchTemplate, version: LaunchTemplateVersion, templates: LaunchTemplates
) -> Response:
    view: Response = {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": version.number,
        "CreateTime": to_datetime(version.created),
        "CreatedBy": templates.creator,
        "DefaultVersion": version.number == template.default,
        "LaunchTemplateData": deepcopy(version.data),
    }
    if version.description is not None:
        view["VersionDescription"] = version.description
    return view


def _template_id(template: LaunchTemplate) -> str:
    return template.id


def _data_field(version: LaunchTemplateVersion, field: str) -> tuple[str, ...]:
    value = version.data.get(field)
    return (str(value),) if value else ()


def _template_id_not_found(identity: str) -> AwsError:
    if not identity.startswith("lt-"):
        message = f"The specified launch template ID {identity} is not valid."
        return AwsError("InvalidLaunchTemplateId.Malformed", message)
    message = f"The specified launch template, with template ID {identity}, does not exist."
    return AwsError(LAUNCH_TEMPLATE.not_found_code, message)
