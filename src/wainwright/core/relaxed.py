"""What pods gave up to find a place, and what it would have cost to keep it."""

from collections.abc import Iterator

from wainwright.core.opening import room
from wainwright.core.solve import Solution
from wainwright.core.templates import Template
from wainwright.core.wishes import PodClass, Wish
from wainwright.model.plan import Relaxed
from wainwright.model.preference import GivenUp


def relaxed(solution: Solution) -> tuple[Relaxed, ...]:
    """Pods that gave up the same, together; in the order of names."""
    given_up = solution.placing.given_up
    if not given_up:
        return ()
    classes = {id(pod): group for group in solution.classes.all for pod in group.pods}
    alike: dict[tuple[int, tuple[GivenUp, ...]], list[str]] = {}
    for pod, given in given_up:
        alike.setdefault((classes[id(pod)].number, given), []).append(pod.key)
    found = [
        Relaxed(
            pods=tuple(sorted(pods)),
            given_up=given,
            kept_price=_price(solution, solution.classes.all[number]),
        )
        for (number, given), pods in alike.items()
    ]
    return tuple(sorted(found, key=lambda one: one.pods))


def _price(solution: Solution, group: PodClass) -> float | None:
    """The cheapest node for one of the pods with all that it would have liked, company aside."""
    prices = [
        price
        for wish in group.stages[0].wishes
        for template in solution.placing.templates
        for price in _offered(template, wish)
    ]
    return min(prices, default=None)


def _offered(template: Template, wish: Wish) -> Iterator[float]:
    terms = wish.ask.terms[template.number]
    if terms is None:
        return
    narrowing = terms.narrowing
    bought = template.index.cheapest_in(room(template, wish) & narrowing.offered, narrowing.markets)
    if bought is not None:
        yield bought[1].price
