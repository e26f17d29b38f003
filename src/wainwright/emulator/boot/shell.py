"""Shell: scripts of AL2, the last call of bootstrap.sh in them, and its arguments.

No shell is run. Variables are those that the script sets to plain text, and `max_pods` and
`kube_reserved` where the script looks them up in its table; any other is empty, as it would be if
it were never set. `${name:+text}` is the text unless the variable is empty.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from wainwright.emulator.boot import flags
from wainwright.emulator.boot.density import lookup
from wainwright.emulator.boot.facts import Family
from wainwright.emulator.boot.parts import SHELL, Part
from wainwright.emulator.boot.reasons import Reason, Unbootable
from wainwright.emulator.boot.settings import Settings

CALL: Final = re.compile(r"^(?P<before>[^#\n]*?)/etc/eks/bootstrap\.sh(?=\s)", re.MULTILINE)
ASSIGNMENT: Final = re.compile(r"^\s*(?:export\s+)?(\w+)=(\S.*)?$", re.MULTILINE)
VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
UNLESS_EMPTY: Final = re.compile(r"\$\{(\w+):\+([^{}]*)\}")
ENDS: Final = "();<>|&\n"
TABLE: Final = ("max_pods", "kube_reserved")
FIELDS: Final = {
    "--apiserver-endpoint": "endpoint",
    "--b64-cluster-ca": "certificate",
    "--service-ipv6-cidr": "cidr",
}
OTHERS: Final = frozenset(
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


def calls(part: Part) -> bool:
    return part.type == SHELL and CALL.search(part.text) is not None


def read(parts: Sequence[Part], instance_type: str) -> Settings:
    script = next(part.text for part in reversed(parts) if calls(part))
    last = list(CALL.finditer(script))[-1]
    known = variables(script[: last.end("before")], instance_type)
    words = [_expanded(word, known) for word in _words(script[last.end() :])]
    options, names = _options(words)
    if not names or not names[0]:
        raise Unbootable(Reason.NO_CLUSTER, "bootstrap.sh is not told the name of the cluster")
    settings = Settings(family=Family.SHELL, cluster=names[0])
    for option, field in FIELDS.items():
        setattr(settings, field, options.get(option, ""))
    settings.dns = tuple(each for each in options.get("--dns-cluster-ip", "").split(",") if each)
    settings.local_disks = options.get("--local-disks") == "raid0"
    if options.get("--use-max-pods", "true") != "true":
        settings.max_pods = 110  # what the kubelet takes when nobody tells it
    flags.apply(options.get("--kubelet-extra-args", ""), settings)
    return settings


def variables(script: str, instance_type: str) -> dict[str, str]:
    known = {name: _plain(value or "") for name, value in ASSIGNMENT.findall(script)}
    found = lookup(script, instance_type)
    return known if found is None else known | dict(zip(TABLE, found, strict=True))


def _plain(value: str) -> str:
    """The text that is assigned; what a command would have to be run for is unknown."""
    if "$(" in value or "`" in value:
        return ""
    try:
        return "".join(shlex.split(value)[:1])
    except ValueError:
        return ""


def _words(text: str) -> list[str]:
    """Those of the command, up to the end of its line."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=ENDS)
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words: list[str] = []
    try:
        for word in lexer:
            if word[0] in ENDS or word.startswith("#"):
                break
            words.append(word)
    except ValueError as error:
        raise Unbootable(Reason.UNREADABLE, f"the script is broken: {error}") from error
    return words


def _expanded(word: str, known: Mapping[str, str]) -> str:
    word = UNLESS_EMPTY.sub(lambda found: found[2] if known.get(found[1]) else "", word)
    return VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), word)


def _options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    options: dict[str, str] = {}
    names: list[str] = []
    waiting = iter(words)
    for word in waiting:
        if word in FIELDS or word in OTHERS:
            options[word] = next(waiting, "")
        else:
            names.append(word)
    return options, names
