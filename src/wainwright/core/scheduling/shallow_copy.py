"""A shallow copy of an object, for forks."""

from typing import TypeVar

Object = TypeVar("Object")


def shallow_copy(value: Object) -> Object:
    """The same attributes in another object of the same class, which must not have slots.

    As `copy.copy`, without its search for a protocol: a simulation makes several copies, and that
    search takes longer than the copies.
    """
    clone = object.__new__(type(value))
    clone.__dict__.update(value.__dict__)
    return clone
