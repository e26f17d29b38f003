"""The contract: every case has the same outcome with every client, except known errors of moto."""

import botocore.exceptions
import pytest
from tests.contract.cases import ALL
from tests.contract.clients import HttpClient, InProcessClient
from tests.contract.registry import CASES, ContractCase

from wainwright.errors import AwsError

assert ALL
NAMES = sorted(CASES)
AGREED = [name for name in NAMES if not CASES[name].moto_wrong]
DISPUTED = [name for name in NAMES if CASES[name].moto_wrong]


@pytest.mark.parametrize("name", NAMES)
def test_in_process(name: str, in_process: InProcessClient) -> None:
    CASES[name].run(in_process)


@pytest.mark.parametrize("name", NAMES)
def test_over_http(name: str, over_http: HttpClient) -> None:
    CASES[name].run(over_http)


@pytest.mark.parametrize("name", AGREED)
def test_moto_agrees(name: str, by_moto: HttpClient) -> None:
    CASES[name].run(by_moto)


@pytest.mark.parametrize("name", DISPUTED)
def test_moto_is_still_wrong(name: str, by_moto: HttpClient) -> None:
    """Fails when moto is fixed: then the case needs no exception any more."""
    case: ContractCase = CASES[name]
    wrong = (AssertionError, AwsError, KeyError, ValueError, botocore.exceptions.BotoCoreError)
    with pytest.raises(wrong):
        case.run(by_moto)
