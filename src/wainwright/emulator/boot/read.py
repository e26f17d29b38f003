"""Reading: which language user data is in, and what it says."""

from collections.abc import Sequence

from wainwright.emulator.boot import bottlerocket, nodeadm, powershell, shell
from wainwright.emulator.boot.facts import Facts, Family
from wainwright.emulator.boot.parts import NODE_CONFIG, Part, parts
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings


def read(text: str, facts: Facts) -> Settings:
    """By the image where that is a public one, which reads its own language only."""
    if not text.strip():
        raise Unbootable(Reason.NOTHING, "there is no user data")
    found = languages(text)
    if not found:
        raise Unbootable(Reason.NO_BOOTSTRAP, "nothing in the user data makes a node join")
    family = facts.family or found[0]
    if family not in found:
        raise Unbootable(
            Reason.WRONG_IMAGE,
            f"the image {facts.image_name} is started by {family}, the user data is for {found[0]}",
        )
    return _read(family, text, facts)


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


def _read(family: Family, text: str, facts: Facts) -> Settings:
    match family:
        case Family.WINDOWS:
            return powershell.read(text, facts)
        case Family.BOTTLEROCKET:
            return bottlerocket.read(text)
        case Family.NODEADM:
            return nodeadm.read(parts(text), facts)
        case Family.SHELL:
            return shell.read(parts(text), facts)
