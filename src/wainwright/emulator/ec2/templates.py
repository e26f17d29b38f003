"""Launch templates: by name and by id, in versions, with the codes that clients react to."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

import msgspec

from wainwright.emulator import ids
from wainwright.emulator.ec2.lookup import TEMPLATE
from wainwright.emulator.ec2.state import LaunchTemplate, TemplateVersion
from wainwright.emulator.ec2.template_checks import (
    absent_name,
    check_data,
    check_name,
    no_such_version,
    one_of_both,
)
from wainwright.emulator.ec2.tokens import Kept, Tokens
from wainwright.emulator.filters import Fields, matching, yes
from wainwright.emulator.paging import page
from wainwright.emulator.tags import from_specifications, only_for, to_list
from wainwright.emulator.times import moment
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

MOST_TEMPLATES: Final = 5000
MOST_VERSIONS: Final = 10_000
MOST: Final = 200

FIELDS: Final[Fields[LaunchTemplate]] = {
    "create-time": lambda template: (moment(template.created).isoformat(),),
    "launch-template-name": lambda template: (template.name,),
}
VERSION_FIELDS: Final[Fields[TemplateVersion]] = {
    "create-time": lambda version: (moment(version.created).isoformat(),),
    "image-id": lambda version: _said(version, "ImageId"),
    "instance-type": lambda version: _said(version, "InstanceType"),
    "ebs-optimized": lambda version: yes(bool(version.data.get("EbsOptimized"))),
}


class TemplatesState(msgspec.Struct, kw_only=True):
    templates: dict[str, LaunchTemplate] = {}
    names: dict[str, str] = {}
    """To ids."""
    tokens: dict[str, Kept] = {}


class Templates:
    """What fleets and runs launch from."""

    name = "ec2"

    def __init__(self, world: World) -> None:
        self.state = TemplatesState()
        self._world = world

    def operations(self) -> Mapping[str, Handler]:
        return {
            "CreateLaunchTemplate": self.create,
            "DescribeLaunchTemplates": self.describe,
            "DeleteLaunchTemplate": self.delete,
            "CreateLaunchTemplateVersion": self.create_version,
            "DescribeLaunchTemplateVersions": self.describe_versions,
            "ModifyLaunchTemplate": self.modify,
        }

    def template(self, params: Params) -> LaunchTemplate:
        """That of `LaunchTemplateId` or `LaunchTemplateName`, exactly one of which is given."""
        identity, name = one_of_both(params)
        if identity is None:
            identity = self.state.names.get(name or "")
            if identity is None:
                raise absent_name(name)
        found = self.state.templates.get(identity)
        if found is None:
            raise _absent_id(identity)
        return found

    def resolve(self, specification: Params) -> tuple[LaunchTemplate, TemplateVersion]:
        """What a launch means by it: a template, and its default version unless it says which."""
        template = self.template(specification)
        return template, self._version(template, specification.get("Version") or "$Default")

    def create(self, params: Params) -> Answer:
        only_for(params, TEMPLATE.resource)
        name, data = check_name(params.get("LaunchTemplateName")), check_data(params)
        tokens = Tokens(self._world, self.state.tokens)
        identity = tokens.once(params, lambda: self._add(name, data, params).id)
        found = self.state.templates.get(identity)
        if found is None:
            raise _absent_id(identity)
        return {"LaunchTemplate": self._view(found)}

    def describe(self, params: Params) -> Answer:
        rows = sorted(self._named(params), key=_id)
        rows = matching(rows, params.get("Filters"), FIELDS, lambda row: row.tags)
        found, token = page(rows, params, most=MOST, least=1, whole=False, key=_id)
        return {"LaunchTemplates": [self._view(row) for row in found], **token}

    def delete(self, params: Params) -> Answer:
        template = self.template(params)
        del self.state.templates[template.id]
        del self.state.names[template.name]
        return {"LaunchTemplate": self._view(template)}

    def create_version(self, params: Params) -> Answer:
        template, data = self.template(params), check_data(params)
        if len(template.versions) >= MOST_VERSIONS:
            raise AwsError(
                "VersionLimitExceeded", "The template has reached its maximum number of versions."
            )
        source = params.get("SourceVersion")
        base = self._version(template, source).data if source else {}
        tokens = Tokens(self._world, self.state.tokens)
        number = tokens.once(params, lambda: self._extend(template, {**base, **data}, params))
        return {
            "LaunchTemplateVersion": _version(template, self._version(template, str(number)), self)
        }

    def describe_versions(self, params: Params) -> Answer:
        template = self.template(params)
        asked = params.get("Versions")
        rows = [self._version(template, each) for each in asked] if asked else template.versions
        low, high = int(params.get("MinVersion") or 1), params.get("MaxVersion")
        rows = [row for row in rows if low <= row.number <= int(high or row.number)]
        rows = sorted(rows, key=lambda row: -row.number)
        rows = matching(rows, params.get("Filters"), VERSION_FIELDS)
        found, token = page(rows, params, most=MOST, least=1, whole=False)
        return {
            "LaunchTemplateVersions": [_version(template, row, self) for row in found],
            **token,
        }

    def modify(self, params: Params) -> Answer:
        template = self.template(params)
        asked = params.get("DefaultVersion")
        if asked:
            template.default = self._version(template, str(asked)).number
        return {"LaunchTemplate": self._view(template)}

    def _add(self, name: str, data: dict[str, Any], params: Params) -> LaunchTemplate:
        if name in self.state.names:
            raise AwsError(
                "InvalidLaunchTemplateName.AlreadyExistsException",
                "Launch template name already in use.",
            )
        if len(self.state.templates) >= MOST_TEMPLATES:
            raise AwsError(
                "MaxTemplateLimitExceeded", "Account has already reached max permitted templates"
            )
        now, said = self._world.now(), params.get("VersionDescription")
        template = LaunchTemplate(
            id=ids.new(self._world, TEMPLATE.prefix),
            name=name,
            created=now,
            versions=[TemplateVersion(number=1, created=now, data=data, description=said)],
            tags=from_specifications(params, TEMPLATE.resource),
        )
        self.state.templates[template.id] = template
        self.state.names[name] = template.id
        return template

    def _extend(self, template: LaunchTemplate, data: dict[str, Any], params: Params) -> int:
        version = TemplateVersion(
            number=template.latest + 1,
            created=self._world.now(),
            data=data,
            description=params.get("VersionDescription"),
        )
        template.versions.append(version)
        return version.number

    def _named(self, params: Params) -> Iterable[LaunchTemplate]:
        identities, names = params.get("LaunchTemplateIds"), params.get("LaunchTemplateNames")
        if not identities and not names:
            return self.state.templates.values()
        found = {each: self.template({"LaunchTemplateId": each}) for each in identities or ()}
        for name in names or ():
            if name not in self.state.names:
                raise AwsError(
                    "InvalidLaunchTemplateName.NotFoundException",
                    "At least one of the launch templates specified in the request does not exist.",
                )
            template = self.template({"LaunchTemplateName": name})
            found[template.id] = template
        return found.values()

    def _version(self, template: LaunchTemplate, asked: str) -> TemplateVersion:
        known = {"$Latest": template.latest, "$Default": template.default}
        number = known.get(asked, asked)
        for version in template.versions:
            if str(version.number) == str(number):
                return version
        raise no_such_version(asked, template.id)

    def _view(self, template: LaunchTemplate) -> Answer:
        return {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "CreateTime": moment(template.created),
            "CreatedBy": self.creator,
            "DefaultVersionNumber": template.default,
            "LatestVersionNumber": template.latest,
            "Tags": to_list(template.tags),
        }

    @property
    def creator(self) -> str:
        return f"arn:aws:iam::{self._world.account}:root"


def _version(template: LaunchTemplate, version: TemplateVersion, templates: Templates) -> Answer:
    found: Answer = {
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionNumber": version.number,
        "CreateTime": moment(version.created),
        "CreatedBy": templates.creator,
        "DefaultVersion": version.number == template.default,
        "LaunchTemplateData": deepcopy(version.data),
    }
    if version.description is not None:
        found["VersionDescription"] = version.description
    return found


def _id(template: LaunchTemplate) -> str:
    return template.id


def _said(version: TemplateVersion, field: str) -> tuple[str, ...]:
    found = version.data.get(field)
    return (str(found),) if found else ()


def _absent_id(identity: str) -> AwsError:
    if not identity.startswith("lt-"):
        message = f"The specified launch template ID {identity} is not valid."
        return AwsError("InvalidLaunchTemplateId.Malformed", message)
    message = f"The specified launch template, with template ID {identity}, does not exist."
    return AwsError(TEMPLATE.missing, message)
