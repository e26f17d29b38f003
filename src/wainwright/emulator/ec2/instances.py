"""Machines of the emulated EC2: described, tagged, terminated, and asked for their user data."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from wainwright.collector import without_collector
from wainwright.emulator.ec2 import instance_filters
from wainwright.emulator.ec2.instance_views import grouped, shown, state
from wainwright.emulator.ec2.lifecycle import BY_USER, Change, Lifecycle, Machines
from wainwright.emulator.ec2.lookup import INSTANCE
from wainwright.emulator.ec2.machines import GONE, Build, Instance
from wainwright.emulator.filters import matching
from wainwright.emulator.paging import page
from wainwright.emulator.world import Answer, Handler, Params, World
from wainwright.errors import AwsError

MOST: Final = 1000
ID: Final = re.compile("i-(?:[0-9a-f]{8}|[0-9a-f]{17})")


class Listing(NamedTuple):
    """What a question has found, as long as nothing changes."""

    question: bytes
    rows: list[Instance]


class Instances:
    """Every machine of the account, from its launch until an hour after its end."""

    name = "ec2"

    def __init__(self, world: World) -> None:
        self._world = world
        self._life = Lifecycle(world)
        self._life.watch(self._note)
        self._listing: Listing | None = None
        self._users: dict[str, int] = {}
        self.state = Machines()

    @property
    def state(self) -> Machines:
        return self._life.machines

    @state.setter
    def state(self, machines: Machines) -> None:
        self._life.machines = machines
        self._fields = instance_filters.fields(machines, self._world)
        self._listing = None
        self._unseen = max((each.visible for each in machines.instances.values()), default=0.0)
        self._users = {}
        for each in machines.instances.values():
            self._users[each.build] = self._users.get(each.build, 0) + 1

    def operations(self) -> Mapping[str, Handler]:
        return {
            "DescribeInstances": self.describe,
            "DescribeInstanceAttribute": self.describe_attribute,
            "TerminateInstances": self.terminate_asked,
        }

    # What other parts do with machines

    def watch(self, told: Change) -> None:
        """Told of every machine that is born, changes its state, or is forgotten."""
        self._life.watch(told)

    def begin(self, born: Sequence[Instance], build: Build) -> None:
        """Takes in machines that were just launched, all made the same way."""
        if born:
            self.state.builds.setdefault(born[0].build, build)
            self._life.begin(born)

    def terminate(self, ids: Iterable[str], reason: str = BY_USER) -> None:
        """Shuts down those that are still there and alive."""
        known = self.state.instances
        self._life.end([known[each] for each in ids if each in known], reason)

    def get(self, instance: str) -> Instance | None:
        """Whether or not it can be seen yet."""
        return self.state.instances.get(instance)

    def build_of(self, instance: Instance) -> Build:
        return self.state.builds[instance.build]

    def named(self, ids: Sequence[str]) -> list[Instance]:
        """Each once, in the order of the ids; an error names those that cannot be seen."""
        for each in ids:
            if not ID.fullmatch(each):
                raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')
        known, now = self.state.instances, self._world.now()
        found = {each: known.get(each) for each in ids}
        seen = [each for each in found.values() if each is not None and each.visible <= now]
        if len(seen) < len(found):
            there = {each.id for each in seen}
            raise INSTANCE.lost(each for each in found if each not in there)
        return seen

    def visible(self) -> list[Instance]:
        now, every = self._world.now(), self.state.instances.values()
        if now >= self._unseen:
            return list(every)
        return [each for each in every if each.visible <= now]

    def alive(self) -> list[Instance]:
        return [each for each in self.state.instances.values() if each.alive]

    def changed(self) -> None:
        """To be said by whoever has changed something about a machine."""
        self._listing = None

    def shown(self, instance: Instance) -> Answer:
        return shown(instance, self.build_of(instance), self._world)

    def grouped(self, rows: Iterable[Instance]) -> list[Answer]:
        builds = self.state.builds
        return grouped(((each, builds[each.build]) for each in rows), self._world)

    # Operations

    def describe(self, params: Params) -> Answer:
        if params.get("InstanceIds") and params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination",
                "The parameter instancesSet cannot be used with the parameter maxResults",
            )
        rows, token = page(self._found(params), params, most=MOST, key=_place)
        with without_collector():
            return {"Reservations": self.grouped(rows), **token}

    def describe_attribute(self, params: Params) -> Answer:
        instance = self.named([params.get("InstanceId") or ""])[0]
        return {"InstanceId": instance.id, **self._attribute(instance, params.get("Attribute"))}

    def terminate_asked(self, params: Params) -> Answer:
        ids = params.get("InstanceIds")
        if not ids:
            raise AwsError("MissingParameter", "The request must contain the parameter InstanceIds")
        asked = self.named(ids)
        before = {each.id: each.state for each in asked}
        self._life.end(asked)
        return {
            "TerminatingInstances": [
                {
                    "InstanceId": each.id,
                    "CurrentState": state(each.state),
                    "PreviousState": state(before[each.id]),
                }
                for each in asked
            ]
        }

    def _attribute(self, instance: Instance, attribute: str | None) -> Answer:
        build = self.build_of(instance)
        known: dict[str, Answer] = {
            "userData": {"UserData": {} if build.user_data is None else {"Value": build.user_data}},
            "instanceType": {"InstanceType": {"Value": instance.type}},
            "disableApiTermination": {"DisableApiTermination": {"Value": False}},
            "rootDeviceName": {"RootDeviceName": {"Value": build.root_device}},
            "ebsOptimized": {"EbsOptimized": {"Value": build.ebs_optimized}},
            "groupSet": {"Groups": self.shown(instance)["SecurityGroups"]},
        }
        if attribute not in known:
            raise AwsError(
                "InvalidParameterValue",
                f"Value ({attribute}) for parameter attribute is invalid. Unknown attribute.",
            )
        return known[attribute]

    def _found(self, params: Params) -> list[Instance]:
        """The pages of one answer are looked up once, unless something changes in between."""
        if params.get("InstanceIds"):
            rows = sorted(self.named(params["InstanceIds"]), key=_place)
            return self._matching(rows, params)
        filters = msgspec.json.encode(params.get("Filters"))
        if self._listing is not None and self._listing.question == filters:
            return self._listing.rows
        settled = self._world.now() >= self._unseen
        rows = self._matching(self.visible(), params)
        self._listing = Listing(filters, rows) if settled else None
        return rows

    def _matching(self, rows: Iterable[Instance], params: Params) -> list[Instance]:
        return matching(rows, params.get("Filters"), self._fields, _tags)

    def _note(self, instance: Instance, before: str) -> None:
        """Keeps what is remembered beside the state; a build goes with its last machine."""
        self._listing = None
        if not before:
            self._unseen = max(self._unseen, instance.visible)
            self._users[instance.build] = self._users.get(instance.build, 0) + 1
        elif instance.state == GONE:
            self._users[instance.build] -= 1
            if not self._users[instance.build]:
                del self._users[instance.build], self.state.builds[instance.build]


def _tags(instance: Instance) -> Mapping[str, str]:
    return instance.tags


def _place(instance: Instance) -> str:
    return f"{instance.number:012}"
