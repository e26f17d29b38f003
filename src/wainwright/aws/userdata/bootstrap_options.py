"""The input of user data: cluster, labels, taints, kubelet settings, and max-pods by type.

The instance type that a fleet launches is known only at boot, so user data carries max-pods for
every type: otherwise each max-pods value would need a launch template of its own. In the scripts
(AL2, AL2023: shell; Windows: PowerShell) the table is between two markers, and is read at boot:

    # wain:max-pods begin
    c5.large=20=memory=475Mi
    t3.large=35
    *.large=29
    *.xlarge=58
    *=110
    # wain:max-pods end

One line per pattern, `pattern=pods`. **The first line whose pattern matches the instance type
applies.** A pattern is the name of a type, or has a `*` for any characters, as in the shell (and in
`fnmatch`): `*.large` is the value of most types of that size, the types that differ come before it,
and the last line, `*`, is for an instance that cannot determine its type. Grouped by sizes, the
whole catalog of an architecture takes less than 7 KB, so a template does not depend on the instance
types of a particular launch. The type comes from the instance metadata service, with a session
token (IMDSv2); an instance that cannot reach it uses the last line.

The part after a second `=` is what the kubelet must reserve, in the syntax of --kube-reserved. An
image computes that from a list of types of its own, and would be wrong where an InstanceType object
sets the number of pods. (Shell only: Windows images compute it from the max-pods that they get.)

If every type has the same number there is no table: the number is part of the settings.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from wainwright.api.karpenter.kubelet import KubeletConfiguration
from wainwright.api.wire import LABEL_KEY_PATTERN, LABEL_VALUE_PATTERN
from wainwright.catalogue.instancetypes.node_class_settings import InstanceStorePolicy
from wainwright.errors import InvalidInputError
from wainwright.model.labels import DO_NOT_SYNC_TAINTS
from wainwright.model.taints import UNREGISTERED_TAINT, Taint

TABLE_BEGIN: Final = "# wain:max-pods begin"
TABLE_END: Final = "# wain:max-pods end"
ANY_TYPE: Final = "*"

MaxPodsSetting: TypeAlias = tuple[int, str]
"""Max-pods, and the value of --kube-reserved."""


class MaxPodsEntry(NamedTuple):
    pattern: str
    pods: int
    kube_reserved: str = ""
    """The value of --kube-reserved; mostly empty."""

    def __str__(self) -> str:
        line = f"{self.pattern}={self.pods}"
        return f"{line}={self.kube_reserved}" if self.kube_reserved else line


class MaxPodsTable(msgspec.Struct, frozen=True):
    """Patterns of instance types with their max-pods; the first match applies."""

    rows: tuple[MaxPodsEntry, ...]

    @property
    def default_pods(self) -> int:
        """For an instance that cannot determine its type."""
        return self.rows[-1].pods

    @property
    def is_uniform(self) -> bool:
        """Whether every type has the same value, so that no lookup is needed."""
        return len(self.rows) == 1

    @property
    def has_kube_reserved(self) -> bool:
        """Whether some type has a --kube-reserved value."""
        return any(row.kube_reserved for row in self.rows)

    def entry_for(self, instance_type: str) -> MaxPodsEntry:
        return next(row for row in self.rows if fnmatchcase(instance_type, row.pattern))

    @property
    def text(self) -> str:
        """The lines, with the markers around them."""
        return "\n".join([TABLE_BEGIN, *map(str, self.rows), TABLE_END])


def build_max_pods_table(
    max_pods_by_type: Mapping[str, int],
    max_pods: int | None = None,
    kube_reserved_by_type: Mapping[str, str] | None = None,
) -> MaxPodsTable | None:
    """The table for these types; None if neither the class nor a type sets max-pods.

    Unknown types get the value of the class, else the smallest of any type: pending pods are better
    than pods without an IP address. Their image computes what the kubelet reserves.
    """
    if max_pods is None and not max_pods_by_type:
        return None
    kube_reserved = kube_reserved_by_type or {}
    settings = {
        name: (pods, kube_reserved.get(name, "")) for name, pods in max_pods_by_type.items()
    }
    default = (min(max_pods_by_type.values()) if max_pods is None else max_pods, "")
    exact: list[MaxPodsEntry] = []
    by_size: list[MaxPodsEntry] = []
    for size, size_settings in _group_by_size(settings).items():
        most_common = _most_common(size_settings, default) if size else default
        if most_common != default:
            by_size.append(MaxPodsEntry(f"{ANY_TYPE}.{size}", *most_common))
        exact += [
            MaxPodsEntry(name, *setting)
            for name, setting in size_settings.items()
            if setting != most_common
        ]
    return MaxPodsTable((*sorted(exact), *sorted(by_size), MaxPodsEntry(ANY_TYPE, *default)))


def _group_by_size(
    settings: Mapping[str, MaxPodsSetting],
) -> dict[str, dict[str, MaxPodsSetting]]:
    sizes: dict[str, dict[str, MaxPodsSetting]] = defaultdict(dict)
    for name, setting in settings.items():
        sizes[name.rpartition(".")[2] if "." in name else ""][name] = setting
    return sizes


def _most_common(settings: Mapping[str, MaxPodsSetting], default: MaxPodsSetting) -> MaxPodsSetting:
    """The setting of the size's line: the most common one, unless the line saves no other line."""
    counts = Counter(settings.values())
    setting, count = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return setting if count > 1 else default


