"""A machine of the account as it boots: what EC2, the images and EKS know of it, put together."""

from collections.abc import Mapping

import msgspec

from wainwright.catalogue.machine import Machine
from wainwright.emulator.boot.booted import Booted, boot
from wainwright.emulator.boot.encoding import decoded
from wainwright.emulator.boot.facts import Cluster, Facts
from wainwright.emulator.boot.reasons import NeverJoins, Reason, Unbootable
from wainwright.emulator.ec2.images import Images
from wainwright.emulator.ec2.instance_views import private_name
from wainwright.emulator.ec2.instances import Instances
from wainwright.emulator.ec2.machines import Instance
from wainwright.emulator.services.eks import Eks


class Nursery(msgspec.Struct, frozen=True, kw_only=True):
    """Where machines come up."""

    region: str
    machines: Mapping[str, Machine]
    instances: Instances
    images: Images
    eks: Eks

    def outcome(self, instance: Instance) -> Booted | NeverJoins:
        """The node that becomes of it, or why none does."""
        if not instance.joins:
            return NeverJoins(Reason.DUD, "the machine never came up")
        try:
            text = decoded(self.instances.build_of(instance).user_data)
        except Unbootable as failure:
            return NeverJoins(failure.reason, failure.detail)
        return boot(text, self.facts(instance))

    def facts(self, instance: Instance) -> Facts:
        build = self.instances.build_of(instance)
        image = self.images.state.images.get(build.image)
        return Facts(
            machine=self.machines[instance.type],
            instance_id=instance.id,
            region=self.region,
            zone=instance.zone,
            zone_id=instance.zone_id,
            private_dns=private_name(instance.address, self.region),
            image_name="" if image is None else image.name,
            disks=build.sizes,
            clusters=self._clusters(),
        )

    def _clusters(self) -> dict[str, Cluster]:
        return {
            name: Cluster(endpoint=each.endpoint, certificate=each.certificate)
            for name, each in self.eks.state.clusters.items()
        }
