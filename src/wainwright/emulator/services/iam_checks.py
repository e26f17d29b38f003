"""What IAM refuses in names, paths and tags."""

import re
from collections.abc import Mapping
from typing import Any, Final

from wainwright.emulator.services.requests import text
from wainwright.errors import AwsError

INVALID: Final = "ValidationError"
NAME: Final = re.compile(r"[\w+=,.@-]+", re.ASCII)
PATH: Final = re.compile(r"/|/[!-~]+/")
MOST_TAGS: Final = 50


def no_such(what: str, name: str) -> AwsError:
    """Clients tell a missing role from a missing profile by the first words."""
    return AwsError("NoSuchEntity", f"{what} {name} cannot be found.", 404)


def no_such_role(name: str) -> AwsError:
    return no_such("The role with name", name)


def no_such_profile(name: str) -> AwsError:
    return no_such("Instance Profile", name)


def exists(what: str, name: str) -> AwsError:
    return AwsError("EntityAlreadyExists", f"{what} {name} already exists.", 409)


def name(params: Mapping[str, Any], field: str, longest: int) -> str:
    given = text(params, field, refused=INVALID)
    if len(given) > longest or not NAME.fullmatch(given):
        raise AwsError(
            INVALID,
            f"1 validation error detected: Value '{given}' at '{field}' failed to satisfy "
            f"constraint: up to {longest} letters, digits and _+=,.@-",
        )
    return given


def role_name(params: Mapping[str, Any]) -> str:
    return name(params, "RoleName", 64)


def profile_name(params: Mapping[str, Any]) -> str:
    return name(params, "InstanceProfileName", 128)


def path(params: Mapping[str, Any]) -> str:
    given = params.get("Path") or "/"
    if len(given) > 512 or not PATH.fullmatch(given):
        raise AwsError(
            INVALID,
            f"The specified value for path is invalid: '{given}'. It must begin and end with /.",
        )
    return str(given)


def tags(given: Any, already: Mapping[str, str]) -> dict[str, str]:
    """Those that are there with those that are given, which win."""
    joined = dict(already)
    for pair in given or ():
        key = text(pair, "Key", refused=INVALID)
        if len(key) > 128 or len(pair.get("Value") or "") > 256 or key.lower().startswith("aws:"):
            raise AwsError("InvalidInput", f"The tag {key!r} is too long or of a reserved kind.")
        joined[key] = pair.get("Value") or ""
    if len(joined) > MOST_TAGS:
        raise AwsError(
            "LimitExceeded", f"The number of tags has reached the maximum limit: {MOST_TAGS}.", 409
        )
    return joined
