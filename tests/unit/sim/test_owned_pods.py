"""Names of pods, where somebody else was faster."""

from tests.support.simulated_cluster import pod, to_object, workload

from wainwright.api.kubernetes.workloads import Deployment, Pod
from wainwright.clock import VirtualClock
from wainwright.sim.api_server import InMemoryApiServer
from wainwright.sim.informers import Informers
from wainwright.sim.owned_pods import PodControl, PodNumbers


def test_a_name_that_is_taken_unseen_is_passed_over() -> None:
    clock = VirtualClock()

    async def main() -> list[str]:
        api = InMemoryApiServer(clock)
        control = PodControl(Informers(api, clock))  # which has seen nothing yet
        await api.create(to_object(pod("web-1")))
        deployment = await api.create(to_object(workload("Deployment", "web", 3)))
        assert isinstance(deployment, Deployment)
        for number in range(3):
            await control.create_pods(deployment, 1)
            control.numbers.take(f"default/web-{number + (number > 0)}")
        return [each.metadata.name for each in (await api.list(Pod)).items]

    try:
        assert clock.run(main()) == ["web-0", "web-1", "web-2", "web-3"]
    finally:
        clock.close()


def test_no_pod_is_created_for_an_owner_that_is_gone_or_another_one_by_now() -> None:
    """Its pods would be collected at once, and be missed again at the same moment."""
    clock = VirtualClock()

    async def main() -> list[int]:
        api = InMemoryApiServer(clock)
        control = PodControl(Informers(api, clock))  # which has seen nothing yet
        versions = []
        old = await api.create(to_object(workload("Deployment", "web", 3)))
        assert isinstance(old, Deployment)
        for _ in range(2):
            await api.delete(Deployment, "web", "default")
            before = (await api.list(Pod)).resource_version
            await control.create_pods(old, 3)
            versions.append(int((await api.list(Pod)).resource_version) - int(before))
            await api.create(to_object(workload("Deployment", "web", 3)))
        return versions

    try:
        assert clock.run(main()) == [0, 0]
    finally:
        clock.close()


def test_numbers_are_given_again_from_the_lowest() -> None:
    numbers = PodNumbers()
    for number in range(4):
        numbers.take(f"shop/web-{number}")
    assert numbers.lowest_free("shop/web") == 4
    numbers.free("shop/web-2")
    numbers.free("shop/web-1")
    assert numbers.lowest_free("shop/web") == 1
    numbers.take("shop/web-1")
    assert numbers.lowest_free("shop/web") == 2
    assert numbers.lowest_free("other/web") == 0
