"""Carries out the events of a scenario: at their moment, in the order of the file.

Events change three worlds: objects in the API server, the emulated account, and the machines. What
writes objects waits while the API server is down, in order. An event that reaches nobody, or that
the API server or EC2 refuses, is a warning.
"""

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from wainwright.api.api_resources import resource_of
from wainwright.api.karpenter.ec2nodeclass import EC2NodeClass
from wainwright.api.kubernetes.cluster import Namespace, Node
from wainwright.api.wire import ObjectMeta, WireStruct
from wainwright.clock import format_timestamp
from wainwright.controllers.runtime import ACCOUNT, IMAGES
from wainwright.errors import KubernetesError, ServerUnavailableError
from wainwright.sim.cloud_events import CloudEvents
from wainwright.sim.expectations import selects_node
from wainwright.sim.object_store import metadata_of
from wainwright.sim.recorder import Recorder
from wainwright.sim.scenario import (
    Action,
    ApiServerDown,
    ApplyObjects,
    CancelReservation,
    ChangePrice,
    ChangeReservation,
    CreateReservation,
    DeleteObject,
    FailCalls,
    FreeAddresses,
    Interrupt,
    KillNodes,
    NeverJoin,
    NodeMatch,
    ObjectTarget,
    OfferLess,
    PublishImage,
    RestartController,
    ScaleWorkload,
    Scenario,
    ScenarioEvent,
    SetNodeCondition,
    ThrottleCalls,
    TracePod,
    Unavailable,
    ZoneOutage,
)
from wainwright.sim.scenario_format.references import is_glob, matches
from wainwright.sim.timeline import object_name, qualified_name
from wainwright.sim.traces import TracePods
from wainwright.sim.world import World

SCALE_STEP: Final = 60.0
KEPT_METADATA: Final = ("labels", "annotations")
"""What of the metadata an `apply` replaces."""
Step: TypeAlias = Callable[[], Awaitable[None]]


class InstanceControls(Protocol):
    """How the simulated machines are made to misbehave."""

    def lose(self, instance_id: str) -> None: ...

    def recover(self, instance_id: str) -> None: ...

    def set_never_join(self, share: float) -> None: ...

    def set_less(self, less: Mapping[str, str]) -> None: ...


