"""AWS for tests of the provider: scripted and checked APIs, and node classes resolved in an
emulated account that has a cluster.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import botocore.session
import msgspec
from botocore.validate import ParamValidator

from wainwright.api.catalog_documents import Cloud, CloudReservation, CloudSpec
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.aws.api.services import AwsResponse, AwsServices, Params, Seam, tag_specifications
from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.launchtemplate.launch_templates import LaunchTemplateProvider
from wainwright.aws.launchtemplate.template_data import LaunchTemplate
from wainwright.aws.nodeclass.resolver import NodeClassResolver
from wainwright.aws.nodeclass.status import ResolvedNodeClass, to_status
from wainwright.aws.nodeclass.validation import DryRunTemplate, dry_run_type, standard_images_first
from wainwright.aws.reservation_availability import ReservationAvailability
from wainwright.clock import Clock, VirtualClock
from wainwright.emulator.emulated_account import EmulatedAwsAccount
from wainwright.emulator.settings import EmulatorSettings
from wainwright.errors import AwsError

Result = TypeVar("Result")
ScriptedReply = AwsResponse | AwsError | Callable[[Params], AwsResponse]


def run_in_virtual_time(main: Callable[[VirtualClock], Coroutine[Any, Any, Result]]) -> Result:
    """Runs a test in virtual time, and closes the clock after it."""
    clock = VirtualClock()
    try:
        return clock.run(main(clock))
    finally:
        clock.close()


class ScriptedApi:
    """Returns the replies of each operation in order, the last one for ever."""

    def __init__(self, replies: Mapping[str, Iterable[ScriptedReply] | ScriptedReply]) -> None:
        self._replies = {name: _as_list(given) for name, given in replies.items()}
        self.calls: list[tuple[str, Params]] = []

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        check_params(service, operation, params)
        self.calls.append((operation, params))
        replies = self._replies[operation]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, AwsError):
            raise reply
        return reply(params) if callable(reply) else dict(reply)

    def calls_to(self, operation: str) -> list[Params]:
        return [params for name, params in self.calls if name == operation]


class CheckedApi:
    """A seam whose requests are checked against botocore's models and recorded."""

    def __init__(self, seam: Seam) -> None:
        self._seam = seam
        self.calls: list[tuple[str, Params]] = []
        self.actions: set[str] = set()
        """What was called, as policies name it: ec2:DescribeSubnets."""

    async def call(self, service: str, operation: str, params: Params) -> AwsResponse:
        check_params(service, operation, params)
        self.calls.append((operation, params))
        self.actions.add(f"{service}:{operation}")
        return await self._seam.call(service, operation, params)

    def calls_to(self, operation: str) -> list[Params]:
        return [params for name, params in self.calls if name == operation]


def check_params(service: str, operation: str, params: Params) -> None:
    """AssertionError if AWS's API model does not allow these parameters."""
    shape = _model(service).operation_model(operation).input_shape
    report = ParamValidator().validate(params, shape)
    assert not report.has_errors(), report.generate_report()


@cache
def _model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def _as_list(given: Iterable[ScriptedReply] | ScriptedReply) -> list[ScriptedReply]:
    if isinstance(given, (dict, AwsError)) or callable(given):
        return [given]
    return list(given)


DISCOVERY = {"karpenter.sh/discovery": "wain"}
ROLE = "KarpenterNodeRole-wain"
SMALL_CLOUD = CloudSpec(region="us-east-1", instanceTypes=["m5.large", "m6g.large", "g4dn.xlarge"])


def discovered_node_class(
    name: str = "default", *, uid: str = "", generation: int = 1, **spec: Any
) -> EC2NodeClass:
    """A class that selects the emulated account's resources by tag; None removes a field."""
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


class MinimalDryRunTemplates:
    """Dry-run templates without a catalog: only image, profile and security groups."""

    def __init__(self, templates: LaunchTemplateProvider, cluster: ClusterConfig) -> None:
        self._templates = templates
        self._cluster = cluster

    async def ensure_template(
        self, node_class: EC2NodeClass, resolved: ResolvedNodeClass
    ) -> DryRunTemplate:
        tags = self._cluster.class_tags(node_class.metadata.name, node_class.spec.tags)
        image = standard_images_first(resolved.images)[0]
        data = {
            "ImageId": image.id,
            "IamInstanceProfile": {"Name": resolved.profile},
            "NetworkInterfaces": [
                {"DeviceIndex": 0, "Groups": [each.id for each in resolved.security_groups]}
            ],
            "TagSpecifications": tag_specifications(tags, "network-interface"),
        }
        name = await self._templates.ensure(LaunchTemplate(data=data, tags=tags))
        return DryRunTemplate(name=name, image=image, instance_type=dry_run_type(image))


class ResolverBench:
    """A NodeClassResolver in an emulated account."""

    def __init__(
        self,
        clock: Clock,
        *,
        reservations: Iterable[CloudReservation] = (),
        settings: EmulatorSettings | None = None,
        **cluster: Any,
    ) -> None:
        spec = msgspec.structs.replace(SMALL_CLOUD, capacityReservations=list(reservations))
        self.clock = clock
        self.cloud = EmulatedAwsAccount(Cloud(spec=spec), clock=clock, settings=settings)
        self.seam = CheckedApi(self.cloud)
        self.aws = AwsServices(self.seam)
        self.cluster = ClusterConfig(name="wain", region="us-east-1", **cluster)
        self.templates = LaunchTemplateProvider(self.aws.ec2, clock)
        self.availability = ReservationAvailability(clock)
        dry_run_templates = MinimalDryRunTemplates(self.templates, self.cluster)
        self.resolver = NodeClassResolver(
            self.aws, self.cluster, clock, self.availability, dry_run_templates
        )

    async def resolve(self, wanted: EC2NodeClass) -> ResolvedNodeClass:
        return await self.resolver.resolve(wanted)

    def call_api(self, service: str, operation: str, **params: Any) -> dict[str, Any]:
        """A call of another client of the account."""
        return self.cloud.answer(service, operation, params)

    def count(self, operation: str) -> int:
        return len(self.seam.calls_to(operation))


def with_status(wanted: EC2NodeClass, resolved: ResolvedNodeClass) -> EC2NodeClass:
    """The class as read back from the cluster."""
    return msgspec.structs.replace(wanted, status=to_status(resolved))


def condition_status(resolved: ResolvedNodeClass, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = next(each for each in resolved.conditions if each.type == kind)
    return found.status, found.reason


def condition_message(resolved: ResolvedNodeClass, kind: str) -> str:
    return next(each.message for each in resolved.conditions if each.type == kind)
