"""The cluster whose nodes the provider launches: its settings, its tags, its data from EKS."""

from collections.abc import Mapping
from typing import Final

import msgspec

from wainwright.aws.api.batching import TtlCache
from wainwright.aws.api.services import Eks
from wainwright.clock import Clock
from wainwright.model.labels import EC2NODECLASS, NODEPOOL, REGION

CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
OWNED_TAG_VALUE: Final = "owned"
CLUSTER_INFO_TTL: Final = 300.0  # seconds; a cluster changes its version once in months


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the provider that apply to every class."""

    name: str
    region: str
    kubernetes_version: str = ""
    """For example 1.33; empty: taken from EKS."""
    service_cidr: str = ""
    """The CIDR of services; empty: taken from EKS."""
    ca_bundle: str = ""
    isolated_vpc: bool = False
    """IAM and the price list cannot be reached: users must manage instance profiles."""
    dry_runs: bool = True
    """Whether permissions are checked by dry runs before a class counts as ready."""
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
    """The cluster as EKS describes it."""

    version: str
    endpoint: str = ""
    certificate: str = ""
    service_cidr: str = ""
    """Empty if EKS does not return it; images with nodeadm need it."""
    ipv6: bool = False


class ClusterInfoProvider:
    """Describes the cluster, cached for a few minutes."""

    def __init__(self, eks: Eks, cluster: ClusterConfig, clock: Clock) -> None:
        self._eks = eks
        self._cluster = cluster
        self._cache: TtlCache[ClusterInfo] = TtlCache(clock, CLUSTER_INFO_TTL)

    async def get(self) -> ClusterInfo:
        """The description; settings take precedence over EKS."""
        return await self._cache.get("cluster", self._fetch)

    async def version(self) -> str:
        """Of Kubernetes; EKS is not called if it is configured: the cluster may not be on EKS."""
        return self._cluster.kubernetes_version or (await self.get()).version

    async def service_cidr(self) -> str:
        return self._cluster.service_cidr or (await self.get()).service_cidr

    async def _fetch(self) -> ClusterInfo:
        description = await self._eks.describe_cluster(self._cluster.name)
        network = description.get("kubernetesNetworkConfig") or {}
        ipv6 = network.get("ipFamily") == "ipv6"
        cidr = network.get("serviceIpv6Cidr" if ipv6 else "serviceIpv4Cidr")
        return ClusterInfo(
            version=self._cluster.kubernetes_version or description.get("version", ""),
            endpoint=description.get("endpoint", ""),
            certificate=(description.get("certificateAuthority") or {}).get("data", ""),
            service_cidr=self._cluster.service_cidr or cidr or "",
            ipv6=ipv6,
        )
