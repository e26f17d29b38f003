"""Machines about to boot, for tests."""

from typing import Any

from wainwright.catalogue import builtin
from wainwright.emulator.boot.booted import Booted, boot
from wainwright.emulator.boot.facts import Cluster, Facts
from wainwright.emulator.boot.reasons import NeverJoins, Reason

CLUSTER = Cluster(endpoint="https://api.example.com", certificate="Q0E=")
CLUSTERS = {"prod": CLUSTER}


def facts(kind: str = "m5.xlarge", **more: Any) -> Facts:
    given: dict[str, Any] = {
        "machine": builtin.machines()[kind],
        "instance_id": "i-0123456789abcdef0",
        "region": "us-west-2",
        "zone": "us-west-2a",
        "zone_id": "usw2-az1",
        "private_dns": "ip-192-168-1-1.us-west-2.compute.internal",
    }
    return Facts(**given | more)


def joined(user_data: str, kind: str = "m5.xlarge", **more: Any) -> Booted:
    outcome = boot(user_data, facts(kind, **more))
    assert isinstance(outcome, Booted), outcome
    return outcome


def why_not(user_data: str, kind: str = "m5.xlarge", **more: Any) -> Reason:
    outcome = boot(user_data, facts(kind, **more))
    assert isinstance(outcome, NeverJoins), outcome
    assert outcome.detail
    return outcome.reason
