"""kubeconfig files, merged and chosen from as kubectl does it, and what is refused in them."""

import base64
import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from wainwright.errors import InvalidInputError
from wainwright.kube.api_server_access import Impersonation
from wainwright.kube.kubeconfig import in_cluster_address, load_address

EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "a"}
ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{last}'] * 9)}]\n"
    for last, name in zip("abcdefgh", "bcdefghi", strict=True)
)
PEM = base64.b64encode(b"pem").decode()


def kubeconfig(
    name: str = "one", *, cluster: Any = None, user: Any = None, context: Any = None, **top: Any
) -> dict[str, Any]:
    """One cluster, user and context of this name, which is the current one."""
    server = {"server": f"https://{name}:6443", **(cluster or {})}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": server}],
        "users": [{"name": name, "user": user or {"token": f"token-of-{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": name,
        **top,
    }


def write(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return folder / name


def refusal(file: Path, context: str = "") -> str:
    with pytest.raises(InvalidInputError) as caught:
        load_address(kubeconfig=str(file), context=context, environment={})
    return str(caught.value)


def test_the_current_context_says_where_and_who(tmp_path: Path) -> None:
    content = kubeconfig(
        cluster={
            "certificate-authority-data": PEM,
            "tls-server-name": "api",
            "proxy-url": "http://p:1",
        },
        user={
            "client-certificate-data": PEM,
            "client-key-data": PEM,
            "username": "a",
            "password": "b",
        },
        context={"namespace": "shop"},
    )
    found = load_address(kubeconfig=str(write(tmp_path, "config", content)), environment={})
    assert (found.url, found.namespace, found.context) == ("https://one:6443", "shop", "one")
    assert (found.authority.read(), found.tls_server_name, found.proxy) == (
        b"pem",
        "api",
        "http://p:1",
    )
    assert found.client_certificate.read() == found.client_key.read() == b"pem"
    assert (found.username, found.password) == ("a", "b")


def test_files_are_merged_and_the_first_counts(tmp_path: Path) -> None:
    first = write(tmp_path, "first", kubeconfig("one", user={"token": "first"}))
    second = kubeconfig("one", cluster={"server": "https://other"}, user={"token": "second"})
    more = kubeconfig("two")
    second = {
        key: value + more[key] if isinstance(value, list) else value
        for key, value in second.items()
    }
    files = f"{tmp_path / 'missing'}:{first}:{write(tmp_path, 'second', second)}"
    environment = {"KUBECONFIG": files}
    current = load_address(environment=environment)
    assert (current.url, current.token) == ("https://one:6443", "first")
    other = load_address(context="two", environment=environment)
    assert (other.url, other.token) == ("https://two:6443", "token-of-two")


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    user = {
        "tokenFile": "token",
        "client-certificate": "client.crt",
        "client-key": "/etc/client.key",
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./bin/login"},
    }
    content = kubeconfig(cluster={"certificate-authority": "pki/ca.crt"}, user=user)
    found = load_address(kubeconfig=str(write(tmp_path / "a", "config", content)), environment={})
    assert found.ca_file == str(tmp_path / "a/pki/ca.crt")
    assert found.token_file == str(tmp_path / "a/token")
    assert found.client_certificate.file == str(tmp_path / "a/client.crt")
    assert found.client_key.file == "/etc/client.key"
    assert found.exec_plugin is not None
    assert found.exec_plugin.command == str(tmp_path / "a/bin/login")


EXTENSION = """
clusters:
- name: a
  cluster: {server: "https://a"}
- name: 12
  cluster:
    server: https://b
    extensions:
    - {name: other, extension: {of: another program}}
    - name: client.authentication.k8s.io/exec
      extension: {audience: "0123", size: 3, since: 2026-01-01, keep: true, empty: "", none: null}
contexts: [{name: b, context: {cluster: 12, user: b}}]
users: [{name: b, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: b}}}]
current-context: b
"""


def test_what_a_cluster_says_to_exec_plugins_is_read_as_json(tmp_path: Path) -> None:
    file = write(tmp_path, "config", EXTENSION)
    info = load_address(kubeconfig=str(file), environment={}).cluster_info
    assert json.loads(msgspec.json.encode(info)) == {
        "server": "https://b",
        "config": {
            "audience": "0123",
            "size": 3,
            "since": "2026-01-01",
            "keep": True,
            "empty": "",
            "none": None,
        },
    }


def test_a_token_of_digits_and_values_of_null_are_read(tmp_path: Path) -> None:
    text = """
apiVersion: v1
clusters: [{name: a, cluster: {server: "https://a", proxy-url: null}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: ~}}]
current-context: a
preferences: {}
users: [{name: a, user: {token: 0123456789}}]
"""
    found = load_address(kubeconfig=str(write(tmp_path, "config", text)), environment={})
    assert (found.token, found.proxy, found.namespace) == ("0123456789", "", "default")


def test_who_is_acted_as_is_read(tmp_path: Path) -> None:
    """Without it every request would have the full rights of whoever has the credentials."""
    user = {
        "token": "secret",
        "as": "system:serviceaccount:shop:viewer",
        "as-uid": "123",
        "as-groups": ["viewers", "all users"],
        "as-user-extra": {"reason": ["look", "compare"], "example.com/scope": ["read"]},
    }
    found = load_address(
        kubeconfig=str(write(tmp_path, "config", kubeconfig(user=user))), environment={}
    )
    assert found.token == "secret"
    assert found.impersonation == Impersonation(
        user="system:serviceaccount:shop:viewer",
        uid="123",
        groups=("viewers", "all users"),
        extra={"reason": ("look", "compare"), "example.com/scope": ("read",)},
    )


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    content = kubeconfig(contexts=[{"name": "one", "context": {"cluster": "one"}}])
    found = load_address(kubeconfig=str(write(tmp_path, "config", content)), environment={})
    assert not found.has_credentials


def test_certificates_are_always_verified(tmp_path: Path) -> None:
    content = kubeconfig(cluster={"insecure-skip-tls-verify": True})
    found = refusal(write(tmp_path, "config", content))
    assert "cluster 'one': insecure-skip-tls-verify: true is refused" in found
    assert "state certificate-authority" in found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (kubeconfig(**{"current-context": ""}), "no current-context"),
        (kubeconfig(clusters=[]), "no cluster 'one'"),
        (kubeconfig(users=None), "no user 'one'"),
        (kubeconfig(cluster={"server": "one:6443"}), "server: 'one:6443', expected an address"),
        (kubeconfig(cluster={"server": "https://[::1"}), "server: 'https://[::1', expected an"),
        (kubeconfig(cluster={"server": "https://a:b"}), "server: 'https://a:b', expected an"),
        (kubeconfig(cluster={"proxy-url": "http://[::1"}), "proxy-url: 'http://[::1', expected"),
        (kubeconfig(cluster={"certificate-authority": "a\0b"}), "'one': 'a\\x00b' has a null byte"),
        (kubeconfig(user={"client-certificate": "a\0b"}), "'one': 'a\\x00b' has a null byte"),
        (kubeconfig(user={"client-key": "a\0b"}), "'one': 'a\\x00b' has a null byte"),
        (kubeconfig(user={"tokenFile": "a\0b"}), "'one': 'a\\x00b' has a null byte"),
        (kubeconfig(user={"exec": {**EXEC, "command": "a\0b"}}), "'a\\x00b' has a null byte"),
        (kubeconfig(user={"exec": {**EXEC, "args": ["a\0b"]}}), "'a\\x00b' has a null byte"),
        (kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider 'gcp'"),
        (kubeconfig(user={"client-key-data": "?"}), "client-key-data: no base64"),
        (
            kubeconfig(
                user={
                    "exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "a"}
                }
            ),
            "exec.apiVersion: 'client.authentication.k8s.io/v1alpha1', expected",
        ),
        (kubeconfig(user={"as-uid": "1"}), "user 'one': as-uid without as"),
        (kubeconfig(user={"as-groups": ["a"]}), "user 'one': as-groups without as"),
        (kubeconfig(user={"as-user-extra": {"a": ["b"]}}), "'one': as-user-extra without as"),
        (kubeconfig(user={"as": "a\nb"}), "user 'one': as: 'a\\nb' has a control character"),
        (kubeconfig(user={"as": "a", "as-uid": "b\r"}), "as-uid: 'b\\r' has a control character"),
        (kubeconfig(user={"as": "a", "as-groups": ["b", "c\0"]}), "as-groups: 'c\\x00' has a c"),
        (
            kubeconfig(user={"as": "a", "as-user-extra": {"b": ["c\n"]}}),
            "as-user-extra: 'c\\n' has",
        ),
        (
            kubeconfig(user={"as": "a", "as-groups": "b"}),
            "got `str` - at `$.users[0].user.as-groups`",
        ),
        (kubeconfig(user={"as": ["a"]}), "Expected `str`, got `array` - at `$.users[0].user.as`"),
        (
            kubeconfig(user={"as": "a", "as-user-extra": ["b"]}),
            "at `$.users[0].user.as-user-extra`",
        ),
        (kubeconfig(user={"token": "a\nb"}), "user 'one': token: a control character"),
        (EXTENSION.replace("size: 3", "true: 3"), "cluster '12': extension client.authentication"),
        (EXTENSION.replace("size: 3", "size: !odd 3"), "cluster '12': extension client.auth"),
        ("clusters: {a: 1}", "no kubeconfig: Expected `array`"),
        ("a: [", "no YAML"),
        ('"\\ud83d": a', "no YAML: while parsing a quoted scalar"),
        ('users: [{name: one, user: {token: "a\\udc00"}}]', "invalid Unicode character escape"),
        ("[" * 100_000, "no YAML: more than 100 levels of nesting"),
        ("a: " + "{a: " * 99 + "b" + "}" * 99, "no current-context"),
        (ALIASES, "no YAML: aliases blow the file up to millions of characters"),
        ("a: &a [*a]", "no YAML: the alias *a stands for no value above"),
        (f"a: &a {'x' * 2**20}\nb: [*a, *a, *a, *a, *a]", "no YAML: aliases blow the file up"),
        (f"[{'a,' * 250_000}]", "no YAML: more than 250,000 values"),
        ("x" * (16 * 2**20 + 1), "cannot be read: it is larger than 16 MiB; name an ordinary file"),
        *(
            (EXTENSION.replace("size: 3", f"size: {value}"), "cluster '12': extension client.auth")
            for value in ("!!bool x", "!!timestamp x", "9" * 5000, "&a {x: !!int x}", "{null: a}")
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_file(
    tmp_path: Path, content: Any, expected: str
) -> None:
    found = refusal(write(tmp_path, "config", content))
    assert found.startswith(f"{tmp_path}/config: ")
    assert expected in found


def test_an_unknown_context_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    found = refusal(write(tmp_path, "config", kubeconfig("production")), "staging")
    assert "no context 'staging'" in found
    assert "the file has production" in found
    assert "production" in refusal(tmp_path / "config", "prodution")


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(tmp_path / "config")


def test_without_any_file_and_outside_a_pod_there_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"no kubeconfig: .*missing does not exist"
    ) as caught:
        load_address(environment={"KUBECONFIG": str(tmp_path / "missing")})
    assert "--kubeconfig" in caught.value.hint


def test_aliases_are_read_where_they_are_few(tmp_path: Path) -> None:
    text = yaml.safe_dump(kubeconfig()).replace(
        "token:", "username: &name me\n    password: *name\n    token:"
    )
    found = load_address(kubeconfig=str(write(tmp_path, "config", text)), environment={})
    assert (found.username, found.password, found.token) == ("me", "me", "token-of-one")


def test_a_pipe_is_a_kubeconfig() -> None:
    """As `--kubeconfig <(aws …)` makes one."""
    reading, writing = os.pipe()
    os.write(writing, yaml.safe_dump(kubeconfig()).encode())
    os.close(writing)
    found = load_address(kubeconfig=f"/dev/fd/{reading}", environment={})
    os.close(reading)
    assert found.token == "token-of-one"


@pytest.mark.parametrize("field", ["certificate-authority", "client-certificate", "client-key"])
def test_no_more_than_16_mib_are_read_of_a_file_that_is_named(tmp_path: Path, field: str) -> None:
    part = "cluster" if field == "certificate-authority" else "user"
    entry: Any = {part: {field: "/dev/zero"}}
    content = kubeconfig(**entry)
    found = load_address(kubeconfig=str(write(tmp_path, "config", content)), environment={})
    named = {
        "certificate-authority": found.authority,
        "client-certificate": found.client_certificate,
        "client-key": found.client_key,
    }
    with pytest.raises(OSError, match="larger than 16 MiB; name an ordinary file: '/dev/zero'"):
        named[field].read()


def test_a_device_without_an_end_is_no_kubeconfig() -> None:
    assert refusal(Path("/dev/zero")).startswith("/dev/zero: cannot be read: it is larger than 16")


def test_inside_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    for name, text in (("token", "secret"), ("ca.crt", "pem"), ("namespace", "kube-system\n")):
        write(tmp_path, name, text)
    found = in_cluster_address(environment, str(tmp_path))
    assert (found.url, found.namespace) == ("https://[fd00::1]:443", "kube-system")
    assert (found.token_file, found.ca_file) == (f"{tmp_path}/token", f"{tmp_path}/ca.crt")


def test_a_pod_without_a_service_account_is_refused(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(InvalidInputError, match="token does not exist"):
        in_cluster_address(environment, str(tmp_path))


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
KEYS = st.sampled_from(
    [
        *("clusters", "users", "contexts", "name", "cluster", "user", "context", "exec", "env"),
        *("server", "token", "current-context", "command", "apiVersion", "args", "namespace"),
        *("certificate-authority-data", "insecure-skip-tls-verify", "auth-provider", "proxy-url"),
        *("as", "as-uid", "as-groups", "as-user-extra"),
    ]
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, ANYTHING, max_size=5), KEYS, KEYS, ANYTHING)
@settings(max_examples=150)
def test_whatever_a_file_says_is_read_or_refused(
    content: Any, part: str, key: str, value: Any
) -> None:
    """Odd files, and good ones with one odd value."""
    changed: dict[str, Any] = kubeconfig()
    entries = changed.get(part)
    if isinstance(entries, list):
        entries[0][part.removesuffix("s")][key] = value
    else:
        changed[part] = value
    for document in (content, changed):
        with TemporaryDirectory() as folder:
            file = write(Path(folder), "config", document)
            with suppress(InvalidInputError):
                load_address(kubeconfig=str(file), environment={})
