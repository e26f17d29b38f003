"""Density: the table of pods per instance type that scripts carry, as the machine reads it.

Lines `pattern=pods` between two markers; the first pattern that fits the type counts, `*` stands
for any letters. After another `=` may come what the kubelet keeps for itself, as its flag takes it.
The scripts look the type up and keep what they find in variables of theirs.
"""

from fnmatch import fnmatchcase
from typing import Final, NamedTuple

BEGIN: Final = "# wain:max-pods begin"
END: Final = "# wain:max-pods end"


class Found(NamedTuple):
    """The rest of a line, as text."""

    pods: str = ""
    reserved: str = ""


def lookup(script: str, instance_type: str) -> Found | None:
    """What the script finds for the type: None without a table, nothing where no line fits."""
    _, begin, rest = script.partition(BEGIN)
    if not begin:
        return None
    for line in rest.partition(END)[0].splitlines():
        pattern, equals, said = line.strip().partition("=")
        if equals and fnmatchcase(instance_type, pattern):
            pods, _, reserved = said.partition("=")
            return Found(pods, reserved)
    return Found()
