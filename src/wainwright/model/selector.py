"""Label selectors: which pods a constraint speaks of."""

from collections.abc import Mapping
from typing import Final

import msgspec


class Clause(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one label must be: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str = "In"
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels

    def __str__(self) -> str:
        listed = ",".join(sorted(self.values))
        match self.operator:
            case "In" if len(self.values) == 1:
                return f"{self.key}={listed}"
            case "In":
                return f"{self.key} in ({listed})"
            case "NotIn":
                return f"{self.key} notin ({listed})"
            case "Exists":
                return self.key
            case _:
                return f"!{self.key}"


class Selector(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """All clauses together; without any it selects everybody."""

    clauses: tuple[Clause, ...] = ()
    """In the order of keys."""
    nobody: bool = False
    """A constraint that was written without a selector speaks of nobody."""

    def selects(self, labels: Mapping[str, str]) -> bool:
        return not self.nobody and all(clause.holds(labels) for clause in self.clauses)

    def __str__(self) -> str:
        """As kubectl writes it: app=web,tier in (a,b),!canary."""
        if self.nobody:
            return "nobody"
        return ",".join(map(str, self.clauses)) or "any pod"

    @property
    def anchor(self) -> tuple[str, str] | None:
        """A label and its value that whoever is selected has; None where there is no such pair."""
        for clause in self.clauses:
            if clause.operator == "In" and len(clause.values) == 1:
                return clause.key, next(iter(clause.values))
        return None


EVERYBODY: Final = Selector()
NOBODY: Final = Selector(nobody=True)


def selector(labels: Mapping[str, str]) -> Selector:
    """Those who have all of these labels."""
    return Selector(
        clauses=tuple(Clause(key=k, values=frozenset({labels[k]})) for k in sorted(labels))
    )
