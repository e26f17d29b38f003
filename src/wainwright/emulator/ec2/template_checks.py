"""What EC2 refuses in launch templates: names, user data, and both or neither of name and id."""

import binascii
import re
from base64 import b64decode
from copy import deepcopy
from typing import Any, Final

from wainwright.emulator.world import Params
from wainwright.errors import AwsError

NAME: Final = re.compile(r"[a-zA-Z0-9().\-/_]{3,128}")
MOST_USER_DATA: Final = 16384


def check_name(name: Any) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise AwsError(
            "InvalidLaunchTemplateName.MalformedException",
            "A launch template name must be between 3 and 128 characters, and may contain "
            "letters, numbers, and the following characters: - ( ) . / _.",
        )
    return name


def check_data(params: Params) -> dict[str, Any]:
    """LaunchTemplateData, a copy of it; most of what is wrong with it shows at the launch only."""
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
    if len(decoded) > MOST_USER_DATA:
        raise AwsError(
            "InvalidUserData.Malformed", f"User data is limited to {MOST_USER_DATA} bytes"
        )


def one_of_both(params: Params) -> tuple[str | None, str | None]:
    """Id and name of the template that is meant, exactly one of them."""
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


def absent_name(name: str | None) -> AwsError:
    return AwsError(
        "InvalidLaunchTemplateName.NotFoundException",
        f"The specified launch template, with template name {name}, does not exist.",
    )


def no_such_version(asked: str, identity: str) -> AwsError:
    return AwsError(
        "InvalidLaunchTemplateId.VersionNotFound",
        f"Could not find the specified version {asked} for the launch template with ID {identity}.",
    )
