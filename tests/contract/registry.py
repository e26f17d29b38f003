"""Contract cases, which must have the same outcome with every client, and checks of what a
demanding client needs of EC2, call by call; both are registered by name.
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
    run: CaseFunction
    moto_wrong: str = ""
    """Why moto fails the case; empty where it passes. Verified: the case must fail then."""


def contract_case(moto_wrong: str = "") -> Callable[[CaseFunction], CaseFunction]:
    """Registers a case under the name of its function."""

    def add(case: CaseFunction) -> CaseFunction:
        subject = case.__module__.rpartition(".")[2]
        name = f"{subject}: {case.__name__.replace('_', ' ')}"
        assert name not in CASES, name
        CASES[name] = ContractCase(run=case, moto_wrong=moto_wrong)
        return case

    return add


def fresh_name(prefix: str) -> str:
    """A unique name: all cases share one account."""
    return f"{prefix}-{next(_numbers)}"


CheckFunction: TypeAlias = Callable[[HttpClient], None]
CLIENT_CHECKS: dict[str, "ClientCheck"] = {}


class ClientCheck(msgspec.Struct, frozen=True, kw_only=True):
    run: CheckFunction
    names: tuple[str, ...]
    own_account: bool
    """Whether it needs its own account."""


def client_check(
    *names: str, own_account: bool = False
) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a check that covers these requirements."""

    def add(check: CheckFunction) -> CheckFunction:
        key = f"{', '.join(names)}: {check.__name__.replace('_', ' ')}"
        assert key not in CLIENT_CHECKS, key
        CLIENT_CHECKS[key] = ClientCheck(run=check, names=names, own_account=own_account)
        return check

    return add
