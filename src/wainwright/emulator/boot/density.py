"""Density: the table of pods per instance type that scripts carry, as the machine reads it.

Lines `pattern=pods` between two markers; the first pattern that fits the type counts, `*` stands
for any letters. The scripts look the type up and keep the number in a variable of theirs.
"""

from fnmatch import fnmatchcase
from typing import Final

BEGIN: Final = "# wain:max-pods begin"
END: Final = "# wain:max-pods end"


def lookup(script: str, instance_type: str) -> str | None:
    """What the script finds for the type: None without a table, nothing where no line fits."""
    _, begin, rest = script.partition(BEGIN)
    if not begin:
        return None
    for line in rest.partition(END)[0].splitlines():
        pattern, equals, pods = line.strip().partition("=")
        if equals and fnmatchcase(instance_type, pattern):
            return pods
    return ""
