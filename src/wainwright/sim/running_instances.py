"""Instances that a cluster has already when an emulated account is set up for it."""

from datetime import datetime
from typing import Final

from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.karpenter.nodeclaim import NodeClaim
from wainwright.catalogue.instancetypes.instance_type_info import InstanceTypeInfo
from wainwright.emulator.ec2.instance.launcher import InstanceLaunchRequest
from wainwright.emulator.ec2.instance.lifecycle import OPEN, RESERVATIONS_ONLY
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.selected_resources import SelectedResources
from wainwright.errors import AwsError
from wainwright.model.labels import (
    CAPACITY_TYPE,
    EC2NODECLASS,
    INSTANCE_TYPE,
    NODEPOOL,
    ON_DEMAND,
    RESERVATION_ID,
    RESERVED,
    SPOT,
)
from wainwright.translate.node_claim_pairing import NodeWithClaim

NODECLAIM_TAG: Final = "karpenter.sh/nodeclaim"


class RunningInstances:
    """Adds the instances of nodes and claims to an account, as their launches would have."""

    def __init__(self, account: EmulatedAwsAccount, resources: SelectedResources) -> None:
        self._account, self._resources = account, resources
        self._images: dict[tuple[str, str], str | None] = {}
        """By class and instance type: looking one up reads all published images."""
        self._groups: dict[str, list[str]] = {}

    def add(
        self,
        paired: NodeWithClaim,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        *,
        identity: str,
        zone: str,
        created: str,
    ) -> None:
        """AwsError where EC2 does not sell the type in the zone."""
        request = self._launch_request(paired, claim, node_class, zone)
        launched = datetime.fromisoformat(created).timestamp()
        self._account.services.add_running_instance(request, identity, launched=launched)

    def _launch_request(
        self, paired: NodeWithClaim, claim: NodeClaim, node_class: EC2NodeClass, zone: str
    ) -> InstanceLaunchRequest:
        name = label_of(paired, INSTANCE_TYPE)
        info = self._account.region_offerings.instance_types.get(name)
        subnet = self._resources.subnet_of(node_class, zone)
        if info is None or subnet is None:
            raise AwsError("InvalidParameterValue", f"no {name} is sold in {zone}")
        stated = claim.status.imageID if claim.status is not None else ""
        image = stated or self._image_of(node_class, info)
        reservation = label_of(paired, RESERVATION_ID)
        capacity_type = label_of(paired, CAPACITY_TYPE) or ON_DEMAND
        reserved = self._account.services.reservations.state.reservations.get(reservation)
        is_reserved = capacity_type == RESERVED and reserved is not None and reserved.active
        lifecycle = SPOT if capacity_type == SPOT else ON_DEMAND
        return InstanceLaunchRequest(
            type=name,
            subnet=subnet,
            data={
                "ImageId": image,
                "SecurityGroupIds": self._groups_of(node_class),
            },
            lifecycle=reserved.lifecycle if is_reserved and reserved is not None else lifecycle,
            preference=RESERVATIONS_ONLY if is_reserved else OPEN,
            target=reservation if is_reserved else None,
            tags=self._instance_tags(paired, claim, node_class),
        )

    def _image_of(self, node_class: EC2NodeClass, info: InstanceTypeInfo) -> str | None:
        key = (node_class.metadata.name, info.name)
        if key not in self._images:
            self._images[key] = self._resources.image_of(node_class, info)
        return self._images[key]

    def _groups_of(self, node_class: EC2NodeClass) -> list[str]:
        name = node_class.metadata.name
        if name not in self._groups:
            self._groups[name] = self._resources.security_groups_of(node_class)
        return self._groups[name]

    def _instance_tags(
        self, paired: NodeWithClaim, claim: NodeClaim, node_class: EC2NodeClass
    ) -> dict[str, str]:
        cluster = self._account.account.cluster
        return {
            **(node_class.spec.tags or {}),
            f"kubernetes.io/cluster/{cluster}": "owned",
            "eks:eks-cluster-name": cluster,
            EC2NODECLASS: node_class.metadata.name,
            NODEPOOL: paired.pool or "",
            NODECLAIM_TAG: claim.metadata.name,
            **({"Name": paired.node_name} if paired.node_name else {}),
        }


def label_of(paired: NodeWithClaim, key: str) -> str:
    for each in (paired.node, paired.claim):
        if each is not None and (each.metadata.labels or {}).get(key):
            return (each.metadata.labels or {})[key]
    return ""
