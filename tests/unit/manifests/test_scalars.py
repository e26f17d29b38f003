"""Plain YAML scalars mean here what they mean to kubectl and the API server."""

import pytest

from wainwright.manifests.scalars import NotJSON, plain

SPELLINGS = [
    ("text", "text"),
    ("yes", True),
    ("y", True),
    ("Off", False),
    ("n", False),
    ("TRUE", True),
    ("~", None),
    ("null", None),
    ("Null", None),
    ("12", 12),
    ("-12", -12),
    ("+12", 12),
    ("1_000", 1000),
    ("0x1F", 31),
    ("0o17", 15),
    ("017", 15),
    ("0b101", 5),
    ("1e3", 1000),
    ("1E-1", 0.1),
    (".5", 0.5),
    ("5.", 5),
    ("1.50", 1.5),
    ("12:30:45", "12:30:45"),
    ("2026-01-31", "2026-01-31"),
    ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
    ("1e400", "1e400"),
    ("1.2.3", "1.2.3"),
    ("0x", "0x"),
    ("08", 8),
    ("500m", "500m"),
    ("2Gi", "2Gi"),
    ("nope", "nope"),
    ("-", "-"),
    ("18446744073709551615", 18446744073709551615),
]


@pytest.mark.parametrize(("text", "value"), SPELLINGS, ids=[text for text, _ in SPELLINGS])
def test_a_scalar_has_the_value_that_kubernetes_gives_it(text: str, value: object) -> None:
    found = plain(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", ".nan"])
def test_what_json_cannot_say_is_refused(text: str) -> None:
    with pytest.raises(NotJSON):
        plain(text)
