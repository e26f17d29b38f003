"""The cluster whose nodes the provider launches: its settings, its tags, its data from EKS."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.services import Eks, Row
from wainwright.clock import Clock
from wainwright.model.labels import EC2NODECLASS, NODEPOOL, REGION

CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
OWNED_TAG_VALUE: Final = "owned"
CLUSTER_INFO_TTL: Final = 300.0  # seconds; a cluster changes its version once in months

VersionSource: TypeAlias = Callable[[], Awaitable[str]]
"""The version of the API server, such as 1.33, as it is now."""


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the provider that apply to every class."""

    name: str
    region: str
    kubernetes_version: str = ""
    """For example 1.33; empty: taken from the API server or EKS."""
    service_cidr: str = ""
    """The CIDR of services; empty: taken from EKS."""
    endpoint: str = ""
    """The URL of the API server; empty: taken from EKS."""
    ca_bundle: str = ""
    """Of its certificates, in base64; empty: taken from EKS."""
    ipv6: bool | None = None
    """Whether pods and services have IPv6 addresses; None: taken from EKS."""
    isolated_vpc: bool = False
    """IAM and the price list cannot be reached: users must manage instance profiles."""
    dry_runs: bool = True
    """Whether permissions are checked by dry runs before a class counts as ready."""
    read_only: bool = False
    """Whether nothing in the account may change: instance profiles are named and not made, and no
    launch is tried out, whatever `dry_runs` says."""
    capacity_reservations: bool = True
    """The feature gate of that name."""

    def owner_tags(self) -> dict[str, str]:
        """Tags of every resource that is created for this cluster."""
        return {f"kubernetes.io/cluster/{self.name}": OWNED_TAG_VALUE, CLUSTER_NAME_TAG: self.name}

    def class_tags(self, node_class: str, tags: Mapping[str, str] | None) -> dict[str, str]:
        """Tags of every resource that is created for a class; user tags cannot override ours."""
        return {**(tags or {}), **self.owner_tags(), EC2NODECLASS: node_class}

    def profile_tags(self, node_class: str, tags: Mapping[str, str] | None) -> dict[str, str]:
        return {**self.class_tags(node_class, tags), REGION: self.region}

    def launch_tags(
        self, node_class: str, pool: str, tags: Mapping[str, str] | None
    ) -> dict[str, str]:
        return {**self.class_tags(node_class, tags), NODEPOOL: pool}


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What nodes are told of the cluster that they join."""

    endpoint: str = ""
    certificate: str = ""
    service_cidr: str = ""
    """Empty if nobody knows it; images with nodeadm need it."""
    ipv6: bool = False


class ClusterInfoProvider:
    """Settings, and what they leave open as EKS describes it, cached for a few minutes."""

    def __init__(
        self,
        eks: Eks,
        cluster: ClusterConfig,
        clock: Clock,
        server_version: VersionSource | None = None,
    ) -> None:
        self._eks, self._cluster = eks, cluster
        self._server_version = server_version
        self._descriptions: TtlCache[Row] = TtlCache(clock, CLUSTER_INFO_TTL)
        self._versions: TtlCache[str] = TtlCache(clock, CLUSTER_INFO_TTL)

    async def get(self, *, with_service_cidr: bool = True) -> ClusterInfo:
        """EKS is not called where settings say it all: it may not know the cluster, or may not be
        within reach. Nodes of IPv6 need the service CIDR in any case.
        """
        cluster = self._cluster
        is_known = bool(cluster.endpoint and cluster.ca_bundle) and cluster.ipv6 is not None
        needs_cidr = (with_service_cidr or cluster.ipv6) and not cluster.service_cidr
        return self._info({} if is_known and not needs_cidr else await self._describe())

    async def version(self) -> str:
        """Of Kubernetes, such as 1.33: of the API server where it can be asked."""
        if self._cluster.kubernetes_version:
            return self._cluster.kubernetes_version
        if self._server_version is not None:
            return await self._versions.get("version", self._server_version)
        version: str = (await self._describe()).get("version", "")
        return version

    async def service_cidr(self) -> str:
        return self._cluster.service_cidr or self._info(await self._describe()).service_cidr

    async def _describe(self) -> Row:
        return await self._descriptions.get(
            "cluster", lambda: self._eks.describe_cluster(self._cluster.name)
        )

    def _info(self, description: Row) -> ClusterInfo:
        cluster, network = self._cluster, description.get("kubernetesNetworkConfig") or {}
        ipv6 = network.get("ipFamily") == "ipv6" if cluster.ipv6 is None else cluster.ipv6
        cidr = network.get("serviceIpv6Cidr" if ipv6 else "serviceIpv4Cidr")
        authority = description.get("certificateAuthority") or {}
        return ClusterInfo(
            endpoint=cluster.endpoint or description.get("endpoint", ""),
            certificate=cluster.ca_bundle or authority.get("data", ""),
            service_cidr=cluster.service_cidr or cidr or "",
            ipv6=ipv6,
        )
