"""User data: the facts of an instance before boot, decoding (base64, gzip, MIME parts), the
resulting bootstrap configuration, and why an instance never becomes a node.

Scripts may contain a table of max pods per instance type: lines `pattern=pods` between two markers;
the first pattern that matches the type applies, `*` matches any text. A second `=` may follow, with
the value of the --kube-reserved flag. The scripts look up the type and store the values in
variables.
"""

import binascii
import gzip
import zlib
from base64 import b64decode
from collections.abc import Mapping
from email import errors
from email.message import Message
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.manifests.user_data_formats import UnreadableUserData, parse_mime
from wainwright.model.taints import Taint


class BootFailureReason(StrEnum):
    NEVER_JOINS = "dud"
    """The instance never comes up, whatever its user data."""
    NOTHING = "nothing"
    """There is no user data."""
    UNREADABLE = "unreadable"
    """The user data cannot be decoded or parsed."""
    NO_BOOTSTRAP = "no-bootstrap"
    """Nothing in it makes a node join."""
    WRONG_IMAGE = "wrong-image"
    """It is written for another kind of image."""
    NO_CLUSTER = "no-cluster"
    """Name, endpoint or certificate of the cluster is missing."""
    OTHER_CLUSTER = "other-cluster"
    """The cluster does not exist, or its endpoint or certificate differs."""
    REFUSED = "refused"
    """The kubelet does not start with such settings."""
    UNREGISTERED = "unregistered"
    """The API server does not accept the node."""
    TOO_SMALL = "too-small"
    """More is reserved than the instance has."""


class BootFailure(msgspec.Struct, frozen=True):
    reason: BootFailureReason
    detail: str


class BootError(Exception):
    """Raised while user data is read; `boot_from_user_data` turns it into a BootFailure."""

    def __init__(self, reason: BootFailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class BootstrapMethod(StrEnum):
    """How user data makes an image join a cluster."""

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
        """Its default size."""
        return 50 if self is BootstrapMethod.WINDOWS else 20


METHOD_BY_IMAGE_PREFIX = {
    "amazon-eks-node-al2023-": BootstrapMethod.NODEADM,
    "amazon-eks-": BootstrapMethod.SHELL,
    "bottlerocket-": BootstrapMethod.BOTTLEROCKET,
    "Windows_Server-": BootstrapMethod.WINDOWS,
}
"""By name prefix of public images; the first that matches applies."""


class ClusterEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that can be joined."""

    endpoint: str
    certificate: str


class InstanceFacts(msgspec.Struct, frozen=True, kw_only=True):
    type_info: InstanceTypeInfo
    instance_id: str
    region: str
    zone: str
    zone_id: str
    private_dns: str
    """The node name."""
    image_name: str = ""
    """Determines the bootstrap method if it is a public image; else the user data does."""
    disks: Mapping[str, int] = {}
    """GiB by device name."""
    clusters: Mapping[str, ClusterEndpoint] | None = None
    """Clusters that the instance can reach, by name; None: not checked."""

    @property
    def image_method(self) -> BootstrapMethod | None:
        methods = (
            METHOD_BY_IMAGE_PREFIX[prefix]
            for prefix in METHOD_BY_IMAGE_PREFIX
            if self.image_name.startswith(prefix)
        )
        return next(methods, None)

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.instance_id}"


class BootstrapConfig(msgspec.Struct, kw_only=True):
    """The configuration as written: unchecked, and without defaults of the image."""

    method: BootstrapMethod
    cluster: str = ""
    endpoint: str = ""
    certificate: str = ""
    cidr: str = ""
    dns: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    max_pods: Any = None
    """None: derived from the network interfaces of the instance type."""
    pods_per_core: Any = 0
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace: dict[str, str] = {}
    replaced_maps: set[str] = set()
    """Maps set by flags, which replace the image's map; other maps are merged over it."""
    local_disks: bool = False
    """Whether pods use the striped local disks of the instance."""
    other_config: dict[str, Any] = {}
    """Other kubelet configuration, by flag or field name."""


GZIP_MAGIC: Final = b"\x1f\x8b"


def decode_user_data(encoded: str | None) -> str:
    """The decoded text; BootError where it cannot be decoded."""
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
"""Defects that the MIME parsers on real instances reject."""


class UserDataPart(msgspec.Struct, frozen=True):
    type: str
    text: str


def is_mime(text: str) -> bool:
    return text.lstrip().partition(":")[0].lower() in ("mime-version", "content-type")


def split_parts(text: str) -> list[UserDataPart]:
    """The parts of a MIME document, nested ones in order; any other text is a single part."""
    if not is_mime(text):
        return [UserDataPart(_guess_content_type(text), text)]
    try:
        messages = parse_mime(text)
    except UnreadableUserData as error:
        raise BootError(
            BootFailureReason.UNREADABLE, f"the user data is broken MIME: {error}"
        ) from error
    parts: list[UserDataPart] = []
    for message in messages:
        defects = [each for each in message.defects if isinstance(each, FATAL_MIME_DEFECTS)]
        if defects:
            raise BootError(
                BootFailureReason.UNREADABLE,
                f"the user data is broken MIME: {type(defects[0]).__name__}",
            )
        if not message.is_multipart():
            parts.append(UserDataPart(message.get_content_type(), _part_text(message)))
    return parts


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
    """The values of a line, as text."""

    pods: str = ""
    reserved: str = ""


def look_up_max_pods(script: str, instance_type: str) -> MaxPodsRow | None:
    """The row of the instance type: None without a table, an empty row where no line matches."""
    _, begin, rest = script.partition(MAX_PODS_TABLE_BEGIN)
    if not begin:
        return None
    for line in rest.partition(MAX_PODS_TABLE_END)[0].splitlines():
        pattern, equals, values = line.strip().partition("=")
        if equals and fnmatchcase(instance_type, pattern):
            pods, _, reserved = values.partition("=")
            return MaxPodsRow(pods, reserved)
    return MaxPodsRow()
