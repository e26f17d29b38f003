"""The lines, by subject."""

from tests.contract.lines import catalogue, errors, launches, machines, surroundings, whole

ALL = (catalogue, errors, launches, machines, surroundings, whole)
