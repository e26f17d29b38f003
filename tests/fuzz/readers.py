"""What `wain run` and `wain snapshot` read besides manifests: settings, kubeconfigs, messages of a
queue, user data, and the objects of a cluster. Each is read, or refused with an error of ours.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import yaml
from tests.fuzz.inputs import HOSTILE_TEXTS, change_document, make_input, tear_text
from tests.fuzz.user_data import ALIASES, YAML_VALUES, odd_user_data
from tests.support.node_boot import boot_facts

from wainwright.aws.interruptions import parse_interruptions
from wainwright.aws.userdata.bootstrap_options import BootstrapOptions
from wainwright.aws.userdata.user_data import USER_DATA_BUILDERS, build_user_data
from wainwright.emulator.boot.node_boot import boot_from_user_data
from wainwright.errors import WainError
from wainwright.kube.kubeconfig import load_address
from wainwright.kube.redaction import redact
from wainwright.kube.snapshot import ClusterSnapshot, snapshot_manifest
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.operator.settings import READERS, OperatorSettings, read_settings

SETTING_TEXTS: Final = (
    *(
        "1s",
        "10s",
        "true",
        "false",
        "0.05",
        "5%",
        "StaticCapacity=true",
        "a=true,b=false",
        "=",
        ",",
    ),
    *("Respect", "Ignore", "Strict", "BestEffort", "https://127.0.0.1", "http://[::1", "1e3", "٣"),
)
KUBECONFIG: Final = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "a",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [
        {"name": "u", "user": {"token": "t"}},
        {
            "name": "x",
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "none",
                    "args": ["a"],
                    "env": [{"name": "A", "value": "b"}],
                }
            },
        },
    ],
    "contexts": [
        {"name": "a", "context": {"cluster": "c", "user": "u"}},
        {"name": "b", "context": {"cluster": "c", "user": "x", "namespace": "n"}},
    ],
}
BOOTSTRAP: Final = BootstrapOptions(
    cluster="wain",
    endpoint="https://a",
    ca="Q0E=",
    service_cidr="10.0.0.0/16",
    labels={"team": "web"},
)
EXEC_EXTENSION: Final = """\
current-context: a
contexts: [{name: a, context: {cluster: c}}]
clusters:
- name: c
  cluster:
    server: https://127.0.0.1:1
    extensions: [{name: client.authentication.k8s.io/exec, extension: %s}]
"""
HOSTILE_KUBECONFIGS: Final = (
    *("[" * 100_000, "{a: " * 100_000, "x: &a [*a]\n", ALIASES, "a: [" + "x," * 300_000 + "]\n"),
    f"a: &a {'x' * 2**20}\nb: [{'*a,' * 1000}]\n",
    *(EXEC_EXTENSION % value for value in YAML_VALUES),
)
INSTANCE: Final = {"instance-id": "i-0123456789abcdef0"}
EVENTS: Final[tuple[dict[str, Any], ...]] = tuple(
    {"source": source, "detail-type": kind, "time": "2026-01-01T00:00:10Z", "detail": detail}
    for source, kind, detail in (
        ("aws.ec2", "EC2 Spot Instance Interruption Warning", INSTANCE),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation", INSTANCE),
        ("aws.ec2", "EC2 Instance State-change Notification", {**INSTANCE, "state": "stopping"}),
        (
            "aws.health",
            "AWS Health Event",
            {
                "service": "EC2",
                "eventTypeCategory": "scheduledChange",
                "startTime": "Thu, 01 Jan 2026 01:00:00 GMT",
                "affectedEntities": [{"entityValue": "i-1"}],
            },
        ),
    )
)


def fuzz_reader(seed: str, folder: Path) -> str | None:
    """The finding of this seed, if there is one."""
    random = Random(f"reader {seed}")
    read = random.choice(
        (
            *(_read_settings, _read_kubeconfig, _read_message, _read_message, _redact),
            *(_read_user_data, _read_user_data),
        )
    )
    return read(random, folder)


def _outcome(shown: object, read: Callable[[], object], *refusals: type[Exception]) -> str | None:
    """What is wrong with how it ended: any error but a refusal."""
    try:
        read()
    except refusals:
        return None
    except Exception as error:  # noqa: BLE001  # whatever it is
        return f"{type(error).__name__}: {error}\nof {shown!r}"[:3000]
    return None


def _read_settings(random: Random, _folder: Path) -> str | None:
    fields = random.sample(OperatorSettings.__struct_fields__, 2) + random.sample([*READERS], 2)
    texts = {name: random.choice((*SETTING_TEXTS, *HOSTILE_TEXTS)) for name in fields}
    flags: dict[str, str | None] = {"cluster_name": "a", **texts}
    return _outcome(flags, lambda: read_settings(flags, {}), WainError)


def odd_kubeconfig(random: Random, folder: Path) -> str:
    """The file; nothing listens at the address of its server."""
    config: dict[str, Any] = deepcopy(KUBECONFIG)
    for _ in range(random.choice((1, 1, 2, 3))):
        change_document(config, random)
    text = random.choice((json.dumps, yaml.safe_dump))(config)
    if random.random() < 0.2:
        text = tear_text(text, random)
    if random.random() < 0.2:
        text = random.choice(HOSTILE_KUBECONFIGS) + random.choice(("", text))
    file = folder / "kubeconfig"
    file.write_text(text, "utf-8", newline="")
    return str(file)


def _read_kubeconfig(random: Random, folder: Path) -> str | None:
    file = odd_kubeconfig(random, folder)
    context = random.choice(("", "a", "b", "c\n"))
    return _outcome(
        Path(file).read_bytes(),
        lambda: load_address(kubeconfig=file, context=context, environment={}),
        WainError,
    )


def _read_message(random: Random, _folder: Path) -> str | None:
    event: Any = deepcopy(random.choice(EVENTS))
    for _ in range(random.choice((0, 1, 1, 2))):
        change_document(event, random)
    body = json.dumps(event)
    match random.randrange(4):
        case 0:
            body = tear_text(body, random)
        case 1:
            body = random.choice((*HOSTILE_TEXTS, "[" * 100_000, "{}", "[]", "null", "1"))
        case _:
            pass
    return _outcome(body, lambda: parse_interruptions(body), ValueError)


def _read_user_data(random: Random, _folder: Path) -> str | None:
    """Both what the launch template gets and what an instance would make of it."""
    text, family = odd_user_data(random), random.choice([*USER_DATA_BUILDERS])
    bootstrap = msgspec.structs.replace(BOOTSTRAP, custom_user_data=text)

    def boot() -> None:
        boot_from_user_data(text, boot_facts())
        boot_from_user_data(build_user_data(family, bootstrap).text, boot_facts())

    return _outcome((family, text), boot, WainError)


def _redact(random: Random, folder: Path) -> str | None:
    """Objects that are accepted are printed with other names, and read again."""
    given = make_input(random)
    file, again = folder / f"input.{given.suffix}", folder / "again.json"
    file.write_text(given.text, "utf-8", newline="")

    def redacted() -> None:
        items = [snapshot_manifest(each) for each in read_manifests([str(file)]).objects]
        again.write_bytes(redact(ClusterSnapshot(items=items)).to_json())
        read_manifests([str(again)])

    return _outcome(given.text, redacted, WainError)
