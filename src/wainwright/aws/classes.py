"""Classes: the node classes that there are, what each resolves to, and what it launches from."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from wainwright.api.ec2nodeclass import EC2NodeClass
from wainwright.api.overrides import InstanceType, NodeOverlay
from wainwright.aws.nodeclass.conditions import READY, TRUE
from wainwright.aws.nodeclass.resolve import Resolver
from wainwright.aws.nodeclass.resolved import Resolved
from wainwright.aws.ordering import Source
from wainwright.aws.sources import Overrides, Sources, bare
from wainwright.catalogue.supply import Scope
from wainwright.clock import Clock
from wainwright.cloud import Declared, Manifest
from wainwright.errors import BadInput, ClassNotReady, NoCapacity

Object = TypeVar("Object", bound=msgspec.Struct)


class _Held(msgspec.Struct, frozen=True, kw_only=True):
    """A class as it was last resolved."""

    node_class: EC2NodeClass
    resolved: Resolved
    until: float


class Classes:
    def __init__(self, sources: Sources, resolver: Resolver, clock: Clock) -> None:
        self._sources = sources
        self._resolver = resolver
        self._clock = clock
        self._declared: dict[str, EC2NodeClass] = {}
        self._pools: dict[str, str] = {}
        self._held: dict[str, _Held] = {}

    def declare(self, declared: Declared) -> None:
        """BadInput where an object cannot be read; then all stays as it was."""
        classes = {each.metadata.name: each for each in _read(declared.node_classes, EC2NodeClass)}
        overrides = Overrides(
            instance_types=tuple(_read(declared.instance_types, InstanceType)),
            overlays=tuple(_read(declared.overlays, NodeOverlay)),
            scopes={
                pool.name: Scope(
                    node_class=bare(classes[pool.node_class]),
                    pool=pool.name,
                    labels=dict(pool.labels),
                )
                for pool in declared.pools
                if pool.node_class in classes
            },
        )
        self._declared = classes
        self._pools = {pool.name: pool.node_class for pool in declared.pools}
        self._sources.declare(overrides, classes)
        for gone in self._held.keys() - classes.keys():
            self._resolver.forget(self._held.pop(gone).node_class)

    def get(self, name: str) -> EC2NodeClass | None:
        return self._declared.get(name)

    def declared(self, name: str) -> EC2NodeClass:
        """NoCapacity where there is no such class: pods are planned anew with those there are."""
        node_class = self._declared.get(name)
        if node_class is None:
            message = f"there is no EC2NodeClass {name}"
            raise NoCapacity(message, "create it, or name another", reason="NodeClassNotFound")
        return node_class

    def class_of(self, pool: str) -> str:
        if pool not in self._pools:
            raise NoCapacity(f"there is no pool {pool}", reason="NodePoolNotFound")
        return self._pools[pool]

    def profiles(self) -> set[str]:
        """Instance profiles of the classes there are."""
        return {held.resolved.profile for held in self._held.values()}

    async def resolve(self, name: str) -> Resolved:
        node_class = self.declared(name)
        resolved = await self._resolver.resolve(node_class)
        until = self._clock.now() + resolved.again
        self._held[name] = _Held(node_class=node_class, resolved=resolved, until=until)
        return resolved

    async def current(self, name: str) -> tuple[EC2NodeClass, Resolved]:
        """As last resolved, unless the class has changed or it is time to look again."""
        held, declared = self._held.get(name), self.declared(name)
        if held is None or held.until <= self._clock.now() or not _same(held.node_class, declared):
            return declared, await self.resolve(name)
        return declared, held.resolved

    async def source(self, name: str, pool: str) -> Source:
        """What launches of the class start from; ClassNotReady where they cannot."""
        node_class, resolved = await self.current(name)
        if node_class.metadata.deletionTimestamp is not None:
            raise ClassNotReady(f"the EC2NodeClass {name} is being deleted", reason="Deleting")
        if not resolved.ready:
            raise ClassNotReady(f"the EC2NodeClass {name} is not ready: {why(resolved)}")
        return self._sources.of(node_class, resolved, pool)


def _same(one: EC2NodeClass, other: EC2NodeClass) -> bool:
    """Whether both resolve to the same."""
    return one.metadata.uid == other.metadata.uid and one.spec == other.spec


def why(resolved: Resolved) -> str:
    """What keeps a class from being ready."""
    told = [
        f"{each.type}: {each.message or each.reason}"
        for each in resolved.conditions
        if each.status != TRUE and each.type != READY
    ]
    return "; ".join(told)


def _read(manifests: Iterable[Manifest], kind: type[Object]) -> list[Object]:
    try:
        return [msgspec.convert(each, kind) for each in manifests]
    except msgspec.ValidationError as error:
        raise BadInput(f"{kind.__name__}: {error}") from error
