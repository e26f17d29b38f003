"""Reading: which language user data is in, and what it says."""

from collections.abc import Sequence
from functools import lru_cache

from wainwright.emulator.boot import bottlerocket, nodeadm, powershell, shell
from wainwright.emulator.boot.facts import Facts, Family
from wainwright.emulator.boot.parts import NODE_CONFIG, Part, parts
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings


def read(text: str, facts: Facts) -> Settings:
    """By the image where that is a public one, which reads its own language only."""
    if not text.strip():
        raise Unbootable(Reason.NOTHING, "there is no user data")
    return _read(text, facts.family, facts.machine.name)


@lru_cache(maxsize=1024)
def _read(text: str, image: Family | None, instance_type: str) -> Settings:
    """Remembered, as machines of one launch have the same user data; not to be changed."""
    family = _language(text, image)
    match family:
        case Family.WINDOWS:
            return powershell.read(text, instance_type)
        case Family.BOTTLEROCKET:
            return bottlerocket.read(text)
        case Family.NODEADM:
            return nodeadm.read(parts(text), instance_type)
        case Family.SHELL:
            return shell.read(parts(text), instance_type)


def _language(text: str, image: Family | None) -> Family:
    found = languages(text)
    if image is not None and found and image not in found:
        raise Unbootable(
            Reason.WRONG_IMAGE,
            f"the image is started by {image}, and the user data is for {found[0]}",
        )
    if found:
        return found[0] if image is None else image
    if image is Family.BOTTLEROCKET:
        return image  # which says better what is wrong with its TOML
    raise Unbootable(Reason.NO_BOOTSTRAP, "nothing in the user data makes a node join")


def languages(text: str) -> list[Family]:
    """Those that the text makes sense in; more than one only where it has several parts."""
    if powershell.is_powershell(text):
        return [Family.WINDOWS]
    if bottlerocket.is_toml(text):
        return [Family.BOTTLEROCKET]
    return _of_parts(parts(text))


def _of_parts(found: Sequence[Part]) -> list[Family]:
    families: list[Family] = []
    if any(part.type == NODE_CONFIG for part in found):
        families.append(Family.NODEADM)
    if any(shell.calls(part) for part in found):
        families.append(Family.SHELL)
    return families
