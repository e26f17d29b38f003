"""Bootstrap scripts: the last call of bootstrap.sh in the scripts of AL2, the call of Start-
EKSBootstrap.ps1 on Windows, and their arguments.

Neither a shell nor PowerShell is run. Variables are those that the script sets to plain text, and
those that it looks up in its table of pods per instance type (`max_pods`, `kube_reserved`;
`$MaxPods`); any other is empty, as it would be if it were never set. `${name:+text}` is the text
unless the variable is empty.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from wainwright.emulator.boot import kubelet_config
from wainwright.emulator.boot.user_data import (
    SHELL_SCRIPT_TYPE,
    BootError,
    BootFailureReason,
    BootstrapConfig,
    BootstrapMethod,
    UserDataPart,
    look_up_max_pods,
)

BOOTSTRAP_SH_CALL: Final = re.compile(
    r"^(?P<before>[^#\n]*?)/etc/eks/bootstrap\.sh(?=\s)", re.MULTILINE
)
SHELL_ASSIGNMENT: Final = re.compile(r"^\s*(?:export\s+)?(\w+)=(\S.*)?$", re.MULTILINE)
SHELL_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
UNLESS_EMPTY: Final = re.compile(r"\$\{(\w+):\+([^{}]*)\}")
COMMAND_ENDS: Final = "();<>|&\n"
SHELL_TABLE_VARIABLES: Final = ("max_pods", "kube_reserved")
BOOTSTRAP_SH_FIELDS: Final = {
    "--apiserver-endpoint": "endpoint",
    "--b64-cluster-ca": "certificate",
    "--service-ipv6-cidr": "cidr",
}
BOOTSTRAP_SH_OPTIONS: Final = frozenset(
    {
        "--aws-api-retry-attempts",
        "--cluster-id",
        "--container-runtime",
        "--containerd-config-file",
        "--dns-cluster-ip",
        "--docker-config-json",
        "--enable-docker-bridge",
        "--enable-local-outpost",
        "--ip-family",
        "--kubelet-extra-args",
        "--local-disks",
        "--mount-bpf-fs",
        "--pause-container-account",
        "--pause-container-version",
        "--use-max-pods",
    }
)
"""Options that take the next word; whatever is none of them is a name to the script."""


def calls_bootstrap_sh(part: UserDataPart) -> bool:
    return part.type == SHELL_SCRIPT_TYPE and BOOTSTRAP_SH_CALL.search(part.text) is not None


def read_shell_script(parts: Sequence[UserDataPart], instance_type: str) -> BootstrapConfig:
    script = next(part.text for part in reversed(parts) if calls_bootstrap_sh(part))
    last = list(BOOTSTRAP_SH_CALL.finditer(script))[-1]
    known = shell_variables(script[: last.end("before")], instance_type)
    words = [_expand_word(word, known) for word in _command_words(script[last.end() :])]
    options, names = _parse_options(words)
    if not names or not names[0]:
        raise BootError(
            BootFailureReason.NO_CLUSTER, "bootstrap.sh is not told the name of the cluster"
        )
    settings = BootstrapConfig(family=BootstrapMethod.SHELL, cluster=names[0])
    for option, field in BOOTSTRAP_SH_FIELDS.items():
        setattr(settings, field, options.get(option, ""))
    settings.dns = tuple(each for each in options.get("--dns-cluster-ip", "").split(",") if each)
    settings.local_disks = options.get("--local-disks") == "raid0"
    if options.get("--use-max-pods", "true") != "true":
        settings.max_pods = 110  # what the kubelet takes when nobody tells it
    kubelet_config.apply_flags(options.get("--kubelet-extra-args", ""), settings)
    return settings


def shell_variables(script: str, instance_type: str) -> dict[str, str]:
    known = {name: _plain_value(value or "") for name, value in SHELL_ASSIGNMENT.findall(script)}
    found = look_up_max_pods(script, instance_type)
    return known if found is None else known | dict(zip(SHELL_TABLE_VARIABLES, found, strict=True))


def _plain_value(value: str) -> str:
    """The text that is assigned; what a command would have to be run for is unknown."""
    if "$(" in value or "`" in value:
        return ""
    try:
        return "".join(shlex.split(value)[:1])
    except ValueError:
        return ""


def _command_words(text: str) -> list[str]:
    """Those of the command, up to the end of its line."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=COMMAND_ENDS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words: list[str] = []
    try:
        for word in lexer:
            if word[0] in COMMAND_ENDS or word.startswith("#"):
                break
            words.append(word)
    except ValueError as error:
        raise BootError(BootFailureReason.UNREADABLE, f"the script is broken: {error}") from error
    return words


