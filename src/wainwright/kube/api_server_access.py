"""Where an API server is and who asks: what a kubeconfig or a pod's service account states."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from wainwright.kube.kubeconfig_text import read_bounded

HEADER_NAME_SIGNS: Final = "!#$&'*+-.^_`|~"
"""What the name of a header may have beside letters and digits; % is that of what it may not."""


class ExecEnv(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str
    api_version: str
    args: list[str] = msgspec.field(default_factory=list)
    env: list[ExecEnv] = msgspec.field(default_factory=list)
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""
    """Never, IfAvailable or Always; v1beta1 may leave it out."""


class FileOrData(msgspec.Struct, frozen=True, kw_only=True):
    """A PEM text: in a file, which may be replaced while we run, or as it is."""

    file: str = ""
    data: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.file or self.data)

    def read(self) -> bytes:
        """Data goes before a file, as it does for kubectl."""
        if self.data or not self.file:
            return self.data
        return read_bounded(self.file)


NO_PEM = FileOrData()


class Impersonation(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the API server takes requests to be of; whoever makes them needs the right to it."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    def headers(self) -> Iterator[tuple[str, str]]:
        yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for key, values in self.extra.items():
            name = f"Impersonate-Extra-{quote(key, safe=HEADER_NAME_SIGNS)}"
            yield from ((name, value) for value in values)


class ApiServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One API server, the identity to use there, and the way to it."""

    url: str
    ca_file: str = ""
    """Empty, as is `ca_data`: the system's certificates."""
    ca_data: bytes = b""
    tls_server_name: str = ""
    """The name that the server's certificate must have, where it is not the host's."""
    proxy: str = ""
    """Empty: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say."""
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    client_certificate: FileOrData = NO_PEM
    client_key: FileOrData = NO_PEM
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None
    """None: requests are of whoever has the credentials."""
    cluster_info: dict[str, Any] = msgspec.field(default_factory=dict)
    """What an exec plugin is told of the cluster where it asks for it, beside `authority`."""
    namespace: str = "default"
    context: str = ""
    """The name of the kubeconfig's context; empty inside a pod."""

    @property
    def authority(self) -> FileOrData:
        return FileOrData(file=self.ca_file, data=self.ca_data)

    @property
    def has_credentials(self) -> bool:
        """Whether it says who asks by anything but a client certificate."""
        return bool(self.token or self.token_file or self.username or self.exec_plugin)
