"""Who owns whom: what is to be deleted once an owner is gone."""

from collections.abc import Iterator
from typing import NamedTuple

from wainwright.api.api_resources import served_resources
from wainwright.api.wire import ObjectMeta, OwnerReference, WireStruct


class ObjectKey(NamedTuple):
    kind: type[WireStruct]
    namespace: str
    name: str


class OwnerIndex:
    """Live objects by uid, and the dependents of each owner, in the order of their creation."""

    def __init__(self) -> None:
        self._alive: set[str] = set()
        self._dependents: dict[str, dict[ObjectKey, None]] = {}
        self._served = {(r.api_version, r.kind) for r in served_resources().values()}

    def add(self, key: ObjectKey, metadata: ObjectMeta) -> None:
        self._alive.add(metadata.uid)
        for owner in metadata.ownerReferences or ():
            self._dependents.setdefault(owner.uid, {})[key] = None

    def drop_references(self, key: ObjectKey, metadata: ObjectMeta) -> None:
        """Forgets whom the object belongs to."""
        for owner in metadata.ownerReferences or ():
            dependents = self._dependents.get(owner.uid, {})
            dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(owner.uid, None)

    def remove(self, key: ObjectKey, metadata: ObjectMeta) -> Iterator[ObjectKey]:
        """The object is gone; yields those that it owned."""
        self._alive.discard(metadata.uid)
        self.drop_references(key, metadata)
        yield from self._dependents.pop(metadata.uid, {})

    def is_orphan(self, metadata: ObjectMeta) -> bool:
        """Whether it has owners and none of them is left."""
        owners = metadata.ownerReferences
        return bool(owners) and not any(map(self.is_alive, owners or ()))

    def is_alive(self, owner: OwnerReference) -> bool:
        """Owners of kinds that are not served here are taken to be alive."""
        return owner.uid in self._alive or (owner.apiVersion, owner.kind) not in self._served
