"""A real etcd and kube-apiserver on loopback, for tests that must not use a fake, and a small HTTP
client for them without a library.
"""

import atexit
import base64
import http.client
import json
import os
import secrets
import shutil
import socket
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tests.support.processes import (
    GoModule,
    MissingTool,
    Process,
    build_commands,
    free_ports,
    spawn,
)

NO_QUERY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ApiResponse:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What the API server says in a Status, or the bare text where it sent something else."""
        try:
            return str(self.json()["message"])
        except (ValueError, KeyError, TypeError):
            return self.body.decode(errors="replace")


class ApiClient:
    """One kept-alive connection, opened anew when the server has dropped it. For one thread."""

    def __init__(self, url: str, *, ca_file: Path, token: str = "") -> None:
        parts = urlsplit(url)
        trust = ssl.create_default_context(cafile=ca_file)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=trust, timeout=30
        )

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] = NO_QUERY,
    ) -> ApiResponse:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = self._headers | ({} if body is None else {"Content-Type": content_type})
        reused = self._connection.sock is not None
        try:
            return self._exchange(method, target, body, headers)
        except (ConnectionError, ssl.SSLError):
            # A server may close an idle connection at any time. On a fresh one the same error
            # means something else, and the request may have been carried out.
            if not reused:
                raise
            return self._exchange(method, target, body, headers)

    def close(self) -> None:
        self._connection.close()

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ApiResponse:
        try:
            self._connection.request(method, target, body=body, headers=dict(headers))
            reply = self._connection.getresponse()
            return ApiResponse(reply.status, reply.read())
        except BaseException:
            self._connection.close()  # half an exchange would be taken for the next one's answer
            raise


VERSION = "v1.36.3"
ETCD = "etcd"
API_SERVER = "kube-apiserver"
SCHEDULER = "kube-scheduler"
CONTROLLER_MANAGER = "kube-controller-manager"
REQUIRED_COMMANDS = (ETCD, API_SERVER)


def version_flags() -> str:
    """Without these the version is v0.0.0-master, which kubectl and helm refuse to read."""
    _, minor, _ = VERSION.split(".")
    values = {"gitVersion": VERSION, "gitMajor": "1", "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{k}={v}" for package in packages for k, v in values.items())


MODULE = GoModule(
    folder=Path(__file__).parents[1] / "integration" / "controlplane",
    packages={
        ETCD: "go.etcd.io/etcd/server/v3",
        API_SERVER: "k8s.io/kubernetes/cmd/kube-apiserver",
        SCHEDULER: "k8s.io/kubernetes/cmd/kube-scheduler",
        CONTROLLER_MANAGER: "k8s.io/kubernetes/cmd/kube-controller-manager",
    },
    ldflags=f"-s -w {version_flags()}",
)
NEEDS_A_CLOUD = (
    "service-lb-controller",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
    "node-ipam-controller",
)
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BAD_CONDITIONS = {
    "NamesAccepted": "False",
    "NonStructuralSchema": "True",
    "KubernetesAPIApprovalPolicyConformant": "False",
    "Terminating": "True",
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
        {"level": "Request", "verbs": ["delete"], "userGroups": ["system:serviceaccounts"]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
    ],
}
READY_WITHIN = 60.0
ATTEMPTS = 3  # a port that was free a moment ago may be taken by now; three times running, no


class NotReady(RuntimeError):
    """The control plane did not come up; the message ends with what its parts logged."""


class PortTaken(NotReady):
    """Another program was faster; worth another try with other ports."""


class ApiRejected(RuntimeError):
    """The API server did not accept what it was sent; the message is its own."""


def binaries(names: Sequence[str]) -> dict[str, Path]:
    """Where each command is: in KUBEBUILDER_ASSETS if that holds a control plane, or built."""
    found = {name: path for name, path in _assets().items() if name in names}
    lacking = [name for name in names if name not in found]
    try:
        return found | {name: build_commands(MODULE, lacking) / name for name in lacking}
    except MissingTool as missing:
        raise MissingTool(
            f"to test against a real API server, {missing},"
            f" or set KUBEBUILDER_ASSETS to a folder that holds {' and '.join(lacking)}"
        ) from None


def _assets() -> dict[str, Path]:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        return {}
    paths = {name: Path(folder) / name for name in MODULE.packages}
    there = {name: path for name, path in paths.items() if path.exists()}
    return there if there.keys() >= set(REQUIRED_COMMANDS) else {}


def signing_key() -> str:
    """A private key on P-256 for service account tokens, as RFC 5915 encodes it.

    Small enough to be written by hand: version 1, the secret number, the name of the curve. So
    neither openssl nor a library is needed.
    """
    secret = (1 + secrets.randbelow(2**255)).to_bytes(32, "big")
    fields = bytes.fromhex("020101 0420") + secret + bytes.fromhex("a00a06082a8648ce3d030107")
    text = base64.encodebytes(bytes([0x30, len(fields)]) + fields).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n"


@dataclass(eq=False)
class ControlPlane:
    """A running control plane; leaving its `with` block ends it and deletes all it wrote."""

    folder: Path
    commands: Mapping[str, Path]
    ports: Mapping[str, int]
    audited: bool = False
    token: str = field(default_factory=secrets.token_hex, repr=False)
    processes: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def start(
        cls, scheduler: bool = False, controller_manager: bool = False, audited: bool = False
    ) -> Self:
        """A control plane that answers; raises `Missing` where the commands cannot be had.

        Where it is audited, the API server writes every request of a service account into
        `audit_log`.
        """
        extra = {SCHEDULER: scheduler, CONTROLLER_MANAGER: controller_manager}
        commands = binaries(
            [*REQUIRED_COMMANDS, *(name for name, wanted in extra.items() if wanted)]
        )
        for _ in range(ATTEMPTS - 1):
            with suppress(PortTaken):
                return cls._started(commands, audited)
        return cls._started(commands, audited)

    @classmethod
    def _started(cls, commands: Mapping[str, Path], audited: bool) -> Self:
        names = [*commands, "etcd peers"]
        ports = dict(zip(names, free_ports(len(names)), strict=True))
        plane = cls(Path(tempfile.mkdtemp(prefix="controlplane-")), commands, ports, audited)
        atexit.register(plane.stop)
        try:
            plane._launch()
        except BaseException:
            plane.stop()
            raise
        return plane

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process, those that depend on others first. Can be called again."""
        atexit.unregister(self.stop)
        if "client" in vars(self):
            self.client.close()
        for process in reversed(self.processes.values()):
            process.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        return self._address(API_SERVER)

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.ports[ETCD]}"

    @property
    def ca_file(self) -> Path:
        return self.folder / API_SERVER / "apiserver.crt"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """One JSON object a line: who asked for what, and the decision."""
        return self.folder / "audit.log"

    @cached_property
    def client(self) -> ApiClient:
        return self.new_client()

    def new_client(self) -> ApiClient:
        """One more connection, for another thread or for a watch."""
        return ApiClient(self.url, ca_file=self.ca_file, token=self.token)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] = NO_QUERY,
    ) -> ApiResponse:
        """Ask as an administrator. Every status is an answer; only a broken connection raises."""
        return self.client.request(method, path, body=body, content_type=content_type, query=query)

    def apply_crd(self, document: Mapping[str, Any]) -> None:
        """Create a CustomResourceDefinition and return once its objects can be created.

        For 2 s from then on the API server holds every POST of such an object back for 2 s (lest
        another server of the same cluster does not know the kind yet). A test that is not to
        wait creates by server-side apply, or applies all its CRDs first and waits once.
        """
        name = document["metadata"]["name"]
        body = json.dumps(document).encode()
        reply = self.request("POST", CRDS, body=body, query={"fieldValidation": "Strict"})
        if reply.status != HTTPStatus.CREATED:
            raise ApiRejected(f"{name}: {reply.message}")
        self._wait_for(f"{name} to be served", lambda: self._serves(name))

    def _serves(self, name: str) -> bool:
        crd = self.request("GET", f"{CRDS}/{name}").json()
        conditions = crd["status"].get("conditions") or ()
        for condition in conditions:
            if BAD_CONDITIONS.get(condition["type"]) == condition["status"]:
                raise ApiRejected(f"{name}: {condition['type']}: {condition['message']}")
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return False
        return all(self._serves_version(crd["spec"], v) for v in crd["spec"]["versions"])

    def _serves_version(self, spec: Mapping[str, Any], version: Mapping[str, Any]) -> bool:
        """Discovery and the objects' own address come separately, a moment apart."""
        if not version["served"]:
            return True
        group, plural = f"/apis/{spec['group']}/{version['name']}", spec["names"]["plural"]
        discovery = self.request("GET", group)
        if discovery.status != HTTPStatus.OK:
            return False
        listed = any(resource["name"] == plural for resource in discovery.json()["resources"])
        objects = self.request("GET", f"{group}/{plural}", query={"limit": "1"})
        return listed and objects.status == HTTPStatus.OK

    def _launch(self) -> None:
        self._write_credentials()
        self._spawn(ETCD, self._etcd_flags())
        self._wait_for("etcd to listen", lambda: _listens(self.ports[ETCD]))
        self._spawn(API_SERVER, self._api_server_flags())
        self._wait_for("the API server to be ready", self._is_ready)
        if SCHEDULER in self.commands:
            self._spawn(SCHEDULER, self._client_flags(SCHEDULER))
            self._wait_for("the scheduler to be ready", self._scheduler_is_ready)
        if CONTROLLER_MANAGER in self.commands:
            self._spawn(CONTROLLER_MANAGER, self._controller_manager_flags())
            # Until there is this one, every pod in the namespace is refused.
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self._wait_for("the default service account", lambda: self._has(account))

    def kill_api_server(self) -> None:
        process = self.processes[API_SERVER].child
        process.kill()  # to end in good order it would wait for its watchers
        process.wait()
        self.client.close()
        del vars(self)["client"]

    def start_api_server(self, **flags: str) -> None:
        """After `kill_api_server`: a new process at the same address, with these flags besides."""
        more = {name.replace("_", "-"): value for name, value in flags.items()}
        self._spawn(API_SERVER, {**self._api_server_flags(), **more})

    def wait_for_api_server(self) -> None:
        self._wait_for("the API server to be ready again", self._is_ready)

    def compact_etcd(self, revision: int) -> None:
        """Forgets everything before the revision, which is a resourceVersion."""
        body = json.dumps({"revision": str(revision), "physical": True}).encode()
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/compaction", body)
        with urllib.request.urlopen(request, timeout=10) as reply:
            assert reply.status == HTTPStatus.OK

    def _spawn(self, name: str, flags: Mapping[str, str]) -> None:
        (self.folder / name).mkdir(exist_ok=True)
        log = self.folder / f"{name}.log"
        self.processes[name] = spawn(self.commands[name], flags, log=log)

    def _wait_for(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not is_so():
            for process in self.processes.values():
                self._raise_if_ended(process)
            if time.monotonic() > deadline:
                raise NotReady(f"waited {READY_WITHIN:.0f} s for {what}\n{self._tails()}")
            time.sleep(0.02)

    def _raise_if_ended(self, process: Process) -> None:
        if not process.ended:
            return
        taken = "address already in use" in process.log.read_text(errors="replace")
        error = PortTaken if taken else NotReady
        raise error(f"{process.name} ended with {process.child.returncode}\n{self._tails()}")

    def _tails(self) -> str:
        return "\n".join(process.tail() for process in self.processes.values())

    def _is_ready(self) -> bool:
        return self._has("/readyz") and self._has("/api/v1/namespaces/default")

    def _scheduler_is_ready(self) -> bool:
        certificate = self.folder / SCHEDULER / f"{SCHEDULER}.crt"
        return _has(lambda: ApiClient(self._address(SCHEDULER), ca_file=certificate), "/readyz")

    def _has(self, path: str) -> bool:
        # A connection of its own: until the API server has written its certificate there is
        # nothing to trust, and what was read while it wrote may not be all of it.
        return _has(self.new_client, path)

    def _address(self, name: str) -> str:
        return f"https://127.0.0.1:{self.ports[name]}"

    def _write_credentials(self) -> None:
        (self.folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        (self.folder / "service-account.key").write_text(signing_key())
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT_POLICY))

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """For a service account that exists, by a token of an hour."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        reply = self.request("POST", path, body=json.dumps(wanted).encode())
        if reply.status != HTTPStatus.CREATED:
            raise ApiRejected(f"{namespace}/{service_account}: {reply.message}")
        config = self._kubeconfig()
        config["users"][0]["user"]["token"] = reply.json()["status"]["token"]
        file = self.folder / f"kubeconfig-{namespace}-{service_account}"
        file.write_text(json.dumps(config))
        return file

    def _kubeconfig(self) -> dict[str, Any]:
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            "current-context": "test",
        }

    def _etcd_flags(self) -> dict[str, str]:
        return {
            "data-dir": str(self.folder / ETCD),
            "listen-client-urls": self.etcd_url,
            "advertise-client-urls": self.etcd_url,
            "listen-peer-urls": f"http://127.0.0.1:{self.ports['etcd peers']}",
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }

    def _api_server_flags(self) -> dict[str, str]:
        key = str(self.folder / "service-account.key")
        managed = CONTROLLER_MANAGER in self.commands
        return {
            **self._serving_flags(API_SERVER),
            "etcd-servers": self.etcd_url,
            "token-auth-file": str(self.folder / "tokens.csv"),
            "authorization-mode": "Node,RBAC",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "service-cluster-ip-range": "10.0.0.0/24",
            "allow-privileged": "true",
            # The default one refuses to advertise a loopback address.
            "endpoint-reconciler-type": "none",
            # Nobody makes service accounts without the controller manager, and this plugin
            # refuses every pod whose account is not there.
            **({} if managed else {"disable-admission-plugins": "ServiceAccount"}),
            **(self._audit_flags() if self.audited else {}),
        }

    def _audit_flags(self) -> dict[str, str]:
        return {
            "audit-policy-file": str(self.folder / "audit.yaml"),
            "audit-log-path": str(self.audit_log),
        }

    def _controller_manager_flags(self) -> dict[str, str]:
        return {
            **self._client_flags(CONTROLLER_MANAGER),
            "service-account-private-key-file": str(self.folder / "service-account.key"),
            "use-service-account-credentials": "true",
            "controllers": "*," + ",".join(f"-{name}" for name in NEEDS_A_CLOUD),
        }

    def _client_flags(self, name: str) -> dict[str, str]:
        return {
            **self._serving_flags(name),
            "kubeconfig": str(self.kubeconfig),
            "leader-elect": "false",
            # The defaults, 50 and 20 requests a second, would decide how long a test takes.
            "kube-api-qps": "1000",
            "kube-api-burst": "2000",
        }

    def _serving_flags(self, name: str) -> dict[str, str]:
        return {
            "bind-address": "127.0.0.1",
            "secure-port": str(self.ports[name]),
            "cert-dir": str(self.folder / name),
        }


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _has(connect: Callable[[], ApiClient], path: str) -> bool:
    with suppress(OSError), closing(connect()) as client:
        return client.request("GET", path).status == HTTPStatus.OK
    return False
