"""Descriptions: the labels of machines as requirement sets, shared by all classes of one system."""

from collections.abc import Mapping
from functools import cache

from wainwright.catalogue import builtin, regions
from wainwright.catalogue.ami import Traits
from wainwright.catalogue.labels import ARCH, Labels, kin, kin_labels, own_labels
from wainwright.catalogue.lazily import Lazily
from wainwright.model.requirements import Requirement, Requirements
from wainwright.model.values import one_of


@cache
def descriptions(region: str, traits: Traits) -> Mapping[str, Requirements]:
    """For every type that the region offers, what its labels can be, in the order of names."""
    machines = builtin.machines()
    kindred: dict[tuple[str | int, ...], list[Requirement]] = {}

    def made(name: str) -> Requirements:
        machine = machines[name]
        relation = kin(machine)
        shared = kindred.get(relation)
        if shared is None:
            shared = kindred[relation] = _required(kin_labels(machine, traits, region))
        return Requirements([*shared, *_required(own_labels(machine))])

    return Lazily(regions.region(region).offered, made)


def _required(labels: Labels) -> list[Requirement]:
    return [_requirement(key, values) for key, values in labels.items()]


@cache
def _requirement(key: str, values: tuple[str, ...]) -> Requirement:
    return Requirement(key=key, allowed=one_of(_legal(values) if key == ARCH else values))


def _legal(architectures: tuple[str, ...]) -> tuple[str, ...]:
    """The word that stands for a Mac's architecture is in brackets, which no label value may be."""
    return tuple(value.strip("[]") for value in architectures)
