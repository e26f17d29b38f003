"""Values generated from a structural schema, for property tests."""

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from wainwright.api.wire import Schema

KEYS = st.from_regex(r"\A[a-z]{1,3}(\.[a-z]{1,3}/[a-z]{1,3})?\Z")
TIMES = st.sampled_from(["2026-01-31T12:00:00Z", "2026-12-01T00:00:00.5+01:00"])
ALPHABET = st.characters(min_codepoint=32, max_codepoint=126)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6)


def schema_values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values that the schema allows; CEL rules may still reject them."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _texts(schema) | st.integers(0, 50)
    return STRATEGY_BY_TYPE.get(schema.get("type", ""), _anything)(schema)


def _anything(_schema: Schema) -> st.SearchStrategy[Any]:
    return st.sampled_from(["1", 1, 0.5])


def _lists(schema: Schema) -> st.SearchStrategy[Any]:
    least = schema.get("minItems", 0)
    keys = schema.get("x-kubernetes-list-map-keys", ())
    wanted = schema.get("x-kubernetes-list-type") in ("set", "map")
    distinct = (lambda one: str([one[key] for key in keys] if keys else one)) if wanted else None
    items = schema_values(schema["items"])
    return st.lists(items, min_size=least, max_size=least + 2, unique_by=distinct)


def _integers(schema: Schema) -> st.SearchStrategy[Any]:
    return st.integers(schema.get("minimum", 0), schema.get("maximum", 1000))


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return TIMES
    if "pattern" in schema:
        return _matching(schema["pattern"], schema.get("maxLength", 300))
    return WORDS.filter(lambda text: len(text) >= schema.get("minLength", 0))


@cache
def _matching(pattern: str, most: int) -> st.SearchStrategy[str]:
    """A few examples, cached: generating them each time would be most of the cost of a test."""
    made = st.from_regex(pattern.replace("$", r"\Z"), alphabet=ALPHABET)
    return made.filter(lambda text: len(text) <= most)


def _objects(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    if "additionalProperties" in schema:
        return st.dictionaries(KEYS, schema_values(schema["additionalProperties"]), max_size=2)
    properties = schema.get("properties", {})
    required = {key: schema_values(properties[key]) for key in schema.get("required", ())}
    optional = {key: schema_values(item) for key, item in properties.items() if key not in required}
    return st.fixed_dictionaries(required, optional=optional)


STRATEGY_BY_TYPE: dict[str, Callable[[Schema], st.SearchStrategy[Any]]] = {
    "object": _objects,
    "array": _lists,
    "string": _texts,
    "integer": _integers,
    "number": lambda _schema: st.integers(0, 10) | st.floats(0.001, 10),
    "boolean": lambda _schema: st.booleans(),
}