class ScenarioEvents:
    def __init__(
        self,
        scenario: Scenario,
        world: World,
        recorder: Recorder,
        cloud: CloudEvents,
        controls: InstanceControls,
        restart: Callable[[], None],
    ) -> None:
        self._scenario = scenario
        self._world = world
        self._api = world.api
        self._recorder = recorder
        self._cloud = cloud
        self._controls = controls
        self._restart = restart
        self._steps: list[tuple[float, int, Step]] = []
        self._numbers = iter(range(1 << 62))
        self._writes: asyncio.Queue[Step] = asyncio.Queue()
        self._is_up = asyncio.Event()
        self._is_up.set()
        self._down = 0
        """How many outages of the API server are in effect."""
        self._tasks: asyncio.TaskGroup | None = None
        """Those of a simulation that runs."""
        self._traces = TracePods(scenario, world, self._write_soon)
        for event in scenario.events:
            self._plan(event)
        for pod in scenario.traces:
            self._plan_trace(pod)

    async def begin(self) -> None:
        """What happens at the start happens before anybody else does anything."""
        while self._steps and self._steps[0][0] <= 0.0:
            await heapq.heappop(self._steps)[2]()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_steps())
            tasks.create_task(self._run_writes())
            self._tasks = tasks

    async def happen(self, event: ScenarioEvent) -> None:
        """Now, while it runs: an event that the file does not have."""
        assert self._tasks is not None
        await self._begin(event)
        for after, step in self._later_steps(event):
            self._tasks.create_task(self._wait(after, step))

    async def _wait(self, seconds: float, step: Step) -> None:
        await self._world.clock.sleep(seconds)
        await step()

    async def _run_steps(self) -> None:
        clock, start = self._world.clock, self._world.start
        while self._steps:
            at, _, step = heapq.heappop(self._steps)
            await clock.sleep(max(start + at - clock.now(), 0.0))
            await step()

    # Planning

    def _at(self, at: float, step: Step) -> None:
        heapq.heappush(self._steps, (at, next(self._numbers), step))

    def _plan(self, event: ScenarioEvent) -> None:
        self._at(event.at, partial(self._begin, event))
        for after, step in self._later_steps(event):
            self._at(event.at + after, step)

    def _later_steps(self, event: ScenarioEvent) -> Iterator[tuple[float, Step]]:
        """What follows from its beginning, and how many seconds later."""
        if event.duration is not None:
            yield event.duration, partial(self._end, event)
        if isinstance(event.action, ScaleWorkload):
            for after, replicas in _scale_steps(event.action):
                yield after, partial(self._scale, event, event.action.target, replicas)

    def _plan_trace(self, pod: TracePod) -> None:
        self._at(pod.created, partial(self._write, partial(self._traces.create, pod)))
        if pod.deleted is not None:
            self._at(pod.deleted, partial(self._write, partial(self._traces.delete, pod)))

    async def _begin(self, event: ScenarioEvent) -> None:
        self._recorder.touch()
        verb, subject, text = describe_action(event.action)
        at = round(self._world.now(), 3)
        self._recorder.timeline.scenario(at, verb, event.line, subject, text)
        await self._carry_out(event)
        self._changed(event)

    async def _carry_out(self, event: ScenarioEvent) -> None:  # noqa: C901, PLR0912 - one line a verb
        match event.action:
            case ApplyObjects(objects=objects):
                for obj in objects:
                    await self._write(partial(self._apply, event, obj))
            case DeleteObject(target=target):
                await self._write(partial(self._delete, event, target))
            case ScaleWorkload():
                await self._scale(event, event.action.target, event.action.curve[0].replicas)
            case SetNodeCondition():
                await self._write(partial(self._set_condition, event, event.action))
            case RestartController():
                self._restart()
            case ApiServerDown():
                self._stop_api_server()
            case KillNodes(nodes=nodes):
                self._kill(event, nodes)
            case NeverJoin(share=share):
                self._controls.set_never_join(share)
            case OfferLess(quantities=quantities):
                self._controls.set_less(quantities)
            case ZoneOutage(zone=zone):
                self._begin_outage(event, zone)
            case Interrupt(nodes=NodeMatch() as nodes):
                self._cloud.interrupt(event, self._selected_instances(nodes))
            case _:
                self._change_cloud(event)

    def _change_cloud(self, event: ScenarioEvent) -> None:  # noqa: C901 - one line a verb
        cloud = self._cloud
        match event.action:
            case CreateReservation(reservation=reservation):
                cloud.create_reservation(event, reservation)
            case ChangeReservation():
                cloud.change_reservation(event, event.action)
            case CancelReservation(id=identity):
                cloud.cancel_reservation(event, identity)
            case Unavailable():
                cloud.begin_unavailable(event)
            case Interrupt():
                cloud.interrupt(event, None)
            case ChangePrice():
                cloud.begin_price(event)
            case FailCalls() | ThrottleCalls():
                cloud.begin_fault(event)
            case PublishImage(alias=alias):
                self._world.resources.publish_image(alias)
            case FreeAddresses(zone=zone, free=free):
                cloud.set_addresses(event, zone, free)
            case _:
                raise AssertionError(f"nothing carries out {event.action}")

    async def _end(self, event: ScenarioEvent) -> None:
        self._recorder.touch()
        verb, subject, text = describe_action(event.action)
        at = round(self._world.now(), 3)
        self._recorder.timeline.scenario(at, verb, event.line, subject, f"over: {text}")
        match event.action:
            case ApiServerDown():
                self._start_api_server()
            case NeverJoin():
                self._controls.set_never_join(self._scenario.instances.never_join)
            case OfferLess():
                self._controls.set_less(self._scenario.instances.less)
            case ZoneOutage(zone=zone):
                self._end_outage(event, zone)
            case _:
                self._cloud.end(event)
        self._changed(event)

    def _changed(self, event: ScenarioEvent) -> None:
        """Objects and instances tell of their changes by themselves."""
        if isinstance(event.action, PublishImage):
            self._world.changes.add(IMAGES)
        elif not isinstance(event.action, (ScaleWorkload, DeleteObject, SetNodeCondition)):
            self._world.changes.add(ACCOUNT)

    # Objects

    async def _write(self, step: Step) -> None:
        """Now, or, in order, once the API server is back."""
        if not self._is_up.is_set() or not self._writes.empty():
            self._writes.put_nowait(step)
            return
        try:
            await step()
        except ServerUnavailableError:
            self._writes.put_nowait(step)

    def _write_soon(self, step: Step) -> None:
        self._writes.put_nowait(step)

    async def _run_writes(self) -> None:
        while True:
            step = await self._writes.get()
            await self._is_up.wait()
            try:
                await step()
            except ServerUnavailableError:
                self._writes.put_nowait(step)

    async def _attempt(self, event: ScenarioEvent, request: Awaitable[Any], what: str) -> None:
        try:
            await request
        except ServerUnavailableError:
            raise
        except KubernetesError as error:
            self.warn(event, f"{what}: {error}")

    async def _apply(self, event: ScenarioEvent, obj: WireStruct) -> None:
        if isinstance(obj, EC2NodeClass):
            self._world.resources.create_for(obj)
        await self._attempt(event, self._apply_object(obj), f"apply {object_name(obj)}")

    async def _apply_object(self, obj: WireStruct) -> None:
        metadata, resource = metadata_of(obj), resource_of(type(obj))
        namespace = (metadata.namespace or "default") if resource.is_namespaced else ""
        if namespace and self._api.peek(Namespace, namespace) is None:
            await self._api.create(Namespace(metadata=ObjectMeta(name=namespace)))
        existing = self._api.peek(type(obj), metadata.name, namespace)
        if existing is None:
            await self._api.create(obj)
        else:
            patch = replacing_patch(existing, obj)
            await self._api.patch(type(obj), metadata.name, patch, namespace)

    async def _delete(self, event: ScenarioEvent, target: ObjectTarget) -> None:
        names = [target.name]
        if is_glob(target.name):
            found = self._api.peek_all(target.type, target.namespace)
            every = [metadata_of(each).name for each in found]
            names = [each for each in every if matches(each, target.name)]
        if not names:
            self.warn(event, f"delete: no {target.kind} is called {target.name}")
        for name in names:
            request = self._api.delete(target.type, name, target.namespace)
            what = f"delete {qualified_name(target.kind, target.namespace, name)}"
            await self._attempt(event, request, what)

    async def _scale(self, event: ScenarioEvent, target: ObjectTarget, replicas: int) -> None:
        await self._write(partial(self._set_replicas, event, target, replicas))

    async def _set_replicas(
        self, event: ScenarioEvent, target: ObjectTarget, replicas: int
    ) -> None:
        field = "parallelism" if target.kind == "Job" else "replicas"
        request = self._api.patch(
            target.type, target.name, {"spec": {field: replicas}}, target.namespace
        )
        what = f"scale {qualified_name(target.kind, target.namespace, target.name)}"
        await self._attempt(event, request, what)

    async def _set_condition(self, event: ScenarioEvent, action: SetNodeCondition) -> None:
        nodes = [each.name for each in self._selected(action.nodes) if each.name]
        if not nodes:
            self.warn(event, "condition: no node is meant")
        for name in nodes:
            node = self._api.peek(Node, name)
            if node is not None:
                await self._attempt(event, self._patch_condition(node, action), f"node {name}")

    async def _patch_condition(self, node: Node, action: SetNodeCondition) -> None:
        others = [each for each in node.status.conditions or () if each.type != action.condition]
        condition = {
            "type": action.condition,
            "status": action.status,
            "reason": action.reason or "Scenario",
            "message": action.message,
            "lastTransitionTime": format_timestamp(self._world.clock.now()),
        }
        conditions = [*msgspec.to_builtins(others), condition]
        patch = {"status": {"conditions": conditions}}
        await self._api.patch_status(Node, node.metadata.name, patch)

    # Processes and machines

    def _stop_api_server(self) -> None:
        self._down += 1
        self._is_up.clear()
        self._api.stop()

    def _start_api_server(self) -> None:
        self._down -= 1
        if not self._down:
            self._api.start()
            self._is_up.set()

    def _selected(self, selector: NodeMatch) -> list[Any]:
        return [each for each in self._recorder.node_views() if selects_node(selector, each)]

    def _selected_instances(self, selector: NodeMatch) -> list[str]:
        return [each.instance for each in self._selected(selector)]

    def _kill(self, event: ScenarioEvent, selector: NodeMatch) -> None:
        instances = self._selected_instances(selector)
        if not instances:
            self.warn(event, "kill: no node is meant")
        for each in instances:
            self._recorder.kill(each)
            self._cloud.vanish(each)

    def _begin_outage(self, event: ScenarioEvent, zone: str) -> None:
        self._cloud.begin_unavailable(event)
        instances = self._cloud.instances_in_zone(zone)
        if not instances:
            self.warn(event, f"outage: no instance runs in {zone}")
        for each in instances:
            self._controls.lose(each)
            self._recorder.set_answering(each, answers=False)

    def _end_outage(self, event: ScenarioEvent, zone: str) -> None:
        self._cloud.end(event)
        if self._cloud.is_out(zone):
            return
        for each in self._cloud.instances_in_zone(zone):
            self._controls.recover(each)
            self._recorder.set_answering(each, answers=True)

    def warn(self, event: ScenarioEvent, message: str) -> None:
        self._cloud.warn(event, message)


