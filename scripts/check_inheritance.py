"""Refuses implementation inheritance deeper than one level: a class of ours may derive from another
one, but not from a class that does so itself. Data and contracts are exempt: msgspec structs,
exceptions, enums, protocols.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

SOURCES: Final = Path(__file__).parent.parent / "src"
EXEMPT: Final = {"msgspec.Struct", "Exception", "typing.Protocol", "enum.Enum", "enum.IntEnum"}


class ClassBases(NamedTuple):
    place: str
    bases: tuple[str, ...]


def classes_of(path: Path) -> Iterator[tuple[str, ClassBases]]:
    """Each class of a module by its full name, with the full names of its bases."""
    module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.ClassDef):
            names[node.name] = f"{module}.{node.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = (ast.unparse(base).partition("[")[0] for base in node.bases)
            known = tuple(names.get(base, base) for base in bases)
            yield names[node.name], ClassBases(f"{path}:{node.lineno}", known)


def lineages(name: str, classes: dict[str, ClassBases]) -> Iterator[tuple[str, ...]]:
    """The class with its bases, up to each class that is not ours."""
    if name not in classes or not classes[name].bases:
        yield (name,)
        return
    for base in classes[name].bases:
        yield from ((name, *rest) for rest in lineages(base, classes))


def main() -> int:
    classes = dict(each for path in sorted(SOURCES.rglob("*.py")) for each in classes_of(path))
    deep = 0
    for name, (place, _) in classes.items():
        for lineage in lineages(name, classes):
            if sum(each in classes for each in lineage) > 2 and lineage[-1] not in EXEMPT:
                print(f"{place}: inherits over more than one level: {' < '.join(lineage)}")
                deep += 1
    return 1 if deep else 0


if __name__ == "__main__":
    sys.exit(main())
