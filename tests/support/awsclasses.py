"""An emulated account with a cluster in it, and classes that find their way around it."""

from collections.abc import Iterable
from typing import Any

import msgspec
from tests.support.seams import Checked

from wainwright.api.cloud import Cloud, CloudSpec, Reservation
from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.account import Account
from wainwright.aws.cluster import Cluster
from wainwright.aws.nodeclass.rehearsal import PlainTemplates
from wainwright.aws.nodeclass.resolve import Resolver
from wainwright.aws.nodeclass.resolved import Resolved, status
from wainwright.aws.reservations import Availability
from wainwright.aws.templates.ensure import Templates
from wainwright.clock import Clock
from wainwright.emulator.cloud import EmulatedCloud
from wainwright.emulator.settings import Settings

DISCOVERY = {"karpenter.sh/discovery": "wain"}
ROLE = "KarpenterNodeRole-wain"
SMALL = CloudSpec(region="us-east-1", instanceTypes=["m5.large", "m6g.large", "g4dn.xlarge"])


def node_class(
    name: str = "default", *, uid: str = "", generation: int = 1, **spec: Any
) -> EC2NodeClass:
    """A class that selects what the emulated account has by tag; None takes a field away."""
    stated = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": DISCOVERY}],
        "securityGroupSelectorTerms": [{"tags": DISCOVERY}],
        "role": ROLE,
        **spec,
    }
    written = {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "generation": generation},
        "spec": {key: value for key, value in stated.items() if value is not None},
    }
    return msgspec.convert(written, EC2NodeClass)


class Bench:
    """A resolver at work in an account of its own."""

    def __init__(
        self,
        clock: Clock,
        *,
        reservations: Iterable[Reservation] = (),
        settings: Settings | None = None,
        **cluster: Any,
    ) -> None:
        spec = msgspec.structs.replace(SMALL, capacityReservations=list(reservations))
        self.clock = clock
        self.cloud = EmulatedCloud(Cloud(spec=spec), clock=clock, settings=settings)
        self.seam = Checked(self.cloud)
        self.aws = Account(self.seam)
        self.cluster = Cluster(name="wain", region="us-east-1", **cluster)
        self.templates = Templates(self.aws.ec2, clock)
        self.availability = Availability(clock)
        rehearsal = PlainTemplates(self.templates, self.cluster)
        self.resolver = Resolver(self.aws, self.cluster, clock, self.availability, rehearsal)

    async def resolve(self, wanted: EC2NodeClass) -> Resolved:
        return await self.resolver.resolve(wanted)

    def ask(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """What somebody else does in the account."""
        return self.cloud.answer(service, operation, params)

    def count(self, operation: str) -> int:
        return len(self.seam.asked(operation))


def with_status(wanted: EC2NodeClass, resolved: Resolved) -> EC2NodeClass:
    """The class as it is read back from the cluster."""
    return msgspec.structs.replace(wanted, status=status(resolved))


def told(resolved: Resolved, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = next(each for each in resolved.conditions if each.type == kind)
    return found.status, found.reason


def message(resolved: Resolved, kind: str) -> str:
    return next(each.message for each in resolved.conditions if each.type == kind)
