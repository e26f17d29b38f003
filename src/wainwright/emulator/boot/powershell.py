"""PowerShell: the call of Start-EKSBootstrap.ps1 on Windows, and its arguments.

No PowerShell is run. Variables are those that the script sets to plain text, and `$MaxPods` where
the script looks it up in its table; any other is empty.
"""

import re
from collections.abc import Mapping
from typing import Final

from wainwright.emulator.boot import flags
from wainwright.emulator.boot.density import lookup
from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings

SCRIPT: Final = re.compile(r"<powershell>(.*?)</powershell>", re.DOTALL | re.IGNORECASE)
CALL: Final = re.compile(r"^[^#\n]*?(?=\s-\w+\s)(?=[^\n]*-EKSClusterName\b)", re.M | re.I)
ASSIGNMENT: Final = re.compile(r"^\s*(?:\[\w+\])?\$(\w+)\s*=\s*(['\"].*)$", re.MULTILINE)
VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
BARE: Final = re.compile(r"[^\s'\"();|]+")
TABLE: Final = "maxpods"


def is_powershell(text: str) -> bool:
    return SCRIPT.search(text) is not None


def read(text: str, instance_type: str) -> Settings:
    script = "\n".join(SCRIPT.findall(text)).replace("`\r\n", " ").replace("`\n", " ")
    call = CALL.search(script)
    if call is None:
        raise Unbootable(Reason.NO_BOOTSTRAP, "nothing calls Start-EKSBootstrap.ps1")
    known = variables(script[: call.end()], instance_type)
    given = Reader(script, call.end(), known).arguments()
    if not given.get("eksclustername"):
        raise Unbootable(Reason.NO_CLUSTER, "-EKSClusterName is empty")
    settings = Settings(
        family=Family.WINDOWS,
        cluster=given["eksclustername"],
        endpoint=given.get("apiserverendpoint", ""),
        certificate=given.get("base64clusterca", ""),
        dns=tuple(each for each in [given.get("dnsclusterip", "")] if each),
    )
    flags.apply(given.get("kubeletextraargs", ""), settings)
    return settings


def variables(script: str, instance_type: str) -> dict[str, str]:
    """In small letters: PowerShell does not care."""
    known = {
        name.lower(): Reader(value, 0, {}).value() for name, value in ASSIGNMENT.findall(script)
    }
    found = lookup(script, instance_type)
    return known if found is None else known | {TABLE: found.pods}


class Reader:
    """Goes through a command from one place on."""

    def __init__(self, text: str, at: int, known: Mapping[str, str]) -> None:
        self._text = text
        self._at = at
        self._known = known

    def arguments(self) -> dict[str, str]:
        """`-Name value` until the line ends."""
        found: dict[str, str] = {}
        while self._skip(" \t\r") == "-":
            name = self._take(re.compile(r"-(\w+):?"))
            self._skip(" \t\r")
            found[name.strip("-:").lower()] = self.value()
        return found

    def value(self) -> str:
        """A text in quotes, a sum of such texts in brackets, or a bare word."""
        first = self._peek()
        if first == "(":
            return self._sum()
        if first in ("'", '"'):
            return self._quoted(first)
        word = self._take(BARE)
        return self._expanded(word)

    def _sum(self) -> str:
        made, self._at = "", self._at + 1
        while self._skip(" \t\r\n+") not in (")", ""):
            made += self.value()
        self._at += 1
        return made

    def _quoted(self, quote: str) -> str:
        """A quote within is written twice; only double quotes let variables in."""
        made, self._at = "", self._at + 1
        while True:
            end = self._text.find(quote, self._at)
            if end < 0:
                raise Unbootable(Reason.UNREADABLE, "a text in the PowerShell has no end")
            made += self._text[self._at : end]
            self._at = end + 1
            if self._peek() != quote:
                break
            made += quote
            self._at += 1
        return self._expanded(made) if quote == '"' else made

    def _expanded(self, text: str) -> str:
        return VARIABLE.sub(lambda found: self._known.get((found[1] or found[2]).lower(), ""), text)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise Unbootable(
                Reason.UNREADABLE, f"the PowerShell breaks off at {self._text[self._at :]!r:.40}"
            )
        self._at = found.end()
        return found[0]

    def _skip(self, blanks: str) -> str:
        while self._peek() and self._peek() in blanks:
            self._at += 1
        return self._peek()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]
