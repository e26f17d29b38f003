"""Ordering: a claim with everything that its launch follows from, ready for a request."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.kubelet import Kubelet
from wainwright.aws.cluster import Cluster, ClusterFacts
from wainwright.aws.launching import Choice, Chooser, Ware
from wainwright.aws.nodeclass.resolved import Resolved, Subnet
from wainwright.aws.templates.content import Common, Reservation
from wainwright.aws.templates.kinds import Kind
from wainwright.aws.templates.split import Launch, Offer, Split, split
from wainwright.aws.userdata.bootstrap import Bootstrap, IpFamily
from wainwright.catalogue.built import Built
from wainwright.catalogue.devices import EFA
from wainwright.catalogue.nodeclass import ami_family
from wainwright.catalogue.settings import InstanceStorePolicy
from wainwright.model.claim import Claim

ISOLATED: Final = ("us-iso", "us-isob", "us-isof", "eu-isoe")
"""What regions begin with in which EC2 lacks the newest options."""


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that nodes join."""

    cluster: Cluster
    facts: ClusterFacts
    dns_ip: str = ""
    """Of the cluster's DNS, where a class names none."""


class Source(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A class as it is launched from now."""

    node_class: EC2NodeClass
    resolved: Resolved
    built: Built
    kinds: Mapping[str, Kind]
    chooser: Chooser

    @cached_property
    def identity(self) -> bytes:
        """All of it that a launch depends on, but for prices and counts."""
        resolved = self.resolved
        group = resolved.placement_group
        return msgspec.json.encode(
            [
                resolved.uid or resolved.name,
                self.node_class.spec,
                [image.id for image in resolved.images],
                [each.id for each in resolved.security_groups],
                [each.id for each in resolved.subnets],
                resolved.profile,
                group and group.id,
                {name: [kind.density, kind.reserved] for name, kind in self.kinds.items()},
            ],
            order="deterministic",
        )


class Order(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One machine for one claim."""

    claim: Claim
    choice: Choice
    source: Source
    site: Site

    @cached_property
    def key(self) -> bytes:
        """Equal for orders that one request can fulfil, whichever machine each of them gets."""
        claim, choice = self.claim, self.choice
        told = msgspec.structs.replace(choice, notes=())
        mine = [claim.pool, claim.labels, claim.taints, claim.startup_taints, self.efa]
        rest = [told, mine, self.context, self.site.facts]
        return self.source.identity + msgspec.json.encode(rest, order="deterministic")

    @property
    def efa(self) -> bool:
        """Whether its pods ask for such interfaces."""
        return self.claim.requests.get(EFA, 0) > 0

    @property
    def context(self) -> str:
        """What the class has EC2 told; not where the claim is less diverse than it should be."""
        return "" if self.claim.min_values_relaxed else self.source.node_class.spec.context or ""

    @property
    def tags(self) -> dict[str, str]:
        spec, name = self.source.node_class.spec, self.source.resolved.name
        return self.site.cluster.launch_tags(name, self.claim.pool, spec.tags)

    def divided(self, subnets: Mapping[str, Subnet], free: Callable[[str], int]) -> Split:
        """Among templates, each type and zone once; nothing where no zone has a subnet left."""
        return split(
            Launch(
                common=common(self),
                bootstrap=bootstrap(self),
                images=self.source.resolved.images,
                kinds=self.source.kinds,
                offers=tuple(self._offers(subnets, free)),
                efa=self.efa,
                prioritised=self.choice.prioritised,
            )
        )

    def _offers(self, subnets: Mapping[str, Subnet], free: Callable[[str], int]) -> Sequence[Offer]:
        return [
            Offer(
                kind=ware.kind,
                zone=ware.zone,
                subnet=subnets[ware.zone].id,
                price=ware.price,
                reservation=self._reservation(ware, free),
            )
            for ware in self.choice.wares
            if ware.zone in subnets and ware.kind in self.source.kinds
        ]

    def _reservation(self, ware: Ware, free: Callable[[str], int]) -> Reservation | None:
        if not ware.reservation:
            return None
        return Reservation(
            id=ware.reservation,
            free=free(ware.reservation),
            kind=self.choice.reservation_type,
            interruptible=self.choice.interruptible,
        )


def common(order: Order) -> Common:
    """What all templates of the order share."""
    source, cluster = order.source, order.site.cluster
    spec, resolved = source.node_class.spec, source.resolved
    return Common(
        spec=spec,
        family=ami_family(spec),
        groups=tuple(each.id for each in resolved.security_groups),
        profile=resolved.profile,
        tags=order.tags,
        capacity_type=order.choice.capacity_type,
        ipv6=order.site.facts.ipv6,
        isolated_region=cluster.region.startswith(ISOLATED),
        reservations_on=cluster.capacity_reservations,
        tenancy=order.choice.tenancy,
        placement=_placement(resolved),
    )


def _placement(resolved: Resolved) -> dict[str, Any]:
    group = resolved.placement_group
    return {} if group is None else {"GroupId": group.id}


def bootstrap(order: Order) -> Bootstrap:
    """What the machine is told; labels of a single claim are left to its registration."""
    site, claim, spec = order.site, order.claim, order.source.node_class.spec
    settings, policy = order.source.built.settings, spec.instanceStorePolicy
    return Bootstrap(
        cluster=site.cluster.name,
        endpoint=site.facts.endpoint,
        ca=site.cluster.ca_bundle or site.facts.certificate,
        cidr=site.cluster.service_cidr or site.facts.service_cidr,
        dns_ip=site.dns_ip,
        ip_family=IpFamily.IPV6 if site.facts.ipv6 else IpFamily.IPV4,
        kubelet=spec.kubelet or Kubelet(),
        labels=claim.labels,
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        instance_store=None if policy is None else InstanceStorePolicy(policy),
        text=spec.userData or "",
        max_pods=None if settings is None else settings.kubelet.max_pods,
    )
