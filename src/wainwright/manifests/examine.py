"""One object of the input: which kind it is, and everything that is wrong with it."""

from typing import Any, Final

import msgspec

from wainwright.api.builtin import Reader
from wainwright.api.fault import Fault, shown
from wainwright.api.judge import judge
from wainwright.api.kinds import Family, Kind, is_ours, known, suggestion

OUTPUT: Final = frozenset(
    ("wainwright.dev/v1alpha1", kind) for kind in ("Plan", "PlanDiff", "Reservations")
)
SCHEDULER: Final = ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration")
TOO_DEEP: Final = Fault(path=(), message="nested too deeply to be a manifest")


class Finding(msgspec.Struct, frozen=True):
    """An object's kind, where it has one that we know, and its faults."""

    kind: Kind | None
    faults: list[Fault]


def examine(value: Any, builtin: Reader) -> Finding:
    """Judge an object as `wain validate` does; nothing is raised whatever the value is."""
    try:
        return _examine(value, builtin)
    except RecursionError:
        return Finding(None, [TOO_DEEP])


def identified(value: Any) -> Finding:
    """Which kind the value says it is; a fault where that is none that we know."""
    kind = _known(value)
    if kind is not None:
        return Finding(kind, [])
    named = _header_faults(value)
    return Finding(None, named or [_unknown(value["apiVersion"], value["kind"])])


def _known(value: Any) -> Kind | None:
    try:
        return known().get((value["apiVersion"], value["kind"]))
    except (KeyError, TypeError):
        return None


def _examine(value: Any, builtin: Reader) -> Finding:
    finding = identified(value)
    kind = finding.kind
    if kind is None:
        return finding
    match kind.family:
        case Family.BUILTIN:
            return Finding(kind, builtin.read(value)[1])
        case Family.OLD:
            return Finding(kind, [_old(kind)])
        case _:
            return Finding(kind, judge(kind, value))


def _header_faults(value: Any) -> list[Fault]:
    if not isinstance(value, dict):
        return [
            Fault(
                path=(),
                message="not a Kubernetes object",
                found=shown(value),
                expected="a mapping with apiVersion, kind and metadata",
            )
        ]
    return [
        Fault(
            path=(key,) if key in value else (),
            message=f"{key} is missing" if value.get(key) is None else f"{key} is not text",
            found=shown(value[key]) if key in value else "nothing",
            expected=f"{key}: {example}",
        )
        for key, example in (("apiVersion", "karpenter.sh/v1"), ("kind", "NodePool"))
        if not isinstance(value.get(key), str) or not value[key]
    ]


def _unknown(api_version: str, kind: str) -> Fault:
    if (api_version, kind) in OUTPUT:
        message = f"a {kind} is what wain prints, not what it reads; it was left alone"
        return Fault(path=("kind",), message=message, found=kind, warning=True)
    if (api_version, kind) == SCHEDULER:
        message = f"a {kind} counts only where --scheduler-config names it; it was not looked at"
        return Fault(path=("kind",), message=message, found=kind, warning=True)
    if is_ours(api_version):
        return Fault(
            path=("kind",),
            message=f"there is no kind {kind} in {api_version}",
            found=f"{kind} of {api_version}",
            expected="a kind that is known",
            hint=suggestion(api_version, kind),
        )
    return Fault(
        path=("kind",),
        message=f"{kind} of {api_version} has no part in scheduling and was not looked at",
        found=kind,
        warning=True,
    )


def _old(kind: Kind) -> Fault:
    return Fault(
        path=("apiVersion",),
        message=f"{kind.name} of {kind.api_version} is an old kind that an API server of today "
        "does not have",
        found=kind.api_version,
        expected="karpenter.sh/v1 or karpenter.k8s.aws/v1",
        hint="turn it into v1 with: wain convert FILE",
    )