SHELL_LOOKUP: Final = """\
imds=http://169.254.169.254/latest
token=$(curl -sf --retry 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' $imds/api/token)
type=$(curl -sf --retry 5 -H "X-aws-ec2-metadata-token: $token" $imds/meta-data/instance-type)
while IFS='=' read -r pattern pods kube_reserved; do
  case "$type" in $pattern) max_pods=$pods; break ;; esac
done <<'TABLE'
{table}
TABLE
"""
POWERSHELL_LOOKUP: Final = """\
$MaxPodsTable = @'
{table}
'@
$InstanceType = ''
try {{
  $Imds = 'http://169.254.169.254/latest'
  $Ttl = @{{'X-aws-ec2-metadata-token-ttl-seconds' = '300'}}
  $Token = Invoke-RestMethod -Method Put -Uri "$Imds/api/token" -Headers $Ttl
  $Session = @{{'X-aws-ec2-metadata-token' = $Token}}
  $InstanceType = Invoke-RestMethod -Uri "$Imds/meta-data/instance-type" -Headers $Session
}} catch {{ Write-Host "instance type unknown: $_" }}
foreach ($Line in $MaxPodsTable -split "`r?`n") {{
  $Pattern, $Pods = $Line -split '='
  if ($Pods -and $InstanceType -clike $Pattern) {{ $MaxPods = $Pods; break }}
}}
"""


def shell_lookup(table: MaxPodsTable) -> str:
    return SHELL_LOOKUP.format(table=table.text)


def powershell_lookup(table: MaxPodsTable) -> str:
    return POWERSHELL_LOOKUP.format(table=table.text)


RESTRICTED_LABEL_DOMAINS: Final = ("kubernetes.io", "k8s.io")
"""Domains whose labels a kubelet may not set; they are set at the registration of the node."""

EVICTION_THRESHOLDS: Final = ("evictionHard", "evictionSoft")


