"""Plain YAML scalars as Kubernetes reads them, and YAML output that every parser reads alike.

The YAML libraries of Python and Go disagree on `1e3`, `0o17`, `12:30:45`, `y` and dates. A manifest
must mean here what it means to the cluster, so the rules of YAML 1.1 as kubectl and the API server
apply them are defined here; a text is quoted whenever Kubernetes would read another value.
"""

import math
import re
from typing import Any, Final

import yaml

YamlScalar = str | int | float | bool | None

KEYWORD_VALUES: Final[dict[str, YamlScalar]] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
NOT_NUMBERS: Final = frozenset(
    {
        ".nan",
        ".NaN",
        ".NAN",
        ".inf",
        ".Inf",
        ".INF",
        "+.inf",
        "+.Inf",
        "+.INF",
        "-.inf",
        "-.Inf",
        "-.INF",
    }
)
INTEGER_PATTERN: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))"
)
FLOAT_PATTERN: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
INTEGER_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
NUMBER_START: Final = frozenset("0123456789+-.")
UINT64_LIMIT: Final = 2**64
MAX_DIGITS: Final = 200  # no integer of 64 bits has more, leading zeros aside


class NotJSONValue(ValueError):
    """A scalar that JSON cannot represent: infinity or not-a-number."""


def parse_plain_scalar(text: str) -> YamlScalar:
    """The value of an unquoted scalar without a tag."""
    if text in KEYWORD_VALUES:
        return KEYWORD_VALUES[text]
    if text[0] not in NUMBER_START:
        return text
    if text in NOT_NUMBERS:
        raise NotJSONValue(text)
    return _parse_number(text)


def _parse_number(text: str) -> YamlScalar:
    digits = text.replace("_", "")
    match = INTEGER_PATTERN.fullmatch(digits)
    if match is not None and len(digits) <= MAX_DIGITS:
        value = _parse_integer(match)
        if -UINT64_LIMIT // 2 <= value < UINT64_LIMIT:
            return value
    if FLOAT_PATTERN.fullmatch(digits) and not math.isinf(float(digits)):
        return to_integral(float(digits))
    return text


def _parse_integer(match: "re.Match[str]") -> int:
    name = next(name for name in INTEGER_BASES if match[name] is not None)
    value = int(match[name], INTEGER_BASES[name])
    return -value if match["sign"] == "-" else value


def to_integral(value: float) -> int | float:
    """A float without a fraction as an integer, as it is written in JSON."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


UNPRINTABLE: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that steer a terminal or turn the direction of writing around; output escapes them."""


LOG_COMMAND: Final = re.compile(r"^\s*::", re.MULTILINE)
"""A line that a CI log takes for a command."""


class _Dumper(yaml.CSafeDumper):
    """Plain YAML by libyaml: no anchors, no tags, keys in the order given."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_string(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if needs_quotes(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


class _OneLineDumper(_Dumper):
    """The same with every text on one line, escaped."""


def _represent_on_one_line(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if "\n" in value or needs_quotes(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def needs_quotes(value: str) -> bool:
    """Where Kubernetes would read another value, or a CI log a command at the start of a line."""
    if value.startswith("::"):
        return True
    try:
        return parse_plain_scalar(value) != value
    except NotJSONValue:
        return True


_Dumper.add_representer(str, _represent_string)
_OneLineDumper.add_representer(str, _represent_on_one_line)
NO_FOLDING: Final = 2**31 - 1


def dump_yaml(*documents: Any) -> str:
    """The documents as one YAML stream."""
    try:
        return "---\n".join(map(_dump, documents))
    except UnicodeEncodeError:
        return "---\n".join(map(_dump, map(escape_surrogates, documents)))


def escape_surrogates(value: Any) -> Any:
    """The value without halves of characters, which names of files that are not UTF-8 have."""
    if isinstance(value, dict):
        return {escape_surrogates(key): escape_surrogates(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [escape_surrogates(each) for each in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def _dump(document: Any) -> str:
    """With every character as it is; escaped where one would steer a terminal or a log of CI."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    if UNPRINTABLE.search(text) is None and LOG_COMMAND.search(text) is None:
        return text
    escaped: str = yaml.dump(document, Dumper=_OneLineDumper, sort_keys=False, width=NO_FOLDING)
    return escaped
