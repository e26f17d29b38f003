"""Rehearsing: the template of a class as its launches will have it, before there is any.

It is written by the same code as theirs, user data included: what cannot be written, or what EC2
does not take, shows in the conditions of the class and not in a launch that fails.
"""

from collections.abc import Awaitable, Callable

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.aws.launching import Choice, Ware
from wainwright.aws.nodeclass.rehearsal import Rehearsed, ordinary_first, trial_type
from wainwright.aws.nodeclass.resolved import Image, Resolved, image_for
from wainwright.aws.ordering import Order, Site, Source
from wainwright.aws.templates.ensure import Templates
from wainwright.errors import BadInput
from wainwright.model.claim import Claim
from wainwright.model.labels import ON_DEMAND


class LaunchTemplates:
    """Rehearses with the cheapest ordinary machine that the class can boot."""

    def __init__(
        self,
        templates: Templates,
        site: Callable[[], Awaitable[Site]],
        source: Callable[[EC2NodeClass, Resolved], Source],
    ) -> None:
        self._templates = templates
        self._site = site
        self._source = source

    async def rehearse(self, node_class: EC2NodeClass, resolved: Resolved) -> Rehearsed:
        source = self._source(node_class, resolved)
        name = node_class.metadata.name
        claim = Claim(name=f"a rehearsal of {name}", uid="", pool="", node_class=name)
        image, wares = _tried(source)
        choice = Choice(capacity_type=ON_DEMAND, wares=wares)
        order = Order(claim=claim, choice=choice, source=source, site=await self._site())
        subnets = {subnet.zone: subnet for subnet in reversed(resolved.subnets)}
        made = order.divided(subnets, lambda _: 0)
        if not made.configs or image is None:
            why = "; ".join(made.remarks) or "none is sold in the zones of its subnets"
            raise BadInput(f"no instance type can be launched from the class: {why}")
        template = await self._templates.ensure(made.configs[0].template)
        return Rehearsed(template=template, image=image, kind=wares[0].kind)


def _tried(source: Source) -> tuple[Image | None, tuple[Ware, ...]]:
    """The first image for which some machine is sold, and that machine."""
    for image in ordinary_first(source.resolved.images):
        wares = _wares(source, image)
        if wares:
            return image, wares
    return None, ()


def _wares(source: Source, image: Image) -> tuple[Ware, ...]:
    """One machine for the image; the usual type for it where that is sold."""
    offers = [
        Ware(kind=kind.name, zone=offering.zone, price=offering.price)
        for kind in source.built.types
        if image_for(source.resolved.images, kind.requirements) == image
        for offering in kind.offerings
        if offering.zone is not None and offering.reservation_id is None
    ]
    usual = trial_type(image)
    ordered = sorted(offers, key=lambda ware: (ware.kind != usual, ware.price, ware.kind))
    return tuple(ordered[:1])
