"""Filling a fleet: pool after pool, until there is enough or no pool left."""

from collections.abc import Mapping, Sequence
from math import ceil, inf

from wainwright.emulator import tags
from wainwright.emulator.ec2 import launch_errors
from wainwright.emulator.ec2.allocation import (
    ON_DEMAND_ORDERS,
    SPOT_ORDERS,
    Pool,
    shares,
    spread,
)
from wainwright.emulator.ec2.fleet_goals import Way
from wainwright.emulator.ec2.fleet_pools import Choice
from wainwright.emulator.ec2.joining import exceeded
from wainwright.emulator.ec2.launching import Launcher, Order
from wainwright.emulator.ec2.machines import BLOCK, NONE, ON_DEMAND, ONLY, SPOT, Instance
from wainwright.emulator.world import Answer
from wainwright.errors import AwsError


class Tally:
    """What a fleet has got so far, and what it was refused."""

    def __init__(self, fleet: str) -> None:
        self.fleet = fleet
        self._got: dict[tuple[int, str], tuple[Choice, list[Instance]]] = {}
        self._failed: dict[tuple[int, str], tuple[Choice, AwsError]] = {}

    def add(self, choice: Choice, lifecycle: str, instances: Sequence[Instance]) -> None:
        if instances:
            _, got = self._got.setdefault((choice.index, lifecycle), (choice, []))
            got.extend(instances)

    def fail(self, choice: Choice, lifecycle: str, error: AwsError) -> None:
        self._failed[choice.index, lifecycle] = (choice, error)

    def answer(self) -> Answer:
        return {
            "FleetId": self.fleet,
            "Instances": [
                {
                    "LaunchTemplateAndOverrides": choice.shown(),
                    "Lifecycle": lifecycle,
                    "InstanceIds": [each.id for each in instances],
                    "InstanceType": choice.type,
                }
                for (_, lifecycle), (choice, instances) in self._got.items()
            ],
            "Errors": [
                {
                    "LaunchTemplateAndOverrides": choice.shown(),
                    "Lifecycle": lifecycle,
                    "ErrorCode": error.code,
                    "ErrorMessage": error.text,
                }
                for (_, lifecycle), (choice, error) in self._failed.items()
            ],
        }


