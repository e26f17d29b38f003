"""Names in a Scenario that the simulated cloud must have: zones, instance types, operations.

They are noted while events and expectations are read and judged afterwards, when the manifests have
said which region it is and what it sells.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from wainwright.api.catalog_documents import Cloud, CloudSpec
from wainwright.api.field_error import FieldError, FieldPath, WordHints, did_you_mean
from wainwright.catalogue.catalog_source import offline_source
from wainwright.catalogue.region_catalog import load_region_catalog
from wainwright.errors import InvalidInputError
from wainwright.manifests.cluster_manifests import ClusterManifests
from wainwright.model.input_remarks import RegionChoice
from wainwright.model.spelling import closest_spelling
from wainwright.offline import choose_region
from wainwright.sim.scenario_format.field_reader import FieldReader

DRY_RUN: Final = ".DryRun"
EXPECTED_OPERATION: Final = "an operation of EC2 such as CreateFleet, or *"
LAUNCHES: Final = ("CreateFleet", "RunInstances")


class CloudNameKind(StrEnum):
    ZONE = "zone"
    INSTANCE_TYPE = "instance type"


class CloudName(msgspec.Struct, frozen=True, kw_only=True):
    kind: CloudNameKind
    pattern: str
    path: FieldPath
    is_glob: bool
    """Whether the pattern may match several."""

    def means_one_of(self, known: Collection[str]) -> bool:
        return _matching(self.pattern, known) if self.is_glob else self.pattern in known


class CloudNames:
    """Reads such names, and says which of them the cloud does not have."""

    def __init__(self, reader: FieldReader) -> None:
        self._reader = reader
        self._names: list[CloudName] = []

    def zone(self, value: Any, path: FieldPath) -> str:
        """One zone, by its name."""
        return self._noted(CloudNameKind.ZONE, value, path, is_glob=False)

    def zones(self, value: Any, path: FieldPath) -> str:
        return self._noted(CloudNameKind.ZONE, value, path)

    def instance_type(self, value: Any, path: FieldPath) -> str:
        return self._noted(CloudNameKind.INSTANCE_TYPE, value, path)

    def operation(self, value: Any, path: FieldPath) -> str:
        """The name of calls that fail, or a glob."""
        text = self._reader.text(value, path, EXPECTED_OPERATION)
        known = known_operations() if text else ()
        if text and not _matching(text, known):
            plain = [name for name in known if not name.endswith(DRY_RUN)]
            hint = did_you_mean(text, [*known] if text.endswith(DRY_RUN) else plain)
            self._reader.add(_unknown(path, text, f"no operation of AWS is called {text}", hint))
        return text

    def check_launch(self, operation: str, path: FieldPath) -> None:
        """Only launches are made from pools, so that no other call can fail for some of them."""
        if operation and not _matching(operation, LAUNCHES) and _is_known(operation):
            message = f"{operation} does not launch instances: it cannot fail for some of them"
            self._reader.add(
                FieldError(path=path, message=message, found=operation, expected="CreateFleet")
            )

    def add(self, kind: CloudNameKind, name: str, path: FieldPath) -> None:
        """A single name that was read already."""
        self._names.append(CloudName(kind=kind, pattern=name, path=path, is_glob=False))

    def _noted(
        self, kind: CloudNameKind, value: Any, path: FieldPath, *, is_glob: bool = True
    ) -> str:
        text = self._reader.text(value, path)
        if text:
            self._names.append(CloudName(kind=kind, pattern=text, path=path, is_glob=is_glob))
        return text

    def check(self, manifests: ClusterManifests) -> None:
        """Adds an error for every name that means nothing in the cloud of these manifests."""
        if not self._names:
            return
        region = choose_region(manifests, None)
        try:
            known = _cloud_names(manifests, region.region)
        except InvalidInputError:
            return  # the cloud itself is wrong, which is told at its own place
        types = known[CloudNameKind.INSTANCE_TYPE]
        hints = WordHints([*types, *_families(types)])
        for name in self._names:
            if not name.means_one_of(known[name.kind]):
                self._reader.add(_unknown_name(name, known[name.kind], hints, region))


def _cloud_names(manifests: ClusterManifests, region: str) -> dict[CloudNameKind, Collection[str]]:
    """What the emulated account of a simulation has; see `sim/world.py`."""
    cloud = manifests.cloud or Cloud(spec=CloudSpec(region=region))
    found = load_region_catalog(offline_source(cloud=cloud), cloud)
    types: Collection[str] = found.offerings
    if manifests.catalog is not None:
        types = [each.name for each in manifests.catalog.instanceTypes]
    return {CloudNameKind.ZONE: found.zones, CloudNameKind.INSTANCE_TYPE: types}


def _matching(pattern: str, names: Collection[str]) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def _unknown_name(
    name: CloudName, known: Collection[str], hints: WordHints, region: RegionChoice
) -> FieldError:
    if name.kind is CloudNameKind.ZONE:
        meant = closest_spelling("", name.pattern, tuple(known))
        hint = f"did you mean {meant}?" if meant else f"{region.region} has {', '.join(known)}"
        hint += "" if region.is_stated else "; the region is that of a Cloud where there is one"
    else:
        hint = hints.did_you_mean(name.pattern)
    message = f"no {name.kind} of {region.region} is called {name.pattern}"
    return _unknown(name.path, name.pattern, message, hint, f"a {name.kind} of {region.region}")


def _families(instance_types: Iterable[str]) -> list[str]:
    """As globs: c5.* and so on."""
    return [*dict.fromkeys(f"{each.partition('.')[0]}.*" for each in sorted(instance_types))]


def _unknown(
    path: FieldPath, found: str, message: str, hint: str, expected: str = EXPECTED_OPERATION
) -> FieldError:
    return FieldError(path=path, message=message, found=found, expected=expected, hint=hint)


def known_operations() -> tuple[str, ...]:
    """Of every service; those of EC2 also as dry runs."""
    # The emulator is loaded where a scenario lets calls fail, and not to read any other.
    from wainwright.emulator.emulated_account import EmulatedAwsAccount

    return tuple(_with_dry_runs(EmulatedAwsAccount.known_operations()))


def _with_dry_runs(operations: Collection[tuple[str, str]]) -> Iterator[str]:
    for service, operation in sorted(operations):
        yield operation
        if service == "ec2":
            yield f"{operation}{DRY_RUN}"


def _is_known(operation: str) -> bool:
    return _matching(operation, known_operations())