def _expand_word(word: str, known: Mapping[str, str]) -> str:
    word = UNLESS_EMPTY.sub(lambda found: found[2] if known.get(found[1]) else "", word)
    return SHELL_VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), word)


def _parse_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    names: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in BOOTSTRAP_SH_FIELDS or word in BOOTSTRAP_SH_OPTIONS:
            options[word] = next(waiting, "")
        else:
            names.append(word)
    return options, names


POWERSHELL_SCRIPT: Final = re.compile(r"<powershell>(.*?)</powershell>", re.DOTALL | re.IGNORECASE)
POWERSHELL_CALL: Final = re.compile(
    r"^[^#\n]*?(?=\s-\w+\s)(?=[^\n]*-EKSClusterName\b)", re.M | re.I
)
POWERSHELL_ASSIGNMENT: Final = re.compile(r"^\s*(?:\[\w+\])?\$(\w+)\s*=\s*(['\"].*)$", re.MULTILINE)
POWERSHELL_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
BARE_WORD: Final = re.compile(r"[^\s'\"();|]+")
POWERSHELL_TABLE_VARIABLE: Final = "maxpods"


def is_powershell(text: str) -> bool:
    return POWERSHELL_SCRIPT.search(text) is not None


def read_powershell_script(text: str, instance_type: str) -> BootstrapConfig:
    script = "\n".join(POWERSHELL_SCRIPT.findall(text)).replace("`\r\n", " ").replace("`\n", " ")
    call = POWERSHELL_CALL.search(script)
    if call is None:
        raise BootError(BootFailureReason.NO_BOOTSTRAP, "nothing calls Start-EKSBootstrap.ps1")
    known = powershell_variables(script[: call.end()], instance_type)
    given = PowerShellReader(script, call.end(), known).arguments()
    if not given.get("eksclustername"):
        raise BootError(BootFailureReason.NO_CLUSTER, "-EKSClusterName is empty")
    settings = BootstrapConfig(
        family=BootstrapMethod.WINDOWS,
        cluster=given["eksclustername"],
        endpoint=given.get("apiserverendpoint", ""),
        certificate=given.get("base64clusterca", ""),
        dns=tuple(each for each in [given.get("dnsclusterip", "")] if each),
    )
    kubelet_config.apply_flags(given.get("kubeletextraargs", ""), settings)
    return settings


def powershell_variables(script: str, instance_type: str) -> dict[str, str]:
    """In small letters: PowerShell does not care."""
    known = {
        name.lower(): PowerShellReader(value, 0, {}).value()
        for name, value in POWERSHELL_ASSIGNMENT.findall(script)
    }
    found = look_up_max_pods(script, instance_type)
    return known if found is None else known | {POWERSHELL_TABLE_VARIABLE: found.pods}


class PowerShellReader:
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
        word = self._take(BARE_WORD)
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
                raise BootError(BootFailureReason.UNREADABLE, "a text in the PowerShell has no end")
            made += self._text[self._at : end]
            self._at = end + 1
            if self._peek() != quote:
                break
            made += quote
            self._at += 1
        return self._expanded(made) if quote == '"' else made

    def _expanded(self, text: str) -> str:
        return POWERSHELL_VARIABLE.sub(
            lambda found: self._known.get((found[1] or found[2]).lower(), ""), text
        )

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise BootError(
                BootFailureReason.UNREADABLE,
                f"the PowerShell breaks off at {self._text[self._at :]!r:.40}",
            )
        self._at = found.end()
        return found[0]

    def _skip(self, blanks: str) -> str:
        while self._peek() and self._peek() in blanks:
            self._at += 1
        return self._peek()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]
