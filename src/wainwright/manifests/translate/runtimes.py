"""Runtime classes: what running a pod in a special way costs, and which nodes can do it."""

from collections.abc import Iterable
from typing import Final

import msgspec

from wainwright.api.builtin.part import Resources
from wainwright.api.builtin.pod import PodSpec, Toleration
from wainwright.api.builtin.policy import RuntimeClass, RuntimeClassScheduling


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server adds to a pod that names its class."""

    overhead: Resources | None = None
    selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()


PLAIN: Final = Runtime()


class Runtimes:
    def __init__(self, classes: Iterable[RuntimeClass]) -> None:
        self._by_name = {each.metadata.name: _runtime(each) for each in classes}

    def of(self, spec: PodSpec) -> Runtime:
        return self._by_name.get(spec.runtimeClassName or "", PLAIN)

    def unknown(self, spec: PodSpec) -> str | None:
        """The class that is not in the input, so that nobody knows what it costs."""
        name = spec.runtimeClassName
        known = not name or name in self._by_name or spec.overhead is not None
        return None if known else name


def _runtime(written: RuntimeClass) -> Runtime:
    scheduling = written.scheduling or RuntimeClassScheduling()
    return Runtime(
        overhead=written.overhead.podFixed if written.overhead is not None else None,
        selector=scheduling.nodeSelector,
        tolerations=tuple(scheduling.tolerations or ()),
    )
