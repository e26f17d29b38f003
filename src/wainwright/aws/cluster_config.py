"""The cluster whose nodes the provider launches: its settings, its tags, what EKS says of it."""

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
    """Settings of the provider that hold for every class."""

    name: str
    region: str
    kubernetes_version: str = ""
    """As 1.33; empty: as EKS says."""
    service_cidr: str = ""
    """The addresses of services; empty: as EKS says."""
    ca_bundle: str = ""
    isolated_vpc: bool = False
    """Without a way to IAM and the price list: profiles are then the user's own affair."""
    dry_runs: bool = True
    """Whether permissions are tried out before a class counts as ready."""
    capacity_reservations: bool = True
    """The gate of that name."""

    def owner_tags(self) -> dict[str, str]:
        """What marks anything as made for this cluster."""
        return {f"kubernetes.io/cluster/{self.name}": OWNED_TAG_VALUE, CLUSTER_NAME_TAG: self.name}

    def class_tags(self, node_class: str, tags: Mapping[str, str] | None) -> dict[str, str]:
        """What marks anything as made for a class; what the user states does not change that."""
        return {**(tags or {}), **self.owner_tags(), EC2NODECLASS: node_class}

    def profile_tags(self, node_class: str, tags: Mapping[str, str] | None) -> dict[str, str]:
        return {**self.class_tags(node_class, tags), REGION: self.region}

    def launch_tags(
        self, node_class: str, pool: str, tags: Mapping[str, str] | None
    ) -> dict[str, str]:
        return {**self.class_tags(node_class, tags), NODEPOOL: pool}


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What EKS says of the cluster."""

    version: str
    endpoint: str = ""
    certificate: str = ""
    service_cidr: str = ""
    """Empty where EKS does not say it; images with nodeadm need it."""
    ipv6: bool = False


class ClusterInfoProvider:
    """Asks EKS, and remembers."""

    def __init__(self, eks: Eks, cluster: ClusterConfig, clock: Clock) -> None:
        self._eks = eks
        self._cluster = cluster
        self._known: TtlCache[ClusterInfo] = TtlCache(clock, CLUSTER_INFO_TTL)

    async def get(self) -> ClusterInfo:
        """All of them; what is stated goes before what EKS says."""
        return await self._known.get("cluster", self._ask)

    async def version(self) -> str:
        """Of Kubernetes; EKS is not asked where it is stated, as the cluster may not be its."""
        return self._cluster.kubernetes_version or (await self.get()).version

    async def service_cidr(self) -> str:
        return self._cluster.service_cidr or (await self.get()).service_cidr

    async def _ask(self) -> ClusterInfo:
        found = await self._eks.describe_cluster(self._cluster.name)
        network = found.get("kubernetesNetworkConfig") or {}
        ipv6 = network.get("ipFamily") == "ipv6"
        cidr = network.get("serviceIpv6Cidr" if ipv6 else "serviceIpv4Cidr")
        return ClusterInfo(
            version=self._cluster.kubernetes_version or found.get("version", ""),
            endpoint=found.get("endpoint", ""),
            certificate=(found.get("certificateAuthority") or {}).get("data", ""),
            service_cidr=self._cluster.service_cidr or cidr or "",
            ipv6=ipv6,
        )
