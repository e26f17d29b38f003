"""User data: what an instance is before it reads it, its decoding (base64, gzip, MIME parts), the
bootstrap configuration that it gives, and why an instance never becomes a node.

Scripts may carry a table of pods per instance type: lines `pattern=pods` between two markers; the
first pattern that fits the type counts, `*` stands for any letters. After another `=` may come what
the kubelet reserves, as its flag takes it. The scripts look the type up and keep what they find in
variables of theirs.
"""

import binascii
import gzip
import zlib
from base64 import b64decode
from collections.abc import Mapping
from email import errors, message_from_string
from email.message import Message
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.model.taints import Taint


class BootFailureReason(StrEnum):
    DUD = "dud"
    """The machine never comes up, whatever it was told."""
    NOTHING = "nothing"
    """There is no user data."""
    UNREADABLE = "unreadable"
    """It cannot be decoded or parsed."""
    NO_BOOTSTRAP = "no-bootstrap"
    """Nothing in it makes a node join."""
    WRONG_IMAGE = "wrong-image"
    """It is written for another family of images."""
    NO_CLUSTER = "no-cluster"
    """It does not say which cluster to join, or not enough about it."""
    OTHER_CLUSTER = "other-cluster"
    """The cluster it names is not there, or not like that."""
    REFUSED = "refused"
    """The kubelet does not start with such settings."""
    UNREGISTERED = "unregistered"
    """The API server does not take such a node."""
    TOO_SMALL = "too-small"
    """More is reserved than the machine has."""


class BootFailure(msgspec.Struct, frozen=True):
    reason: BootFailureReason
    detail: str


class BootError(Exception):
    """Raised while user data is read; whoever boots the machine turns it into a NeverJoins."""

    def __init__(self, reason: BootFailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class BootstrapMethod(StrEnum):
    """How an image is told to join a cluster."""

    NODEADM = "nodeadm"
    BOTTLEROCKET = "bottlerocket"
    SHELL = "bootstrap.sh"
    WINDOWS = "windows"

    @property
    def pod_device(self) -> str:
        """The volume that holds pods."""
        special = {BootstrapMethod.BOTTLEROCKET: "/dev/xvdb", BootstrapMethod.WINDOWS: "/dev/sda1"}
        return special.get(self, "/dev/xvda")

    @property
    def pod_device_gib(self) -> int:
        """Its size where nobody chose one."""
        return 50 if self is BootstrapMethod.WINDOWS else 20


METHOD_BY_IMAGE_PREFIX = {
    "amazon-eks-node-al2023-": BootstrapMethod.NODEADM,
    "amazon-eks-": BootstrapMethod.SHELL,
    "bottlerocket-": BootstrapMethod.BOTTLEROCKET,
    "Windows_Server-": BootstrapMethod.WINDOWS,
}
"""How the names of public images begin; the first that fits counts."""


class ClusterEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that can be joined."""

    endpoint: str
    certificate: str


class InstanceFacts(msgspec.Struct, frozen=True, kw_only=True):
    machine: InstanceTypeInfo
    instance_id: str
    region: str
    zone: str
    zone_id: str
    private_dns: str
    """What the node is called."""
    image_name: str = ""
    """Tells the family where it is the name of a public image; the user data tells it else."""
    disks: Mapping[str, int] = {}
    """Device names with GiB."""
    clusters: Mapping[str, ClusterEndpoint] | None = None
    """Those that the machine can reach, by name; None takes whatever the user data says."""

    @property
    def family(self) -> BootstrapMethod | None:
        fitting = (
            METHOD_BY_IMAGE_PREFIX[prefix]
            for prefix in METHOD_BY_IMAGE_PREFIX
            if self.image_name.startswith(prefix)
        )
        return next(fitting, None)

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.instance_id}"


class BootstrapConfig(msgspec.Struct, kw_only=True):
    """As written: nothing is checked yet, and no default of the image is in it."""

    family: BootstrapMethod
    cluster: str = ""
    endpoint: str = ""
    certificate: str = ""
    cidr: str = ""
    dns: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    max_pods: Any = None
    """None leaves it to the interfaces of the machine."""
    pods_per_core: Any = 0
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace: dict[str, str] = {}
    replaced: set[str] = set()
    """Maps that stand in place of the image's own: flags do that. Other maps are laid over it."""
    local_disks: bool = False
    """Whether pods live on the machine's own disks, striped."""
    rest: dict[str, Any] = {}
    """Whatever else the kubelet was told, by the name it was told under."""


GZIP_MAGIC: Final = b"\x1f\x8b"


def decode_user_data(encoded: str | None) -> str:
    """The text that a machine sees; Unbootable where it sees none."""
    if not encoded:
        return ""
    try:
        content = b64decode(encoded, validate=True)
        if content.startswith(GZIP_MAGIC):
            content = gzip.decompress(content)
        return content.decode()
    except (binascii.Error, OSError, EOFError, zlib.error, UnicodeError) as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"the user data cannot be decoded: {error}"
        ) from error


NODE_CONFIG_TYPE: Final = "application/node.eks.aws"
SHELL_SCRIPT_TYPE: Final = "text/x-shellscript"
FATAL_MIME_DEFECTS: Final = (
    errors.CloseBoundaryNotFoundDefect,
    errors.MultipartInvariantViolationDefect,
    errors.NoBoundaryInMultipartDefect,
    errors.StartBoundaryNotFoundDefect,
)
"""What the readers on real machines stumble over."""


class UserDataPart(msgspec.Struct, frozen=True):
    type: str
    text: str


def is_mime(text: str) -> bool:
    return text.lstrip().partition(":")[0].lower() in ("mime-version", "content-type")


def split_parts(text: str) -> list[UserDataPart]:
    """Those of a MIME document, nested ones in order; any other text is one part by itself."""
    if not is_mime(text):
        return [UserDataPart(_guess_content_type(text), text)]
    found: list[UserDataPart] = []
    for message in message_from_string(text.lstrip()).walk():
        broken = [each for each in message.defects if isinstance(each, FATAL_MIME_DEFECTS)]
        if broken:
            raise BootError(
                BootFailureReason.UNREADABLE,
                f"the user data is broken MIME: {type(broken[0]).__name__}",
            )
        if not message.is_multipart():
            found.append(UserDataPart(message.get_content_type(), _part_text(message)))
    return found


def _guess_content_type(text: str) -> str:
    if text.lstrip().startswith("#!"):
        return SHELL_SCRIPT_TYPE
    return NODE_CONFIG_TYPE if "node.eks.aws/" in text else "text/plain"


def _part_text(message: Message) -> str:
    content = message.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    try:
        return content.decode()
    except UnicodeError as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"a part of the user data is not text: {error}"
        ) from error


MAX_PODS_TABLE_BEGIN: Final = "# wain:max-pods begin"
MAX_PODS_TABLE_END: Final = "# wain:max-pods end"


class MaxPodsRow(NamedTuple):
    """The rest of a line, as text."""

    pods: str = ""
    reserved: str = ""


def look_up_max_pods(script: str, instance_type: str) -> MaxPodsRow | None:
    """What the script finds for the type: None without a table, nothing where no line fits."""
    _, begin, rest = script.partition(MAX_PODS_TABLE_BEGIN)
    if not begin:
        return None
    for line in rest.partition(MAX_PODS_TABLE_END)[0].splitlines():
        pattern, equals, said = line.strip().partition("=")
        if equals and fnmatchcase(instance_type, pattern):
            pods, _, reserved = said.partition("=")
            return MaxPodsRow(pods, reserved)
    return MaxPodsRow()
