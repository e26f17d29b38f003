"""Remarks on the input, and on the region that it is planned for, as sentences."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from wainwright.messages.formatting import join_first
from wainwright.model.input_remarks import InputRemark, RegionChoice, RegionSource, RemarkKind

MAX_NAMED_PODS: Final = 10  # enough to identify a workload; the rest is only counted


def describe_remarks(remarks: Iterable[InputRemark]) -> tuple[str, ...]:
    """In the order of their kinds, those of one kind by subject."""
    ordered = sorted(remarks, key=lambda each: (each.kind.value, each.subject))
    return tuple(map(_describe, ordered))


def remarks_on_pod(remarks: Iterable[InputRemark], pod: str) -> tuple[str, ...]:
    """What was assumed of one pod, as if there were no others."""
    return describe_remarks(
        msgspec.structs.replace(each, pods=(pod,)) for each in remarks if pod in each.pods
    )


def _describe(remark: InputRemark) -> str:
    if remark.kind is RemarkKind.NODE_COUNTED_AS_CLAIM:
        return (
            f"node {remark.subject} is left out: it has no provider id or instance type yet, "
            f"and a claim of pool {remark.pool} stands for it"
        )
    if remark.workloads:
        listed = join_first(remark.workloads, MAX_NAMED_PODS)
        return f"{_WORKLOAD_REMARKS[remark.kind]}: {listed}"
    return f"{_PODS_REMARKS[remark.kind].format(remark.subject)}: {_list_pods(remark.pods)}"


_PODS_REMARKS: Final = {
    RemarkKind.SCHEDULING_GATED: "not planned while scheduling gates hold them back",
    RemarkKind.EVICTION_BLOCKED: "not planned, as a disruption budget or annotation keeps them on "
    "a node being deleted",
    RemarkKind.OTHER_SCHEDULER: "planned as by the default scheduler, although {} schedules them",
    RemarkKind.MISSING_RUNTIME_CLASS: "runtime class {} is not in the input, so its overhead is "
    "not counted",
    RemarkKind.MISSING_PRIORITY_CLASS: "priority class {} is not in the input, so 0 is assumed",
    RemarkKind.MISSING_STORAGE_CLASS: "storage class {} is not in the input, so one of EBS with "
    "volumeBindingMode WaitForFirstConsumer is assumed",
    RemarkKind.MISSING_DEFAULT_STORAGE_CLASS: "no default storage class is in the input, so one of "
    "EBS with volumeBindingMode WaitForFirstConsumer is assumed",
    RemarkKind.MISSING_CONTROLLER: "{} is not in the input, so its selector has no part in the "
    "default spread",
}


_WORKLOAD_REMARKS: Final = {
    RemarkKind.MINIMUM_REPLICAS: "no replicas are stated, so that those are planned that "
    "autoscalers start from (--replicas max: the most)",
    RemarkKind.MAXIMUM_REPLICAS: "planned with the most replicas that autoscalers allow",
    RemarkKind.FEWER_THAN_MINIMUM: "planned with the replicas that are stated, though an "
    "autoscaler will raise them",
    RemarkKind.AUTOSCALER_WITHOUT_WORKLOAD: "autoscalers whose workload is not in the input",
    RemarkKind.STATIC_POOLS_IGNORED: "static NodePools are left out while the feature gate "
    "StaticCapacity is off (--feature-gate StaticCapacity=true)",
    RemarkKind.RESERVATIONS_WITHOUT_COUNTS: "the status of a class does not say how much of its "
    "capacity reservations is free, so that nothing is beyond what nodes of the input use; name "
    "the output of `aws ec2 describe-capacity-reservations` as well",
}


def _list_pods(pods: Sequence[str]) -> str:
    others = len(pods) - MAX_NAMED_PODS
    return ", ".join(pods[:MAX_NAMED_PODS]) + (f" and {others} more" if others > 0 else "")


def describe_region_source(choice: RegionChoice) -> str:
    """Why it is this region."""
    return _REGION_SOURCES[choice.source].format(choice.subject, choice.value)


def region_note(choice: RegionChoice) -> str:
    """The region and why, where the user does not state it."""
    why = describe_region_source(choice)
    if choice.source is RegionSource.DEFAULT:
        return f"{why}: {choice.region} is assumed (state it with --region or a Cloud)"
    return f"region {choice.region}, as {why} (--region or a Cloud states another)"


_REGION_SOURCES: Final = {
    RegionSource.CATALOG: "the Catalog states it",
    RegionSource.CLOUD: "the Cloud states it",
    RegionSource.OPTION: "--region states it",
    RegionSource.PROVIDER: "wain run launched instances there",
    RegionSource.NODE: "{} is in {}",
    RegionSource.PROVIDER_ID: "the provider id of {} names {}",
    RegionSource.CLASS_STATUS: "the status of {} names {}",
    RegionSource.RESERVATION: "{} lies in {}",
    RegionSource.NODE_POOL: "{} requires {}",
    RegionSource.POD: "{} selects {}",
    RegionSource.VOLUME: "{} names {}",
    RegionSource.DEFAULT: "nothing in the input names a region",
}
