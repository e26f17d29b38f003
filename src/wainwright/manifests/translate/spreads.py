"""How evenly a pod is to be spread together with its likes."""

from collections.abc import Iterator, Mapping

from wainwright.api.builtin.affinity import TopologySpreadConstraint
from wainwright.api.builtin.pod import PodSpec
from wainwright.manifests.translate.selectors import like, selector
from wainwright.model.labels import normalised
from wainwright.model.selector import Selector
from wainwright.model.topology import Spread


def spreads(spec: PodSpec, labels: Mapping[str, str]) -> tuple[Spread, ...]:
    """In the order written, each once; `labels` are the pod's own.

    A constraint whose selector makes no sense is left out: nobody can tell who is to be spread.
    """
    return tuple(dict.fromkeys(_spreads(spec, labels)))


def _spreads(spec: PodSpec, labels: Mapping[str, str]) -> Iterator[Spread]:
    for written in spec.topologySpreadConstraints or ():
        selected = selector(written.labelSelector, like(labels, written.matchLabelKeys))
        if selected is not None:
            yield spread(written, selected)


def spread(
    written: TopologySpreadConstraint, selected: Selector, *, by_default: bool = False
) -> Spread:
    return Spread(
        key=normalised(written.topologyKey),
        selector=selected,
        max_skew=written.maxSkew,
        min_domains=written.minDomains,
        required=written.whenUnsatisfiable != "ScheduleAnyway",
        honor_affinity=written.nodeAffinityPolicy != "Ignore",
        honor_taints=written.nodeTaintsPolicy == "Honor",
        by_default=by_default,
    )
