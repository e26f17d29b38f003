"""Templates and placeholders: text that somebody has to fill in before it is a manifest.

`{{ .Values.zone }}` of Helm and other templating, `${ARCH}` of envsubst, `<<AZ>>`, `<cluster name>`
and `INSTANCE_NAME`. They are looked for only where something is wrong: a tag or a text may contain
any of these and be meant so.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from wainwright.api.field_error import FieldError, FieldPath

TEMPLATING: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
HELM_VALUE: Final = re.compile(
    r"\{\{-?\s*(?:\$?\.(?:Values|Release|Chart)\b|(?:include|template)\s+\"|toYaml\b)"
)
"""What only Helm fills in, unlike `{{ $labels.node }}` of an alert and `{{name}}` of a workflow."""
MARKED_PLACEHOLDER: Final = re.compile(
    r"\$\{[^}\s]+\}|\$\([A-Za-z_]\w*\)|\$[A-Z][A-Z0-9_]+\b|<<?[A-Za-z][\w .-]*>>?"
    r"|__[A-Z][A-Z0-9_]*__|%[A-Z][A-Z0-9_]*%|@[A-Z][A-Z0-9_]*@"
)
CAPITALS: Final = re.compile(r"(?<![A-Za-z0-9])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9])")
FILL_IN_HINT: Final = "fill it in first, for example with envsubst or sed"
RENDER_HINT: Final = "render the template first: helm template CHART | wain plan -"


def find_placeholder(text: str, *, capitals: bool = False) -> str:
    """The first placeholder of the text, or nothing; names in capitals only where asked for."""
    for pattern in (TEMPLATING, MARKED_PLACEHOLDER, *([CAPITALS] if capitals else [])):
        match = pattern.search(text)
        if match is not None:
            return match[0]
    return ""


def name_placeholder(value: Any, field_error: FieldError) -> FieldError:
    """The error of an object's field; one that a placeholder caused says so.

    A word in capitals is a placeholder only where it is refused and nothing similar is known:
    ON_DEMAND is a misspelt on-demand.
    """
    found = value_at(value, field_error.path)
    if not isinstance(found, str) or field_error.pruned:
        return field_error
    capitals = not field_error.warning and not field_error.hint
    placeholder = find_placeholder(found, capitals=capitals)
    if not placeholder:
        return field_error
    templated = TEMPLATING.fullmatch(placeholder) is not None
    return msgspec.structs.replace(
        field_error,
        message=f"{placeholder} is a placeholder that was not filled in",
        hint=RENDER_HINT if templated else FILL_IN_HINT,
        placeholder=True,
    )


def value_at(value: Any, path: FieldPath) -> Any:
    """The value at the path, or None."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def has_helm_value(document: Any) -> bool:
    """Whether some value of one line is to be filled in by Helm.

    Texts of several lines do not count: they may be templates for somebody else, as in a ConfigMap.
    """
    return any(HELM_VALUE.search(text) is not None for text in _lines_of_text(document))


def _lines_of_text(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if "{{" in value and "\n" not in value:
                yield value
        elif isinstance(value, dict):
            waiting.extend([*value.keys(), *value.values()])
        elif isinstance(value, list):
            waiting.extend(value)
