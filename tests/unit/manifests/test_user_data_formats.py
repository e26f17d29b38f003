"""User data is read soon, whatever it is: as a value, or as an error that says why not."""

from email.message import Message

import pytest

from wainwright.manifests.user_data_formats import (
    UnreadableUserData,
    dump_yaml_document,
    parse_mime,
    parse_toml,
    parse_yaml_documents,
)

ALIASES = "- &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"- &{name} [{','.join([f'*{last}'] * 9)}]\n"
    for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
NESTED_MIME = "Content-Type: message/rfc822\n\n"


def test_documents_are_read_as_kubernetes_reads_them() -> None:
    text = "a: &a [1, 2]\nb: *a\n---\n---\n<<: {c: 12:30:45, d: 0o17}\nwhen: 2026-99-99\n"
    assert [*parse_yaml_documents(text)] == [
        {"a": [1, 2], "b": [1, 2]},
        {"c": "12:30:45", "d": 15, "when": "2026-99-99"},
    ]


@pytest.mark.parametrize(
    ("text", "message", "exceeds_limit"),
    [
        ("{a: " * 2000, "line 1: more than 100 levels", True),
        ("[" * 7000 + "]" * 7000, "line 1: more than 100 levels", True),
        (ALIASES, "more than 1,000 values", True),
        ("a: b\nspec: &s {x: *s}", "line 2: the alias \\*s is not defined", False),
        ("x: !!timestamp x", "the tag .* is not allowed", False),
        ("x: !!binary é", "the tag .* is not allowed", False),
        (f"x: !{'y' * 5000} z", "the tag '!yyyy", False),
        ("? [a]\n: b", "cannot be a key", False),
        ("x: .nan", "not a number that Kubernetes can store", False),
        ("a: [", "not YAML", False),
        ("\0", "control character", False),
        ("\ud800", "surrogate", False),
    ],
)
def test_yaml_that_cannot_be_read_is_one_error(
    text: str, message: str, exceeds_limit: bool
) -> None:
    with pytest.raises(UnreadableUserData, match=message) as caught:
        list(parse_yaml_documents(text))
    assert caught.value.exceeds_limit is exceeds_limit
    assert len(str(caught.value)) <= 200


@pytest.mark.parametrize("text", ["!!bool x", "!!int x", "9" * 6000, "0x" + "f" * 6000])
def test_what_is_no_number_is_text(text: str) -> None:
    assert next(parse_yaml_documents(text)) == text.removeprefix("!!bool ").removeprefix("!!int ")


@pytest.mark.parametrize(
    "text", ["y", "N", "1e3", "0o17", "12:30:45", "true", "5", "", "a: b", "é"]
)
def test_a_text_that_is_written_is_read_as_the_same_text(text: str) -> None:
    assert [*parse_yaml_documents(dump_yaml_document({text: [text]}))] == [{text: [text]}]


def test_what_needs_no_quotes_has_none() -> None:
    text = dump_yaml_document({"b": ["team=web", 5, None, "x " * 100 + "x"], "a": "10.0.0.0/16"})
    assert text == f"a: 10.0.0.0/16\nb:\n- team=web\n- 5\n- null\n- {'x ' * 100}x\n"


def test_the_keys_and_values_of_toml_may_be_anything_ordinary() -> None:
    text = """
    [settings."a.b"]
    path = "1.2.3.4.5, 6.7.8"
    numbers = [9223372036854775807, -9223372036854775808, 1e3, inf]
    a.b.c = {d = 1}
    """
    assert parse_toml(text) == {
        "settings": {
            "a.b": {
                "path": "1.2.3.4.5, 6.7.8",
                "numbers": [2**63 - 1, -(2**63), 1000.0, float("inf")],
                "a": {"b": {"c": {"d": 1}}},
            }
        }
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "Invalid value"),
        ("a = 2026-02-30", "Invalid date"),
        ("a = " + "[" * 2000, "more than 100 levels"),
        ("a = " + "[" * 150 + "]" * 150, "more than 100 levels"),
        ("a = " + "{a=" * 2000, "more than 100 levels"),
        ("a." * 7000 + "a = 1", "more than 100 levels"),
        ("a = {" + "a." * 7000 + "a = 1}", "more than 100 levels"),
        (f"[{'.'.join(['a'] * 7000)}]", "more than 100 levels"),
        (f"[[{' . '.join(['a'] * 101)}]]", "more than 100 levels"),
        ("a." * 60 + "a = {" + "b." * 60 + "b = 1}", "more than 100 levels"),
        (f"a = {'9' * 5000}", "thousands of digits"),
        (f"a = 0x{'f' * 5000}", "more than 64 bits"),
        ("a = [{b = -9223372036854775809}]", "more than 64 bits"),
    ],
)
def test_toml_that_cannot_be_read_is_one_error(text: str, message: str) -> None:
    with pytest.raises(UnreadableUserData, match=message):
        parse_toml(text)


def test_mime_is_given_with_its_inner_parts_in_order() -> None:
    inner = "Content-Type: multipart/mixed; boundary=C\n\n--C\n\none\n--C\n\ntwo\n--C--\n"
    text = f"\nContent-Type: multipart/mixed; boundary=B\n\n--B\n{inner}--B\n\nthree\n--B--\n"
    found = parse_mime(text)
    assert [each.is_multipart() for each in found] == [True, True, False, False, False]
    assert [_text(each) for each in found[2:]] == ["one", "two", "three"]


def _text(message: Message) -> str:
    return str(message.get_payload())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NESTED_MIME * 110, "more than 100 levels"),
        (NESTED_MIME * 2000, "more than 100 levels"),
        (f"Content-Type: multipart/mixed; boundary*{'9' * 5000}*=a\n\n--a", "headers"),
    ],
)
def test_mime_that_cannot_be_read_is_one_error(text: str, message: str) -> None:
    with pytest.raises(UnreadableUserData, match=message):
        parse_mime(text)
