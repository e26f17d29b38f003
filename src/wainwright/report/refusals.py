"""Why nodes of the cluster do not take a pod, or do not get it, as sentences."""

from wainwright.model.reason import Untolerated
from wainwright.model.refusal import (
    Later,
    Leaving,
    NodeReason,
    NotGivenUp,
    OtherLabels,
    OutOfBounds,
    PortTaken,
    TooLittle,
    TooManyVolumes,
)
from wainwright.model.resources import quantity_text
from wainwright.report.numbers import listed
from wainwright.report.words import preference


def refusal(reason: NodeReason) -> str:
    """What comes after "3 nodes:"."""
    match reason:
        case Leaving():
            return "being deleted"
        case Untolerated(taint=taint):
            return f"the pod does not tolerate {taint}"
        case OtherLabels(key=key):
            return f"another {key} than the pod selects"
        case TooLittle() | PortTaken() | TooManyVolumes():
            return _full(reason)
        case OutOfBounds():
            return "out of bounds because of other pods"
        case NotGivenUp() | Later():
            return _would_do(reason)


def _full(reason: TooLittle | PortTaken | TooManyVolumes) -> str:
    match reason:
        case TooLittle(resource=resource, short=short, node=name):
            return f"too little {resource}, best {quantity_text(resource, short)} short ({name})"
        case PortTaken(ports=ports):
            return f"port {listed(tuple(map(str, ports)))} is taken"
        case TooManyVolumes(driver=driver):
            return f"no further volume of {driver} can be attached"


def _would_do(reason: NotGivenUp | Later) -> str:
    if isinstance(reason, Later):
        return (
            f"would do ({reason.node}) by a later alternative of the pod; an earlier one goes first"
        )
    wishes = listed([preference(each) for each in reason.given_up])
    return f"would do ({reason.node}), had it given up {wishes}"