def _scale_steps(action: ScaleWorkload) -> Iterator[tuple[float, int]]:
    """A step a minute, and one at each point; those that change nothing are left out."""
    last, replicas = action.curve[-1].after, action.curve[0].replicas
    minutes = {number * SCALE_STEP for number in range(1, math.floor(last / SCALE_STEP) + 1)}
    for after in sorted(minutes | {point.after for point in action.curve[1:]}):
        wanted = action.replicas_at(after)
        if wanted != replicas:
            replicas = wanted
            yield after, replicas


def replacing_patch(old: WireStruct, new: WireStruct) -> dict[str, Any]:
    """The merge patch after which spec, labels and annotations are those written.

    Status, finalizers, owner references and whatever the server sets stay as they are.
    """
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    patch = {
        part: _difference(before.get(part), after.get(part))
        for part in dict.fromkeys([*before, *after])
        if part not in ("metadata", "status", "apiVersion", "kind")
    }
    metadata = {
        part: _difference(before["metadata"].get(part) or {}, after["metadata"].get(part) or {})
        for part in KEPT_METADATA
    }
    return {**patch, "metadata": metadata}


def _difference(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {
        key: _difference(old.get(key), new[key]) if key in new else None
        for key in dict.fromkeys([*old, *new])
    }


def describe_action(action: Action) -> tuple[str, str, str]:
    """Verb, object and text for the timeline."""
    verb = str(action.__struct_config__.tag).partition(".")[0]
    match action:
        case ApplyObjects(objects=objects):
            names = [object_name(each) for each in objects]
            return verb, names[0] if len(names) == 1 else "", f"apply {', '.join(names)}"
        case DeleteObject(target=target) | ScaleWorkload(target=target):
            name = qualified_name(target.kind, target.namespace, target.name)
            return verb, name, f"{verb} {name}{_scale_text(action)}"
        case CreateReservation(reservation=reservation):
            return verb, f"CapacityReservation/{reservation.id}", f"create {reservation.id}"
        case ChangeReservation(id=identity) | CancelReservation(id=identity):
            what = str(action.__struct_config__.tag).partition(".")[2]
            return verb, f"CapacityReservation/{identity}", f"{what} {identity}"
        case RestartController():
            return verb, "", "restart the controllers"
        case ApiServerDown():
            return verb, "", "the API server is down"
        case OfferLess(quantities=quantities):
            stated = ", ".join(f"{name} {amount}" for name, amount in quantities.items())
            return verb, "", f"instances offer less: {stated}"
        case _:
            return verb, "", f"{verb} {_stated_fields(action)}".rstrip()


def _scale_text(action: DeleteObject | ScaleWorkload) -> str:
    if isinstance(action, DeleteObject):
        return ""
    counts = [str(point.replicas) for point in action.curve]
    return f" to {' → '.join(counts)}"


def _stated_fields(value: Any) -> str:
    """What is set, in the words of the fields."""
    found: list[str] = []
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if isinstance(field, msgspec.Struct):
            found.append(_stated_fields(field))
        elif field not in (None, (), ""):
            text = ", ".join(field) if isinstance(field, tuple) else field
            found.append(f"{name.replace('_', ' ')} {text}")
    return ", ".join(each for each in found if each)
