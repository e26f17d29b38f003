"""Density: how many pods the kubelet takes, read at boot from a table of instance types.

The machine that a fleet buys is known only when it boots, so that its user data carries the answer
for every type: launch templates need not multiply. In the scripts (AL2, AL2023: shell; Windows:
PowerShell) the table lies between two markers, and whoever boots a machine reads it like this:

    # wain:max-pods begin
    c5.large=20=memory=475Mi
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

What stands behind a second `=` the kubelet must keep for itself, in the words of its own flag. An
image reckons that by a list of types that it brings along, and would be wrong where an InstanceType
object says how many pods there are.

Where every type takes the same number there is no table: the number stands in the settings.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, NamedTuple, TypeAlias

import msgspec

BEGIN: Final = "# wain:max-pods begin"
END: Final = "# wain:max-pods end"
ANY: Final = "*"

Said: TypeAlias = tuple[int, str]
"""Pods, and what is kept."""


class Row(NamedTuple):
    pattern: str
    pods: int
    reserved: str = ""
    """What the kubelet is told to keep; mostly nothing."""

    def __str__(self) -> str:
        said = f"{self.pattern}={self.pods}"
        return f"{said}={self.reserved}" if self.reserved else said


class Table(msgspec.Struct, frozen=True):
    """Patterns of instance types with the pods each takes; the first that matches counts."""

    rows: tuple[Row, ...]

    @property
    def otherwise(self) -> int:
        """For a machine that cannot find out its type."""
        return self.rows[-1].pods

    @property
    def uniform(self) -> bool:
        """Whether every type takes the same, so that nothing needs to be looked up."""
        return len(self.rows) == 1

    @property
    def reserves(self) -> bool:
        """Whether some type is told what to keep."""
        return any(row.reserved for row in self.rows)

    def of(self, instance_type: str) -> Row:
        return next(row for row in self.rows if fnmatchcase(instance_type, row.pattern))

    @property
    def text(self) -> str:
        """The lines between the markers, and the markers."""
        return "\n".join([BEGIN, *map(str, self.rows), END])


def table(
    densities: Mapping[str, int],
    max_pods: int | None = None,
    reserved: Mapping[str, str] | None = None,
) -> Table | None:
    """The table for these types; None where nobody has said anything about pods.

    Unknown types take what the class says, else the fewest that any type takes: pods that wait
    for a place are better than pods without an address. They keep what their image reckons.
    """
    if max_pods is None and not densities:
        return None
    told = reserved or {}
    sizes = _by_size({name: (pods, told.get(name, "")) for name, pods in densities.items()})
    otherwise = (min(densities.values()) if max_pods is None else max_pods, "")
    exact: list[Row] = []
    common: list[Row] = []
    for size, kin in sizes.items():
        usual = _usual(kin, otherwise) if size else otherwise
        if usual != otherwise:
            common.append(Row(f"{ANY}.{size}", *usual))
        exact += [Row(name, *said) for name, said in kin.items() if said != usual]
    return Table((*sorted(exact), *sorted(common), Row(ANY, *otherwise)))


def _by_size(said: Mapping[str, Said]) -> dict[str, dict[str, Said]]:
    sizes: dict[str, dict[str, Said]] = defaultdict(dict)
    for name, each in said.items():
        sizes[name.rpartition(".")[2] if "." in name else ""][name] = each
    return sizes


def _usual(kin: Mapping[str, Said], otherwise: Said) -> Said:
    """What the size is written with: what most of it take, unless that saves no line."""
    counted = Counter(kin.values())
    usual, times = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return usual if times > 1 else otherwise
