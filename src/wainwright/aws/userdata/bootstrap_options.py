"""What user data is written from: cluster, labels, taints, kubelet settings, and max-pods by type.

The instance type that a fleet launches is known only when it boots, so that its user data carries
max-pods for every type: launch templates need not multiply. In the scripts (AL2, AL2023: shell;
Windows: PowerShell) the table lies between two markers, and is read at boot like this:

    # wain:max-pods begin
    c5.large=20=memory=475Mi
    t3.large=35
    *.large=29
    *.xlarge=58
    *=110
    # wain:max-pods end

One line per pattern, `pattern=pods`. **The first line whose pattern matches the instance type
counts.** A pattern is the name of a type, or holds a `*` for any letters, as in the shell (and in
`fnmatch`): `*.large` is what most types of that size take, the types that differ stand before it,
and the last line, `*`, is for an instance that cannot find out what it is. By sizes the whole
catalog of an architecture takes less than 7 KB, and so a template does not depend on which of the
types a launch happens to ask for. The type comes from the instance metadata service, with a session
token (IMDSv2); an instance that cannot reach it takes the last line.

What stands behind a second `=` the kubelet must reserve, in the words of its own flag. An image
computes that by a list of types that it brings along, and would be wrong where an InstanceType
object says how many pods there are. (Shell only: Windows computes with the pods that it is told.)

Where every type takes the same number there is no table: the number stands in the settings.
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
"""Pods, and what is kept."""


class MaxPodsEntry(NamedTuple):
    pattern: str
    pods: int
    reserved: str = ""
    """What the kubelet is told to keep; mostly nothing."""

    def __str__(self) -> str:
        said = f"{self.pattern}={self.pods}"
        return f"{said}={self.reserved}" if self.reserved else said


class MaxPodsTable(msgspec.Struct, frozen=True):
    """Patterns of instance types with the pods each takes; the first that matches counts."""

    rows: tuple[MaxPodsEntry, ...]

    @property
    def otherwise(self) -> int:
        """For an instance that cannot find out its type."""
        return self.rows[-1].pods

    @property
    def uniform(self) -> bool:
        """Whether every type takes the same, so that nothing needs to be looked up."""
        return len(self.rows) == 1

    @property
    def reserves(self) -> bool:
        """Whether some type is told what to keep."""
        return any(row.reserved for row in self.rows)

    def of(self, instance_type: str) -> MaxPodsEntry:
        return next(row for row in self.rows if fnmatchcase(instance_type, row.pattern))

    @property
    def text(self) -> str:
        """The lines between the markers, and the markers."""
        return "\n".join([TABLE_BEGIN, *map(str, self.rows), TABLE_END])


def build_max_pods_table(
    densities: Mapping[str, int],
    max_pods: int | None = None,
    reserved: Mapping[str, str] | None = None,
) -> MaxPodsTable | None:
    """The table for these types; None where nobody has said anything about pods.

    Unknown types take what the class says, else the fewest that any type takes: pods that wait
    for a place are better than pods without an address. They keep what their image reckons.
    """
    if max_pods is None and not densities:
        return None
    told = reserved or {}
    sizes = _by_size({name: (pods, told.get(name, "")) for name, pods in densities.items()})
    otherwise = (min(densities.values()) if max_pods is None else max_pods, "")
    exact: list[MaxPodsEntry] = []
    common: list[MaxPodsEntry] = []
    for size, kin in sizes.items():
        usual = _most_common(kin, otherwise) if size else otherwise
        if usual != otherwise:
            common.append(MaxPodsEntry(f"{ANY_TYPE}.{size}", *usual))
        exact += [MaxPodsEntry(name, *said) for name, said in kin.items() if said != usual]
    return MaxPodsTable((*sorted(exact), *sorted(common), MaxPodsEntry(ANY_TYPE, *otherwise)))


def _by_size(said: Mapping[str, MaxPodsSetting]) -> dict[str, dict[str, MaxPodsSetting]]:
    sizes: dict[str, dict[str, MaxPodsSetting]] = defaultdict(dict)
    for name, each in said.items():
        sizes[name.rpartition(".")[2] if "." in name else ""][name] = each
    return sizes


def _most_common(kin: Mapping[str, MaxPodsSetting], otherwise: MaxPodsSetting) -> MaxPodsSetting:
    """What the size is written with: what most of it take, unless that saves no line."""
    counted = Counter(kin.values())
    usual, times = min(counted.items(), key=lambda item: (-item[1], item[0]))
    return usual if times > 1 else otherwise


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
"""Domains whose labels the API server takes from no kubelet; they come with the registration."""

EVICTION_THRESHOLDS: Final = ("evictionHard", "evictionSoft")


class IpFamily(Enum):
    IPV4 = "ipv4"
    IPV6 = "ipv6"


class BootstrapOptions(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What user data is written from. Equal values give equal bytes."""

    cluster: str
    endpoint: str
    ca: str
    """The cluster's certificate authority, in base64 as EKS gives it."""
    cidr: str = ""
    """Of the cluster's services; only AL2023 must have it."""
    dns_ip: str = ""
    """Of the cluster's DNS, where the class names none; empty leaves it to the image."""
    ip_family: IpFamily = IpFamily.IPV4
    kubelet: KubeletConfiguration = KubeletConfiguration()
    """As the class has it; its maxPods is not looked at, `max_pods` is."""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    instance_store: InstanceStorePolicy | None = None
    text: str = ""
    """The user's own."""
    max_pods: int | None = None
    """What the class says; None leaves it to the densities, or else to the image."""
    densities: Mapping[str, int] = {}
    """The pods in force by instance type."""
    reserved: Mapping[str, str] = {}
    """What the kubelet must keep, as its flag takes it, by the types whose image would not know."""

    @cached_property
    def table(self) -> MaxPodsTable | None:
        return build_max_pods_table(self.densities, self.max_pods, self.reserved)

    @property
    def stripes_disks(self) -> bool:
        return self.instance_store is InstanceStorePolicy.RAID0

    @property
    def node_labels(self) -> dict[str, str]:
        """Those the kubelet may set, in order; and the one that says that taints come with it."""
        found = {
            key: value
            for key, value in self.labels.items()
            if not _in_domain(key, RESTRICTED_LABEL_DOMAINS)
        }
        for key, value in found.items():
            _check_pattern("label key", key, LABEL_KEY_PATTERN)
            _check_pattern(f"value of the label {key}", value, LABEL_VALUE_PATTERN)
        return dict(sorted((found | {DO_NOT_SYNC_TAINTS: "true"}).items()))

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """Each key and effect once, in order: a node with the same taint twice is refused."""
        found: dict[tuple[str, str], Taint] = {}
        for taint in (*self.taints, *self.startup_taints, UNREGISTERED_TAINT):
            _check_pattern("taint key", taint.key, LABEL_KEY_PATTERN)
            _check_pattern(f"value of the taint {taint.key}", taint.value, LABEL_VALUE_PATTERN)
            found.setdefault((taint.key, taint.effect), taint)
        return tuple(found[key] for key in sorted(found))

    @property
    def dns_ips(self) -> tuple[str, ...]:
        return tuple(self.kubelet.clusterDNS or (self.dns_ip,) * bool(self.dns_ip))

    @property
    def kubelet_settings(self) -> dict[str, Any]:
        """What the class sets, spelt as in the kubelet's own configuration, maps in order."""
        made: dict[str, Any] = msgspec.to_builtins(self.kubelet)
        made.pop("maxPods", None)
        if self.dns_ips:
            made["clusterDNS"] = list(self.dns_ips)
        for name, value in made.items():
            if isinstance(value, dict):
                made[name] = {
                    key: each for key, each in sorted(value.items()) if _is_set(name, each)
                }
        return dict(sorted(made.items()))


