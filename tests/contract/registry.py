"""Contract cases, which every client must end in the same way, and checks of what a demanding
client asks of EC2, call by call; both are found by name.
"""

from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import msgspec
from tests.contract.clients import AccountClient, HttpClient

CaseFunction: TypeAlias = Callable[[AccountClient], None]

CASES: dict[str, "ContractCase"] = {}
_numbers = count(1)


class ContractCase(msgspec.Struct, frozen=True, kw_only=True):
    story: CaseFunction
    moto_wrong: str = ""
    """Why moto ends it in another way; empty where it agrees. Checked: it must not end well."""


def contract_case(moto_wrong: str = "") -> Callable[[CaseFunction], CaseFunction]:
    """Adds a story; its name is the function's."""

    def add(story: CaseFunction) -> CaseFunction:
        subject = story.__module__.rpartition(".")[2]
        name = f"{subject}: {story.__name__.replace('_', ' ')}"
        assert name not in CASES, name
        CASES[name] = ContractCase(story=story, moto_wrong=moto_wrong)
        return story

    return add


def fresh_name(prefix: str) -> str:
    """A name that no other story has: they all live in one account."""
    return f"{prefix}-{next(_numbers)}"


CheckFunction: TypeAlias = Callable[[HttpClient], None]
CLIENT_CHECKS: dict[str, "ClientCheck"] = {}


class ClientCheck(msgspec.Struct, frozen=True, kw_only=True):
    told: CheckFunction
    names: tuple[str, ...]
    alone: bool
    """Whether it needs an account of its own."""


def client_check(*names: str, alone: bool = False) -> Callable[[CheckFunction], CheckFunction]:
    """Adds a story that tells these lines."""

    def add(told: CheckFunction) -> CheckFunction:
        key = f"{', '.join(names)}: {told.__name__.replace('_', ' ')}"
        assert key not in CLIENT_CHECKS, key
        CLIENT_CHECKS[key] = ClientCheck(told=told, names=names, alone=alone)
        return told

    return add
