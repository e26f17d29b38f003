"""Refuses private vocabulary: words that a reader who knows Kubernetes and EC2 cannot guess.

`check_words.py` looks at every identifier of the sources, tests, benchmarks, scripts and the report
page, and at the prose of comments, docstrings, messages and documents. It prints file, line, the
word and what to write instead, and exits with 1 if there is any.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
SOURCES: Final = ("src", "tests", "benchmarks", "scripts")
PAGE: Final = ("web/src/**/*.js", "web/src/**/*.css", "web/src/**/*.html")
DOCUMENTS: Final = ("*.md", "docs/**/*.md", "examples/**/*.md")

METAPHORS: Final = {
    "adrift": "undecided",
    "ailing": "unhealthy",
    "bargain": "launch alternatives, launch result",
    "barren": "full",
    "dice": "random numbers",
    "furnish": "create default resources",
    "kin": "default selector",
    "ladder": "NodePools by weight",
    "mender": "local search",
    "mending": "local search",
    "mishap": "interruption",
    "mould": "template",
    "nursery": "node boot",
    "patience": "reservation wait",
    "rung": "weight tier",
    "shelf": "pool reservations",
    "shelves": "pool reservations",
    "shun": "mark unavailable, anti-affinity",
    "shunned": "inverse anti-affinity",
    "shunning": "anti-affinity",
    "stretch": "queue segment, period",
    "thrift": "cost-effective",
    "thrifty": "cost-effective",
    "wares": "offerings",
    "wish": "pod requirements",
    "wishes": "alternatives",
    "yard": "packing problem",
}
"""Denied everywhere."""
NAMES: Final = METAPHORS | {
    "ask": "scheduling requirements, evaluate",
    "asks": "scheduling requirements",
    "bonds": "constraints",
    "dud": "node that never joins",
    "duds": "nodes that never join",
    "goods": "offerings",
    "ledger": "launch log",
    "lot": "item type, batch, layered offering",
    "lots": "item types, batches, layered offerings",
    "machine": "node, instance or instance type",
    "machines": "nodes, instances or instance types",
    "slack": "capacity index",
    "slot": "reserved instance",
    "told": "what it is",
    "ware": "offering",
}
"""Denied in identifiers; in prose they may mean something plain."""
PAGE_NAMES: Final = {
    word: instead for word, instead in NAMES.items() if word not in {*METAPHORS, "slot"}
}
"""Of the page's scripts; a slot of its picture is a square that nodes have one after another."""
PHRASES: Final = {
    "has no place": "is unschedulable",
    "have no place": "are unschedulable",
    "without a place": "unschedulable",
    "no place for": "unschedulable",
    "finds a place": "is scheduled",
    "loses its place": "becomes unschedulable",
    "gains a place": "becomes schedulable",
    "must be mended": "3 errors; nothing planned",
    "field's leader": "Karpenter",
    "sold out": "insufficient capacity",
    "bought as": "launched as",
    "could be bought": "could be launched",
    "can be bought": "can be launched",
    "planned anew": "planned again",
    "free slot": "free instance",
    "had it given up": "without the preference for",
    "is asked first": "comes first",
    "the pool asks for": "the NodePool requires",
    "again and again": "repeatedly",
    " anew": "again",
    "at the moment that": "at the time when",
    "can be had": "is available",
    "cannot be had": "is not available",
    "cheaper holds": "cheaper node can run",
    "comes to rest": "becomes stable",
    "come to rest": "become stable",
    "dealt with": "handled",
    " dearer": "more expensive",
    " dearest": "most expensive",
    "goes on being": "stays",
    "growing pauses": "backoff",
    "is told so": "is reported",
    "kubectl speaks to": "of the current kubeconfig context",
    "let the pod tolerate": "add a toleration",
    "nobody's way": "is only informative",
    "nodes can go": "nodes can be removed",
    "once more in": "retrying in",
    "superfluous": "unneeded",
    "stand for their own": "count as their own",
    "stands for its own": "counts as its own",
    "stands in": "is used instead",
    "taken to rest": "simulated until no command is left",
    "the other way round": "vice versa, reversed",
    "what came of it": "the result",
}
"""Denied in messages and documents, whatever they are called in a comment."""
HISTORY: Final = frozenset({"CHANGELOG.md"})
"""Documents that quote what was printed once."""
ALLOWED: Final = frozenset({"RuleBasedStateMachine", "run_state_machine_as_test", "slotHours"})
"""Names of libraries, and of the JSON that `wain simulate` prints."""
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
PROSE: Final = (tokenize.COMMENT, tokenize.STRING)
SCRIPT_PROSE: Final = re.compile(r"//.*|/\*.*|^\s*\*.*|`[^`]*`|\"[^\"]*\"|'[^']*'")
"""Comments and strings of a line of JavaScript, roughly: what is left are identifiers."""
CSS_VALUES: Final = re.compile(r":\s*stretch\b")


class Finding(NamedTuple):
    path: Path
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        place = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{place}: {self.word!r} is no word of the field; write: {self.instead}"


def main() -> int:
    found = [*_in_sources(), *_in_page(), *_in_documents()]
    for finding in found:
        print(finding)
    return 1 if found else 0


def _in_sources() -> Iterator[Finding]:
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path != Path(__file__):
                yield from _in_python(path)


def _in_python(path: Path) -> Iterator[Finding]:
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and _is_ours(token.string):
            yield from _denied(path, token.start[0], token.string, NAMES)
        elif token.type in PROSE:
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield from _denied(path, number, line, METAPHORS)
                if _is_message(token, path):
                    yield from _denied_phrases(path, number, line)


def _is_message(token: tokenize.TokenInfo, path: Path) -> bool:
    """Strings of the sources; a docstring is read by those who change the code."""
    is_docstring = token.string.lstrip("rbf").startswith('"""')
    return token.type == tokenize.STRING and not is_docstring and ROOT / "src" in path.parents


def _is_ours(name: str) -> bool:
    return not name.startswith("__") and name not in ALLOWED


def _in_page() -> Iterator[Finding]:
    for path in sorted(path for pattern in PAGE for path in ROOT.glob(pattern)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            text = CSS_VALUES.sub(":", line)
            yield from _denied(path, number, text, METAPHORS)
            yield from _denied_phrases(path, number, text)
            if path.suffix == ".js":
                yield from _denied(path, number, SCRIPT_PROSE.sub(" ", text), PAGE_NAMES)


def _in_documents() -> Iterator[Finding]:
    for pattern in DOCUMENTS:
        for path in sorted(ROOT.glob(pattern)):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield from _denied(path, number, line, METAPHORS)
                if path.name not in HISTORY:
                    yield from _denied_phrases(path, number, line)


def _denied_phrases(path: Path, line: int, text: str) -> Iterator[Finding]:
    lower = text.lower()
    for phrase, instead in PHRASES.items():
        if phrase in lower:
            yield Finding(path, line, phrase, instead)


def _denied(path: Path, line: int, text: str, words: dict[str, str]) -> Iterator[Finding]:
    for word in dict.fromkeys(match.lower() for match in WORD.findall(text)):
        if word in words:
            yield Finding(path, line, word, words[word])


if __name__ == "__main__":
    sys.exit(main())
