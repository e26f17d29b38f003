"""kubeconfig files as kubectl reads them, and the service account of a pod.

Several files are merged: the first that has a cluster, user or context of a name counts, and so
does the first current-context. Paths in a file are relative to it.
"""

import base64
import binascii
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from wainwright import file_names
from wainwright.api.field_error import did_you_mean
from wainwright.errors import InvalidInputError
from wainwright.kube.api_server_access import (
    ApiServerAddress,
    ExecPlugin,
    FileOrData,
    Impersonation,
)
from wainwright.kube.kubeconfig_text import check_size_of_values, read_bounded

DEFAULT_FILE: Final = "~/.kube/config"
SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
EXEC_VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""Of a cluster, for exec plugins that want to know of it."""
EMPTY_VALUES: Final = ("", "null", "~")


class _Extension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] = []


class _AuthProvider(msgspec.Struct, frozen=True):
    name: str = ""


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    exec: ExecPlugin | None = None
    auth_provider: _AuthProvider | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


Value = TypeVar("Value")


class _Named(msgspec.Struct, Generic[Value], frozen=True):
    """A value, its name, and the file that has it."""

    name: str
    value: Value
    file: str


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: _Cluster = _Cluster()


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: _User = _User()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: _Context = _Context()


class _Config(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


class Kubeconfig:
    """The merged content of kubeconfig files."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.current_context = ""
        self.clusters: dict[str, _Named[_Cluster]] = {}
        self.users: dict[str, _Named[_User]] = {}
        self.contexts: dict[str, _Named[_Context]] = {}

    def add(self, file: str, config: _Config) -> None:
        """What an earlier file has is kept."""
        self.files.append(file)
        self.current_context = self.current_context or config.current_context
        for cluster in config.clusters:
            entry = _Named(cluster.name, cluster.cluster, file)
            self.clusters.setdefault(cluster.name, entry)
        for user in config.users:
            self.users.setdefault(user.name, _Named(user.name, user.user, file))
        for context in config.contexts:
            entry_of_context = _Named(context.name, context.context, file)
            self.contexts.setdefault(context.name, entry_of_context)

    def address(self, context: str = "") -> ApiServerAddress:
        """The API server and the identity of the context, or of the current one."""
        name = context or self.current_context
        if not name:
            raise InvalidInputError(
                f"{self._names}: no current-context",
                f"name one with --context: the file has {_listed(self.contexts)}",
            )
        chosen = _find("context", name, self.contexts, self._names)
        cluster = _find("cluster", chosen.value.cluster, self.clusters, chosen.file)
        user = _Named("", _User(), chosen.file)
        if chosen.value.user:
            user = _find("user", chosen.value.user, self.users, chosen.file)
        return _address(cluster, user, chosen)

    @property
    def _names(self) -> str:
        return ", ".join(self.files)


def load_address(
    *, kubeconfig: str = "", context: str = "", environment: Mapping[str, str] = os.environ
) -> ApiServerAddress:
    """Where kubectl would connect to: the named file, KUBECONFIG, ~/.kube/config, or, inside a
    pod that has none of them, the cluster around it.
    """
    found = read_kubeconfig(kubeconfig, environment)
    if found is not None:
        return found.address(context)
    if context or "KUBERNETES_SERVICE_HOST" not in environment:
        searched = environment.get("KUBECONFIG") or DEFAULT_FILE
        raise InvalidInputError(
            f"no kubeconfig: {searched} does not exist",
            "name one with --kubeconfig or KUBECONFIG, or make one, e.g."
            " aws eks update-kubeconfig --name CLUSTER",
        )
    return in_cluster_address(environment)


def read_kubeconfig(explicit: str, environment: Mapping[str, str]) -> Kubeconfig | None:
    """The merged files; None where there are none. A file that was named must be there."""
    merged = Kubeconfig()
    for file in _candidates(explicit, environment):
        if explicit or file_names.exists(file):
            merged.add(file, _read(file))
    return merged if merged.files else None


def _candidates(explicit: str, environment: Mapping[str, str]) -> list[str]:
    if explicit:
        return [explicit]
    listed = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return listed or [str(Path(DEFAULT_FILE).expanduser())]


def _read(file: str) -> _Config:
    try:
        text = read_bounded(file).decode("utf-8")
        check_size_of_values(text)
        # Every scalar as text: a token of digits is no number.
        value = _without_empty(yaml.load(text, Loader=yaml.CBaseLoader)) or {}
        return _with_typed_extensions(msgspec.convert(value, _Config, strict=False), text, file)
    except OSError as error:
        raise InvalidInputError(f"{file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{file}: no YAML: {_one_line(error)}") from error
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{file}: no kubeconfig: {error}") from error


