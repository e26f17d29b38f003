"""CreateFleet: what was asked for is launched at once, as far as it can be had."""

from collections.abc import Mapping
from uuid import UUID

import msgspec

from wainwright.emulator import tags
from wainwright.emulator.dryrun import would_have_succeeded
from wainwright.emulator.ec2.fleet_filling import Filling
from wainwright.emulator.ec2.fleet_goals import Goal, goals
from wainwright.emulator.ec2.fleet_pools import Pools
from wainwright.emulator.ec2.fleet_records import Record, Records
from wainwright.emulator.ec2.launch_places import Places
from wainwright.emulator.ec2.launching import Launcher
from wainwright.emulator.ec2.templates import Templates
from wainwright.emulator.ec2.tokens import Kept, Tokens, check
from wainwright.emulator.world import Answer, Handler, Params


class FleetsState(msgspec.Struct, kw_only=True):
    tokens: dict[str, Kept] = {}
    records: dict[str, Record] = {}


class Fleets:
    """Fleets of type instant: they launch once, and what stays of them is a record."""

    name = "ec2"
    dry_runs = ("CreateFleet",)

    def __init__(self, launcher: Launcher, templates: Templates) -> None:
        self._ground = launcher.ground
        self._launcher = launcher
        self._pools = Pools(templates, Places(self._ground.goods, self._ground.network))
        self.state = FleetsState()

    @property
    def state(self) -> FleetsState:
        return self._state

    @state.setter
    def state(self, state: FleetsState) -> None:
        self._state = state
        self._tokens = Tokens(self._ground.world, state.tokens)
        self._records = Records(self._ground.world, state.records)

    def operations(self) -> Mapping[str, Handler]:
        return {"CreateFleet": self.create, "DescribeFleets": self.describe}

    def create(self, params: Params) -> Answer:
        check(params)
        wanted, own = goals(params), tags.from_specifications(params, "instance")
        if params.get("DryRun"):
            self._pools.read(params)
            raise would_have_succeeded()
        answer: Answer = self._tokens.once(params, lambda: self._launch(params, wanted, own))
        return answer

    def _launch(self, params: Params, wanted: list[Goal], own: Mapping[str, str]) -> Answer:
        choices = self._pools.read(params)
        number = self._ground.world.random.getrandbits(128)
        filling = Filling(self._launcher, f"fleet-{UUID(int=number)}", own)
        for goal in wanted:
            left = goal.wanted
            for way in goal.ways:
                left = filling.fill(way, choices, left)
        answer = filling.tally.answer()
        self._records.keep(params, answer)
        return answer

    def describe(self, params: Params) -> Answer:
        return self._records.describe(params)
