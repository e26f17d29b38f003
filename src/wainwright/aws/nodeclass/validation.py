"""Validation: whether launches of a class would be allowed, found out by rehearsing one."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from wainwright.api.ec2nodeclass import RESTRICTED_TAGS, EC2NodeClass
from wainwright.aws.cluster import Cluster
from wainwright.aws.ec2 import Ec2
from wainwright.aws.nodeclass.conditions import FALSE, VALIDATION, Finding, Part, bad, good, unknown
from wainwright.aws.nodeclass.rehearsal import Rehearsal, Trial, propagating
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.operations import denied, passing
from wainwright.aws.remember import Remembered
from wainwright.catalogue.ami import AmiFamily
from wainwright.catalogue.nodeclass import ami_family, settings_of
from wainwright.catalogue.settings import Options
from wainwright.clock import Clock
from wainwright.errors import AwsError, BadInput

KEPT: Final = 1800.0  # seconds for which a success stands
FAILED_KEPT: Final = 60.0
LOOKED_AT: Final = 600.0
USER_DATA: Final = 16384  # bytes that an instance can be given
CLUSTER_TAGS: Final = "kubernetes.io/cluster"
REASONS: Final = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}


class Validation:
    """Remembers what it found as long as nothing that matters has changed."""

    def __init__(self, ec2: Ec2, cluster: Cluster, rehearsal: Rehearsal, clock: Clock) -> None:
        self._ec2 = ec2
        self._cluster = cluster
        self._rehearsal = rehearsal
        self._known: Remembered[Finding] = Remembered(
            clock, lambda finding: KEPT if finding.good else FAILED_KEPT
        )

    async def find(
        self, node_class: EC2NodeClass, resolved: Resolved, findings: Sequence[Finding]
    ) -> Part[None]:
        """The class itself is looked at first; EC2 is asked once everything else is there."""
        wrong = next(objections(node_class, resolved), None) or _waiting(findings)
        if wrong is not None:
            return Part(value=None, finding=wrong, again=FAILED_KEPT)
        if not self._cluster.dry_runs:
            finding = good(VALIDATION, "dry runs are switched off: permissions are not tried out")
            return Part(value=None, finding=finding, again=KEPT)
        key = _key(node_class, resolved)
        finding = await self._known.get(key, lambda: self._rehearse(node_class, resolved))
        again = LOOKED_AT if finding.good else FAILED_KEPT
        return Part(value=None, finding=finding, again=again)

    async def _rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> Finding:
        try:
            made = await self._rehearsal.rehearse(node_class, resolved)
        except AwsError as error:
            return _refused("CreateLaunchTemplate", error)
        except BadInput as error:
            return bad(VALIDATION, "LaunchTemplateInvalid", error.message)
        tags = self._cluster.launch_tags(node_class.metadata.name, "", node_class.spec.tags)
        trials = [Trial(made=made, subnet=subnet, tags=tags) for subnet in resolved.subnets]
        refused = await self._try(trials)
        return good(VALIDATION) if refused is None else refused

    async def _try(self, trials: Sequence[Trial]) -> Finding | None:
        """A fleet and a machine; where the type is not sold in one subnet's zone, in the next."""
        for operation in ("CreateFleet", "RunInstances"):
            error: AwsError | None = None
            for trial in trials:
                request = trial.fleet() if operation == "CreateFleet" else trial.run()
                error = await self._ec2.rehearse(operation, request)
                if error is None or denied(error):
                    break
            if error is not None:
                return _refused(operation, error)
        return None


def objections(node_class: EC2NodeClass, resolved: Resolved) -> Iterator[Finding]:
    """What is wrong with the class whatever EC2 says."""
    restricted = [
        key
        for key in sorted(node_class.spec.tags or {})
        if key in RESTRICTED_TAGS or key.startswith(CLUSTER_TAGS)
    ]
    if restricted:
        message = f"these tags are set by the controller: {', '.join(restricted)}"
        yield bad(VALIDATION, "TagValidationFailed", message)
    try:
        settings_of(node_class, Options())
    except BadInput as error:
        yield bad(VALIDATION, "KubeletValidationFailed", error.message)
    size = len((node_class.spec.userData or "").encode())
    if size > USER_DATA:
        message = f"userData has {size:,} bytes, an instance takes at most {USER_DATA:,}"
        yield bad(VALIDATION, "UserDataTooLarge", message)
    if ami_family(node_class.spec) is AmiFamily.AL2023 and not resolved.cluster_cidr:
        message = "EKS does not say the service CIDR of the cluster, without which no node can join"
        yield unknown(VALIDATION, "ClusterCIDRNotFound", message)


def _waiting(findings: Sequence[Finding]) -> Finding | None:
    """Nothing can be rehearsed while something is missing."""
    missing = [each for each in findings if not each.good]
    if not missing:
        return None
    message = f"waiting for {', '.join(each.type for each in missing)}"
    told = bad if any(each.status == FALSE for each in missing) else unknown
    return told(VALIDATION, "DependenciesNotReady", message)


def _refused(operation: str, error: AwsError) -> Finding:
    """Refused for good, or only not clear yet: then it is tried again.

    An error that says nothing about the class is raised on: what was found last still stands.
    """
    if passing(error):
        raise error
    if denied(error):
        message = f"not allowed to call {operation}: {error.text}"
        return bad(VALIDATION, REASONS[operation], message)
    if propagating(error):
        message = "EC2 does not know the instance profile yet"
        return unknown(VALIDATION, "InstanceProfilePropagating", message)
    return unknown(VALIDATION, f"{operation}DryRunFailed", f"{error.code}: {error.text}")


def _key(node_class: EC2NodeClass, resolved: Resolved) -> tuple[object, ...]:
    return (
        node_class.metadata.uid or node_class.metadata.name,
        msgspec.json.encode(node_class.spec, order="deterministic"),
        resolved.profile,
        tuple(image.id for image in resolved.images),
        frozenset(each.id for each in resolved.subnets),
        resolved.security_groups,
    )