class _TypedLoader(yaml.CSafeLoader):
    """Numbers, booleans and null as they are; times stay texts, as JSON has them."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as PyYAML declares it
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


UNUSABLE_EXTENSION: Final = (
    *(yaml.YAMLError, TypeError, ValueError),
    *(ArithmeticError, AttributeError, LookupError),  # `!!bool x`, a number of 70 bits
)


def _with_typed_extensions(config: _Config, text: str, file: str) -> _Config:
    """Types of values count in what clusters say to exec plugins, and nowhere else."""
    clusters = [*config.clusters]
    for index, named in enumerate(clusters):
        if any(map(_is_of_exec, named.cluster.extensions)):
            where = f"{file}: cluster {named.name!r}: extension {EXEC_EXTENSION}"
            extension = _Extension(EXEC_EXTENSION, _exec_extension(text, index, where))
            cluster = msgspec.structs.replace(named.cluster, extensions=[extension])
            clusters[index] = msgspec.structs.replace(named, cluster=cluster)
    return msgspec.structs.replace(config, clusters=clusters)


def _is_of_exec(extension: _Extension) -> bool:
    return extension.name == EXEC_EXTENSION


def _exec_extension(text: str, cluster: int, where: str) -> msgspec.Raw:
    """As JSON, which is what a plugin gets."""
    try:
        typed = yaml.load(text, Loader=_TypedLoader)
        listed = typed["clusters"][cluster]["cluster"]["extensions"]
        found = next(each for each in listed if each.get("name") == EXEC_EXTENSION)
        return msgspec.Raw(msgspec.json.encode(found.get("extension")))
    except UNUSABLE_EXTENSION as error:
        raise InvalidInputError(
            f"{where}: cannot be written as JSON: {_one_line(error)}"
        ) from error


def _without_empty(value: Any) -> Any:
    """Without keys that have no value: kubectl writes `users: null`."""
    if isinstance(value, dict):
        return {
            key: _without_empty(item)
            for key, item in value.items()
            if not (isinstance(item, str) and item in EMPTY_VALUES)
        }
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    return None if isinstance(value, str) and value in EMPTY_VALUES else value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _find(what: str, name: str, known: Mapping[str, _Named[Value]], where: str) -> _Named[Value]:
    if name in known:
        return known[name]
    hint = did_you_mean(name, list(known)) or f"the file has {_listed(known)}"
    raise InvalidInputError(f"{where}: no {what} {name!r}", hint)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _address(
    cluster: _Named[_Cluster], user: _Named[_User], context: _Named[_Context]
) -> ApiServerAddress:
    server, identity = cluster.value, user.value
    _check(cluster, user)
    ca_data = _decoded(server.certificate_authority_data, cluster, "certificate-authority-data")
    info: dict[str, Any] = {
        "server": server.server,
        "tls-server-name": server.tls_server_name,
        "proxy-url": server.proxy_url,
        "config": next((each.extension for each in server.extensions if _is_of_exec(each)), None),
    }
    return ApiServerAddress(
        url=server.server.rstrip("/"),
        ca_file="" if ca_data else _beside(server.certificate_authority, cluster),
        ca_data=ca_data,
        tls_server_name=server.tls_server_name,
        proxy=server.proxy_url,
        token=identity.token,
        token_file=_beside(identity.token_file, user),
        username=identity.username,
        password=identity.password,
        client_certificate=_pem(
            identity.client_certificate, identity.client_certificate_data, user, "certificate"
        ),
        client_key=_pem(identity.client_key, identity.client_key_data, user, "key"),
        exec_plugin=_plugin(identity.exec, user),
        impersonation=_impersonation(user),
        cluster_info={key: value for key, value in info.items() if value},
        namespace=context.value.namespace or "default",
        context=context.name,
    )


def _check(cluster: _Named[_Cluster], user: _Named[_User]) -> None:
    where, server = f"{cluster.file}: cluster {cluster.name!r}", cluster.value
    if not server.server.startswith(("https://", "http://")) or not _is_address(server.server):
        raise InvalidInputError(
            f"{where}: server: {server.server!r}, expected an address such as https://host:6443"
        )
    if server.proxy_url and not _is_address(server.proxy_url):
        raise InvalidInputError(
            f"{where}: proxy-url: {server.proxy_url!r}, expected an address such as http://host:3128"
        )
    if server.insecure_skip_tls_verify:
        raise InvalidInputError(
            f"{where}: insecure-skip-tls-verify: true is refused: anybody on the way could read "
            "the token and answer in the server's place",
            "state certificate-authority or certificate-authority-data; where the certificate has "
            "another name, tls-server-name",
        )
    if _has_control_characters(user.value.token.strip()):
        raise InvalidInputError(
            f"{user.file}: user {user.name!r}: token: a control character, expected one line"
        )
    if user.value.auth_provider is not None:
        raise InvalidInputError(
            f"{user.file}: user {user.name!r}: auth-provider {user.value.auth_provider.name!r} is "
            "no longer part of Kubernetes",
            "use an exec plugin, as kubectl needs too since 1.26",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # half of an IPv6 address, or a port that is no number
        return False


def _decoded(text: str, entry: _Named[Any], field: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error as error:
        raise InvalidInputError(f"{entry.file}: {entry.name!r}: {field}: no base64") from error


def _pem(file: str, data: str, user: _Named[_User], what: str) -> FileOrData:
    decoded = _decoded(data, user, f"client-{what}-data")
    return FileOrData(file=_beside(file, user), data=decoded)


def _beside(name: str, entry: _Named[Any]) -> str:
    """Relative to the kubeconfig, not to where the command is run."""
    _refuse_null_bytes(entry, name)
    return str(Path(entry.file).resolve().parent / name) if name else ""


def _refuse_null_bytes(entry: _Named[Any], *texts: str) -> None:
    """Neither names of files nor arguments and variables of a program can have them."""
    for text in texts:
        if "\0" in text:
            raise InvalidInputError(
                f"{entry.file}: {entry.name!r}: {text!r} has a null byte",
                "write it without \\0",
            )


def _impersonation(user: _Named[_User]) -> Impersonation | None:
    """Refused like kubectl does it where it says something, but not whom to act as."""
    where, stated = f"{user.file}: user {user.name!r}", user.value
    parts = {
        "as": [stated.as_],
        "as-uid": [stated.as_uid],
        "as-groups": stated.as_groups,
        "as-user-extra": [text for texts in stated.as_user_extra.values() for text in texts],
    }
    for field, texts in parts.items():
        if any(texts) and not stated.as_:
            raise InvalidInputError(f"{where}: {field} without as", "name the user with as")
        for text in filter(_has_control_characters, texts):
            raise InvalidInputError(f"{where}: {field}: {text!r} has a control character")
    if not stated.as_:
        return None
    return Impersonation(
        user=stated.as_,
        uid=stated.as_uid,
        groups=stated.as_groups,
        extra=stated.as_user_extra,
    )


def _has_control_characters(text: str) -> bool:
    """No header can have them."""
    return any(sign < " " or sign == "\x7f" for sign in text)


def _plugin(plugin: ExecPlugin | None, user: _Named[_User]) -> ExecPlugin | None:
    if plugin is None:
        return None
    if plugin.api_version not in EXEC_VERSIONS:
        raise InvalidInputError(
            f"{user.file}: user {user.name!r}: exec.apiVersion: {plugin.api_version!r}, expected "
            f"{' or '.join(EXEC_VERSIONS)}",
            plugin.install_hint or "update the plugin, and write the kubeconfig again with it",
        )
    variables = [text for each in plugin.env for text in (each.name, each.value)]
    _refuse_null_bytes(user, plugin.command, *plugin.args, *variables)
    is_path = os.sep in plugin.command and not os.path.isabs(plugin.command)  # noqa: PTH117
    command = _beside(plugin.command, user) if is_path else plugin.command
    return msgspec.structs.replace(plugin, command=command)


def in_cluster_address(
    environment: Mapping[str, str], folder: str = SERVICE_ACCOUNT
) -> ApiServerAddress:
    """The cluster that this pod runs in; its token and authority are files that are replaced."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    token_file, authority = f"{folder}/token", f"{folder}/ca.crt"
    if not file_names.exists(token_file):
        raise InvalidInputError(
            f"{token_file} does not exist",
            "the pod needs a service account: automountServiceAccountToken: true",
        )
    namespace = Path(folder, "namespace")
    return ApiServerAddress(
        url=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_file=authority,
        token_file=token_file,
        namespace=namespace.read_text().strip() if file_names.exists(str(namespace)) else "default",
    )
