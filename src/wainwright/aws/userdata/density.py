"""Density: how many pods the kubelet takes, read at boot from a table of instance types.

The machine that a fleet buys is known only when it boots, so that its user data carries the answer
for every type: launch templates need not multiply. In the scripts (AL2, AL2023: shell; Windows:
PowerShell) the table lies between two markers, and whoever boots a machine reads it like this:

    # wain:max-pods begin
    t3.large=35
    *.large=29
    *.xlarge=58
    *=110
    # wain:max-pods end

One line per pattern, `pattern=pods`. **The first line whose pattern matches the instance type
counts.** A pattern is the name of a type, or holds a `*` for any letters, as in the shell (and in
`fnmatch`): `*.large` is what most types of that size take, the types that differ stand before it,
and the last line, `*`, is for a machine that cannot find out what it is. By sizes the whole
catalogue of an architecture takes less than 7 KB, and so a template does not depend on which of
the types a launch happens to ask for.

Where every type takes the same number there is no table: the number stands in the settings.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

BEGIN: Final = "# wain:max-pods begin"
END: Final = "# wain:max-pods end"
ANY: Final = "*"


class Table(msgspec.Struct, frozen=True):
    """Patterns of instance types with the pods each takes; the first that matches counts."""

    rows: tuple[tuple[str, int], ...]

    @property
    def otherwise(self) -> int:
        """For a machine that cannot find out its type."""
        return self.rows[-1][1]

    @property
    def uniform(self) -> bool:
        """Whether every type takes the same, so that nothing needs to be looked up."""
        return len(self.rows) == 1

    def of(self, instance_type: str) -> int:
        return next(pods for pattern, pods in self.rows if fnmatchcase(instance_type, pattern))

    @property
    def text(self) -> str:
        """The lines between the markers, and the markers."""
        return "\n".join([BEGIN, *(f"{pattern}={pods}" for pattern, pods in self.rows), END])


def table(densities: Mapping[str, int], max_pods: int | None = None) -> Table | None:
    """The table for these types; None where nobody has said anything about pods.

    Unknown types take what the class says, else the fewest that any type takes: pods that wait
    for a place are better than pods without an address.
    """
    if max_pods is None and not densities:
        return None
    otherwise = min(densities.values()) if max_pods is None else max_pods
    exact: list[tuple[str, int]] = []
    common: list[tuple[str, int]] = []
    for size, kin in _by_size(densities).items():
        usual = _usual(kin, otherwise) if size else otherwise
        if usual != otherwise:
            common.append((f"{ANY}.{size}", usual))
        exact += [(name, pods) for name, pods in kin.items() if pods != usual]
    return Table((*sorted(exact), *sorted(common), (ANY, otherwise)))


def _by_size(densities: Mapping[str, int]) -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = defaultdict(dict)
    for name, pods in densities.items():
        sizes[name.rpartition(".")[2] if "." in name else ""][name] = pods
    return sizes


def _usual(kin: Mapping[str, int], otherwise: int) -> int:
    """What the size is written with: the most frequent number, unless it saves no line."""
    counted = Counter(kin.values())
    usual, times = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return usual if times > 1 else otherwise