class Filling:
    """One fleet, while it is being filled."""

    def __init__(self, launcher: Launcher, fleet: str, own_tags: Mapping[str, str]) -> None:
        self._launcher = launcher
        self._shop = launcher.ground.shop
        self._joining = launcher.ground.reservations.joining
        self._tags = own_tags
        self.tally = Tally(fleet)

    def fill(self, way: Way, choices: Sequence[Choice], wanted: float) -> float:
        """What is still lacking afterwards."""
        if wanted <= 0:
            return wanted
        ordered = self._ordered(way, self._usable(way, choices))
        if way.use_first:
            wanted = self._into_open(way, ordered, wanted)
        return self._through(way, ordered, wanted)

    def _usable(self, way: Way, choices: Sequence[Choice]) -> Sequence[Choice]:
        """Who uses up open reservations first does not use templates that name one."""
        if not way.use_first:
            return choices
        usable = [each for each in choices if each.source.target is None]
        if not usable:
            for each in choices:
                self.tally.fail(each, way.lifecycle, launch_errors.unfulfillable())
        return usable

    def _ordered(self, way: Way, choices: Sequence[Choice]) -> list[Choice]:
        spot = way.lifecycle == SPOT
        pools = [self._pool(each, number, spot) for number, each in enumerate(choices)]
        order = (SPOT_ORDERS if spot else ON_DEMAND_ORDERS)[way.strategy]
        return [choices[pool.index] for pool in order(pools)]

    def _pool(self, choice: Choice, number: int, spot: bool) -> Pool:
        market = SPOT if spot else ON_DEMAND
        return Pool(
            index=number,
            price=self._shop.price(choice.type, choice.zone, market),
            priority=choice.override.get("Priority"),
            depth=self._depth(choice) if spot else inf,
        )

    def _depth(self, choice: Choice) -> float:
        if not self._shop.sells(choice.type, choice.zone, SPOT):
            return 0.0
        free = self._shop.free(choice.type, choice.zone, SPOT)
        return inf if free is None else free

    def _into_open(self, way: Way, ordered: Sequence[Choice], wanted: float) -> float:
        """Only as many as the open reservations of each pool have room for."""
        for each in ordered:
            if wanted <= 0:
                break
            if each.source.preference != NONE and self._joining.any_open(each.type, each.zone):
                wanted = self._try(way, each, wanted, self._room(way, each))
        return wanted

    def _room(self, way: Way, choice: Choice) -> int:
        try:
            order = self._order(way, choice, None)
            return self._joining.room(self._launcher.wanted(order, self._launcher.checked(order)))
        except AwsError:
            return 0  # said when the pool is tried for ordinary capacity

    def _through(self, way: Way, ordered: Sequence[Choice], wanted: float) -> float:
        """Even shares for the first so many pools, if the strategy spreads; then all in order."""
        parts = spread(way.strategy, way.pools_to_use, len(ordered)) if way.lifecycle == SPOT else 1
        if parts > 1:
            for each, share in zip(ordered, shares(ceil(wanted), parts), strict=False):
                if share and wanted > 0:
                    wanted -= share - self._try(way, each, share)
        for each in ordered:
            if wanted <= 0:
                break
            wanted = self._try(way, each, wanted)
        return wanted

    def _try(self, way: Way, choice: Choice, wanted: float, most: float = inf) -> float:
        """What is still lacking; why it is not less stands in the tally."""
        error: AwsError | None = None
        for target in self._targets(way, choice):
            count = int(min(ceil(wanted / choice.weight), most))
            if count < 1:
                return wanted
            try:
                order = self._order(way, choice, target)
            except AwsError as flaw:
                error = flaw
                break
            launch = self._launcher.launch(order, count, token=self.tally.fleet)
            self._launcher.settle(launch)
            self.tally.add(choice, way.lifecycle, launch.instances)
            wanted -= len(launch.instances) * choice.weight
            error = launch.error
            if error is None:
                break
        if error is not None:
            self.tally.fail(choice, way.lifecycle, error)
        return wanted

    def _targets(self, way: Way, choice: Choice) -> Sequence[str | None]:
        """The reservations to be tried in turn; those that the fleet names if the pool has none."""
        if choice.source.target is not None or not way.targets:
            return (choice.source.target,)
        known = self._joining.reservations
        found = [
            each
            for each in way.targets
            if each not in known
            or (known[each].type, known[each].zone) == (choice.type, choice.zone)
        ]
        return found or way.targets[:1]

    def _order(self, way: Way, choice: Choice, target: str | None) -> Order:
        if choice.subnet is None:
            raise choice.flaw or launch_errors.unfulfillable()
        _check_market(way, choice)
        preference = choice.source.preference
        if way.reserved and target is None:
            if way.lifecycle != ON_DEMAND:
                raise exceeded()
            preference = ONLY
        return Order(
            type=choice.type,
            subnet=choice.subnet,
            data=choice.data(),
            lifecycle=way.lifecycle,
            preference=preference,
            target=target,
            most_price=choice.most_price,
            tags=self._all_tags(choice),
        )

    def _all_tags(self, choice: Choice) -> dict[str, str]:
        source = choice.source
        return {
            **tags.from_specifications(source.version.data, "instance"),
            **self._tags,
            "aws:ec2:fleet-id": self.tally.fleet,
            "aws:ec2launchtemplate:id": source.template.id,
            "aws:ec2launchtemplate:version": str(source.version.number),
        }


def _check_market(way: Way, choice: Choice) -> None:
    """Template and fleet must mean the same way to pay; a block must be asked for by both."""
    market = choice.source.market
    if market == way.lifecycle or (market is None and way.lifecycle != BLOCK):
        return
    raise AwsError(
        "InvalidParameterCombination",
        f"The fleet asks for {way.lifecycle} capacity, its launch template for market type "
        f"{market}.",
    )