class IpFamily(Enum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"


class BootstrapOptions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The input of user data. Equal values give equal bytes."""

    cluster: str
    endpoint: str
    ca: str
    """The cluster's certificate authority, in base64 as EKS returns it."""
    service_cidr: str = ""
    """The CIDR of services; required for AL2023 only."""
    dns_ip: str = ""
    """Of the cluster's DNS, if the class sets no clusterDNS; empty leaves it to the image."""
    ip_family: IpFamily = IpFamily.IPV4
    kubelet: KubeletConfiguration = KubeletConfiguration()
    """Of the class; its maxPods is ignored in favour of `max_pods`."""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    instance_store: InstanceStorePolicy | None = None
    custom_user_data: str = ""
    """spec.userData of the class."""
    max_pods: int | None = None
    """Of the class; None leaves it to `max_pods_by_type`, or else to the image."""
    max_pods_by_type: Mapping[str, int] = {}
    """The max-pods in effect by instance type."""
    kube_reserved_by_type: Mapping[str, str] = {}
    """Values of --kube-reserved, for the types whose image would compute another value."""

    @cached_property
    def max_pods_table(self) -> MaxPodsTable | None:
        return build_max_pods_table(
            self.max_pods_by_type, self.max_pods, self.kube_reserved_by_type
        )

    @property
    def uses_raid0(self) -> bool:
        return self.instance_store is InstanceStorePolicy.RAID0

    @property
    def node_labels(self) -> dict[str, str]:
        """Labels that the kubelet may set, sorted; and the one that says that it sets taints."""
        labels = {
            key: value
            for key, value in self.labels.items()
            if not _in_domain(key, RESTRICTED_LABEL_DOMAINS)
        }
        for key, value in labels.items():
            _check_pattern("label key", key, LABEL_KEY_PATTERN)
            _check_pattern(f"value of the label {key}", value, LABEL_VALUE_PATTERN)
        return dict(sorted((labels | {DO_NOT_SYNC_TAINTS: "true"}).items()))

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """Each key and effect once, sorted: Kubernetes rejects a node with a duplicate taint."""
        taints: dict[tuple[str, str], Taint] = {}
        for taint in (*self.taints, *self.startup_taints, UNREGISTERED_TAINT):
            _check_pattern("taint key", taint.key, LABEL_KEY_PATTERN)
            _check_pattern(f"value of the taint {taint.key}", taint.value, LABEL_VALUE_PATTERN)
            taints.setdefault((taint.key, taint.effect), taint)
        return tuple(taints[key] for key in sorted(taints))

    @property
    def dns_ips(self) -> tuple[str, ...]:
        return tuple(self.kubelet.clusterDNS or (self.dns_ip,) * bool(self.dns_ip))

    @property
    def kubelet_settings(self) -> dict[str, Any]:
        """The class's settings by their name in KubeletConfiguration, with sorted keys."""
        settings: dict[str, Any] = msgspec.to_builtins(self.kubelet)
        settings.pop("maxPods", None)
        if self.dns_ips:
            settings["clusterDNS"] = list(self.dns_ips)
        for name, value in settings.items():
            if isinstance(value, dict):
                settings[name] = {
                    key: each for key, each in sorted(value.items()) if _is_set(name, each)
                }
        return dict(sorted(settings.items()))


def _is_set(name: str, value: str) -> bool:
    """An empty threshold sets nothing, as in the kubelet's file; as a flag it is an error."""
    return name not in EVICTION_THRESHOLDS or bool(value)


def _in_domain(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def _check_pattern(what: str, text: str, pattern: str) -> None:
    """An instance with labels or taints that Kubernetes rejects would never become a node."""
    if re.fullmatch(pattern, text) is None:
        raise InvalidInputError(f"Kubernetes accepts no {what} like {text!r}")


KUBELET_FLAGS: Final = {
    "podsPerCore": "pods-per-core",
    "evictionMaxPodGracePeriod": "eviction-max-pod-grace-period",
    "imageGCHighThresholdPercent": "image-gc-high-threshold",
    "imageGCLowThresholdPercent": "image-gc-low-threshold",
    "cpuCFSQuota": "cpu-cfs-quota",
}
KUBELET_MAP_FLAGS: Final = {
    "systemReserved": ("system-reserved", "="),
    "kubeReserved": ("kube-reserved", "="),
    "evictionHard": ("eviction-hard", "<"),
    "evictionSoft": ("eviction-soft", "<"),
    "evictionSoftGracePeriod": ("eviction-soft-grace-period", "="),
}
"""Name of the flag, and the separator between key and value."""

UNQUOTABLE: Final = re.compile(r"""[\s'"`\\$,]""")


def kubelet_flags(bootstrap: BootstrapOptions) -> str:
    """All but max-pods. Lists are in double quotes, which the service manager removes."""
    return " ".join(_iter_flags(bootstrap))


def _iter_flags(bootstrap: BootstrapOptions) -> Iterator[str]:
    settings = bootstrap.kubelet_settings
    for field, name in KUBELET_FLAGS.items():
        if field in settings:
            yield f"--{name}={str(settings[field]).lower()}"
    for field, (name, separator) in KUBELET_MAP_FLAGS.items():
        if settings.get(field):
            yield _list_flag(
                name,
                (
                    f"{key}{separator}{_flag_value(value)}"
                    for key, value in _map_items(settings, field)
                ),
            )
    yield _list_flag(
        "node-labels", (f"{key}={value}" for key, value in bootstrap.node_labels.items())
    )
    yield _list_flag(
        "register-with-taints",
        (f"{each.key}={each.value}:{each.effect}" for each in bootstrap.node_taints),
    )


def _map_items(settings: Mapping[str, Mapping[str, str]], field: str) -> list[tuple[str, str]]:
    return list(settings[field].items())


def _list_flag(name: str, items: Iterator[str]) -> str:
    return f'--{name}="{",".join(items)}"'


def _flag_value(value: str) -> str:
    """The value, if it survives two programs that split and unquote the command line."""
    if UNQUOTABLE.search(value):
        raise InvalidInputError(
            f"{value!r} cannot be written on the kubelet's command line",
            "leave blanks, commas, quotes, dollars and backslashes out of the kubelet's settings",
        )
    return value
