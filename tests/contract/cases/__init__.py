"""The cases, by subject."""

from tests.contract.cases import (
    catalogue,
    eks,
    fleets,
    iam,
    machines,
    network,
    parameters,
    reservations,
    sqs,
    tags,
    templates,
)

ALL = (
    *(catalogue, eks, fleets, iam, machines, network),
    *(parameters, reservations, sqs, tags, templates),
)
