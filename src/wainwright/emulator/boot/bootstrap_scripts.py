"""Bootstrap scripts: the last call of bootstrap.sh in the scripts of AL2, the call of Start-
EKSBootstrap.ps1 on Windows, and their arguments.

Neither a shell nor PowerShell is run. Variables are those that the script sets to plain text, and
those that it looks up in its table of pods per instance type (`max_pods`, `kube_reserved`;
`$MaxPods`); any other is empty, as an unset variable is. `${name:+text}` is the text
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
"""Options that take the next word; any other word is a cluster name to the script."""


def calls_bootstrap_sh(part: UserDataPart) -> bool:
    return part.type == SHELL_SCRIPT_TYPE and BOOTSTRAP_SH_CALL.search(part.text) is not None


def read_shell_script(parts: Sequence[UserDataPart], instance_type: str) -> BootstrapConfig:
    script = next(part.text for part in reversed(parts) if calls_bootstrap_sh(part))
    last_call = list(BOOTSTRAP_SH_CALL.finditer(script))[-1]
    variables = shell_variables(script[: last_call.end("before")], instance_type)
    words = [_expand_word(word, variables) for word in _command_words(script[last_call.end() :])]
    options, names = _parse_options(words)
    if not names or not names[0]:
        raise BootError(
            BootFailureReason.NO_CLUSTER, "bootstrap.sh is not told the name of the cluster"
        )
    config = BootstrapConfig(method=BootstrapMethod.SHELL, cluster=names[0])
    for option, field in BOOTSTRAP_SH_FIELDS.items():
        setattr(config, field, options.get(option, ""))
    config.dns = tuple(each for each in options.get("--dns-cluster-ip", "").split(",") if each)
    config.local_disks = options.get("--local-disks") == "raid0"
    if options.get("--use-max-pods", "true") != "true":
        config.max_pods = 110  # the kubelet's default
    kubelet_config.apply_flags(options.get("--kubelet-extra-args", ""), config)
    return config


def shell_variables(script: str, instance_type: str) -> dict[str, str]:
    variables = {
        name: _plain_value(value or "") for name, value in SHELL_ASSIGNMENT.findall(script)
    }
    row = look_up_max_pods(script, instance_type)
    return (
        variables if row is None else variables | dict(zip(SHELL_TABLE_VARIABLES, row, strict=True))
    )


def _plain_value(value: str) -> str:
    """The assigned text; empty where a command would have to be run for it."""
    if "$(" in value or "`" in value:
        return ""
    try:
        return "".join(shlex.split(value)[:1])
    except ValueError:
        return ""


def _command_words(text: str) -> list[str]:
    """The words of the command, up to the end of its line."""
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


def _expand_word(word: str, variables: Mapping[str, str]) -> str:
    word = UNLESS_EMPTY.sub(lambda match: match[2] if variables.get(match[1]) else "", word)
    return SHELL_VARIABLE.sub(lambda match: variables.get(match[1] or match[2], ""), word)


def _parse_options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    names: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word in BOOTSTRAP_SH_FIELDS or word in BOOTSTRAP_SH_OPTIONS:
            options[word] = next(remaining, "")
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
    variables = powershell_variables(script[: call.end()], instance_type)
    arguments = PowerShellReader(script, call.end(), variables).arguments()
    if not arguments.get("eksclustername"):
        raise BootError(BootFailureReason.NO_CLUSTER, "-EKSClusterName is empty")
    config = BootstrapConfig(
        method=BootstrapMethod.WINDOWS,
        cluster=arguments["eksclustername"],
        endpoint=arguments.get("apiserverendpoint", ""),
        certificate=arguments.get("base64clusterca", ""),
        dns=tuple(each for each in [arguments.get("dnsclusterip", "")] if each),
    )
    kubelet_config.apply_flags(arguments.get("kubeletextraargs", ""), config)
    return config


def powershell_variables(script: str, instance_type: str) -> dict[str, str]:
    """Variables by lower-case name: PowerShell ignores case."""
    variables = {
        name.lower(): PowerShellReader(value, 0, {}).value()
        for name, value in POWERSHELL_ASSIGNMENT.findall(script)
    }
    row = look_up_max_pods(script, instance_type)
    return variables if row is None else variables | {POWERSHELL_TABLE_VARIABLE: row.pods}


class PowerShellReader:
    """Reads a command from a position on."""

    def __init__(self, text: str, position: int, variables: Mapping[str, str]) -> None:
        self._text = text
        self._position = position
        self._variables = variables

    def arguments(self) -> dict[str, str]:
        """`-Name value` until the line ends."""
        arguments: dict[str, str] = {}
        while self._skip(" \t\r") == "-":
            name = self._take(re.compile(r"-(\w+):?"))
            self._skip(" \t\r")
            arguments[name.strip("-:").lower()] = self.value()
        return arguments

    def value(self) -> str:
        """A quoted string, a concatenation in parentheses, or a bare word."""
        first = self._peek()
        if first == "(":
            return self._concatenation()
        if first in ("'", '"'):
            return self._quoted(first)
        word = self._take(BARE_WORD)
        return self._expand(word)

    def _concatenation(self) -> str:
        text, self._position = "", self._position + 1
        while self._skip(" \t\r\n+") not in (")", ""):
            text += self.value()
        self._position += 1
        return text

    def _quoted(self, quote: str) -> str:
        """A quote inside is doubled; variables are expanded in double quotes only."""
        text, self._position = "", self._position + 1
        while True:
            end = self._text.find(quote, self._position)
            if end < 0:
                raise BootError(BootFailureReason.UNREADABLE, "a text in the PowerShell has no end")
            text += self._text[self._position : end]
            self._position = end + 1
            if self._peek() != quote:
                break
            text += quote
            self._position += 1
        return self._expand(text) if quote == '"' else text

    def _expand(self, text: str) -> str:
        return POWERSHELL_VARIABLE.sub(
            lambda match: self._variables.get((match[1] or match[2]).lower(), ""), text
        )

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._position)
        if match is None:
            raise BootError(
                BootFailureReason.UNREADABLE,
                f"the PowerShell breaks off at {self._text[self._position :]!r:.40}",
            )
        self._position = match.end()
        return match[0]

    def _skip(self, blanks: str) -> str:
        while self._peek() and self._peek() in blanks:
            self._position += 1
        return self._peek()

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]
