"""What a booted machine really has, against what was estimated before it ran."""

import pytest
from tests.support.machines import joined

from wainwright.catalogue import builtin
from wainwright.catalogue.capacity import memory
from wainwright.catalogue.settings import ClassSettings, Options
from wainwright.catalogue.shapes import shape
from wainwright.emulator.boot.memory import true_memory

CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: p, apiServerEndpoint: https://api, certificateAuthority: Q0E=, cidr: 10.0.0.0/8}
"""
MACHINES = builtin.machines()


def test_true_memory_is_a_little_off_the_estimate_both_ways() -> None:
    share = Options().vm_memory_overhead
    off = {
        name: true_memory(machine) / memory(machine, share).amount
        for name, machine in MACHINES.items()
    }
    assert all(0.99 < ratio < 1.02 for ratio in off.values())
    fewer = sum(ratio < 1 for ratio in off.values()) / len(off)
    assert 0.05 < fewer < 0.25
    assert sum(ratio == 1 for ratio in off.values()) == 0
    assert len({round(ratio, 4) for ratio in off.values()}) > 100


def test_true_memory_is_always_the_same_and_less_than_the_machine_has() -> None:
    for machine in MACHINES.values():
        found = true_memory(machine)
        assert found == true_memory(machine)
        assert found % 1024 == 0
        assert 0 < found < machine.memory_mib * 2**20


@pytest.mark.parametrize(
    "name", ["m5.xlarge", "t3.nano", "c6g.16xlarge", "m5.metal", "p5.48xlarge"]
)
def test_all_but_memory_is_what_was_estimated(name: str) -> None:
    node = joined(CONFIG, name)
    estimate = shape(MACHINES[name], ClassSettings())
    allocatable = estimate.allocatable()
    for resource in ("cpu", "pods", "ephemeral-storage"):
        assert node.capacity[resource] == estimate.capacity[resource].amount
        assert node.allocatable[resource] == allocatable[resource]
    kept = node.capacity["memory"] - node.allocatable["memory"]
    assert kept == estimate.capacity["memory"].amount - allocatable["memory"]


def test_machines_of_every_size_boot_with_nothing_but_a_cluster() -> None:
    for name in list(MACHINES)[::7]:
        node = joined(CONFIG, name)
        assert all(amount >= 0 for amount in node.allocatable.values())


def test_local_disks_count_only_where_they_are_striped_and_there() -> None:
    striped = CONFIG + "  instance: {localStorage: {strategy: RAID0}}\n"
    assert joined(CONFIG, "m5d.xlarge").capacity["ephemeral-storage"] == 20 * 2**30
    assert joined(striped, "m5d.xlarge").capacity["ephemeral-storage"] == 150 * 10**9
    assert joined(striped, "m5.xlarge").capacity["ephemeral-storage"] == 20 * 2**30
    assert joined(CONFIG, disks={"/dev/xvda": 33}).capacity["ephemeral-storage"] == 33 * 2**30


def test_soft_thresholds_take_nothing_and_a_hundred_percent_is_none() -> None:
    soft = (
        "  kubelet: {config: {evictionSoft: {memory.available: 2Gi}, "
        "evictionSoftGracePeriod: {memory.available: 1m}}}\n"
    )
    assert joined(CONFIG + soft).allocatable == joined(CONFIG).allocatable
    off = "  kubelet: {config: {evictionHard: {memory.available: 100%}}}\n"
    more = joined(CONFIG + off).allocatable["memory"] - joined(CONFIG).allocatable["memory"]
    assert more == 100 * 2**20
