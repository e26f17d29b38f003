"""The cases, by subject."""

from tests.contract.cases import fleets, instance_types, instances, network, services

ALL = (fleets, instance_types, instances, network, services)
