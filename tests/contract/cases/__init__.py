"""The cases, by subject."""

from tests.contract.cases import eks, iam, network, sqs, tags, templates

ALL = (eks, iam, network, sqs, tags, templates)
