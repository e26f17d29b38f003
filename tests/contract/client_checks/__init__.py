"""The client checks, by subject."""

from tests.contract.client_checks import instance_types, instances, launches, node_class, startup

ALL = (instance_types, instances, launches, node_class, startup)