def _is_set(name: str, value: str) -> bool:
    """An empty threshold sets nothing, as for the kubelet; on its command line it is an error."""
    return name not in EVICTION_THRESHOLDS or bool(value)


def _in_domain(key: str, domains: tuple[str, ...]) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == each or domain.endswith(f".{each}") for each in domains)


def _check_pattern(what: str, text: str, pattern: str) -> None:
    """What Kubernetes refuses would make an instance that never becomes a node."""
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
"""Name of the flag, and what stands between key and value."""

UNQUOTABLE: Final = re.compile(r"""[\s'"`\\$,]""")


def kubelet_flags(bootstrap: BootstrapOptions) -> str:
    """All but max-pods. Lists are in double quotes, which the service manager takes off again."""
    return " ".join(_iter_flags(bootstrap))


def _iter_flags(bootstrap: BootstrapOptions) -> Iterator[str]:
    settings = bootstrap.kubelet_settings
    for field, name in KUBELET_FLAGS.items():
        if field in settings:
            yield f"--{name}={str(settings[field]).lower()}"
    for field, (name, between) in KUBELET_MAP_FLAGS.items():
        if settings.get(field):
            yield _list_flag(
                name,
                (
                    f"{key}{between}{_flag_value(value)}"
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
    """The value, if it comes through two programs that split and unquote it on the way."""
    if UNQUOTABLE.search(value):
        raise InvalidInputError(
            f"{value!r} cannot be written on the kubelet's command line",
            "leave blanks, commas, quotes, dollars and backslashes out of the kubelet's settings",
        )
    return value
