"""User data for a family of images, checked against what EC2 takes."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from wainwright.aws.userdata.al2 import al2
from wainwright.aws.userdata.al2023 import al2023
from wainwright.aws.userdata.bootstrap import Bootstrap
from wainwright.aws.userdata.bottlerocket import bottlerocket
from wainwright.aws.userdata.windows import windows
from wainwright.catalogue.ami import AmiFamily
from wainwright.errors import BadInput

LIMIT: Final = 16_384
"""Bytes, before they are encoded in base64."""
WARNED_FROM: Final = LIMIT * 9 // 10


class TooLarge(BadInput):
    """User data that EC2 would refuse."""


class UserData(msgspec.Struct, frozen=True):
    text: str

    @property
    def size(self) -> int:
        """In bytes, as EC2 counts them."""
        return len(self.text.encode())

    @property
    def encoded(self) -> str:
        """As a launch template holds it."""
        return b64encode(self.text.encode()).decode()

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.size < WARNED_FROM:
            return ()
        return (f"user data takes {self.size:,} of the {LIMIT:,} bytes that EC2 allows",)


def _custom(bootstrap: Bootstrap) -> str:
    """The user's text as it is: whoever brings the image knows how it boots."""
    return bootstrap.text


WRITERS: Final[Mapping[AmiFamily, Callable[[Bootstrap], str]]] = {
    AmiFamily.AL2: al2,
    AmiFamily.AL2023: al2023,
    AmiFamily.BOTTLEROCKET: bottlerocket,
    AmiFamily.WINDOWS2019: windows,
    AmiFamily.WINDOWS2022: windows,
    AmiFamily.WINDOWS2025: windows,
    AmiFamily.CUSTOM: _custom,
}
LOOKS_UP_DENSITY: Final = frozenset(WRITERS) - {AmiFamily.BOTTLEROCKET, AmiFamily.CUSTOM}
"""Families whose machines find the pods they take in a table; the others are told one number."""


def user_data(family: AmiFamily, bootstrap: Bootstrap) -> UserData:
    """What a machine of the family boots with; TooLarge where EC2 would not take it."""
    made = UserData(WRITERS[family](bootstrap))
    if made.size > LIMIT:
        raise TooLarge(
            f"user data would take {made.size:,} bytes, and EC2 allows {LIMIT:,}; "
            f"{len(bootstrap.text.encode()):,} of them are the class's own userData",
            "shorten userData in the EC2NodeClass, for example by fetching scripts from S3",
        )
    return made
