"""The flight recorder: decisions of controllers in virtual time, repeated by the commands."""

import asyncio
import json
import logging
from pathlib import Path

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.support.controlled_cluster import node_pool, pending_pod
from tests.support.manifest_tables import TESTS
from tests.support.operator_world import CLOUD, SETTINGS, World, play
from tests.unit.core.disruption.test_commands import WEB, node, types

from wainwright.api.karpenter.nodepool import NodePool
from wainwright.api.kubernetes.cluster import Service, ServiceSpec
from wainwright.api.kubernetes.workloads import Pod, TopologySpreadConstraint
from wainwright.api.wire import ObjectMeta
from wainwright.cli.main import wain
from wainwright.clock import SystemClock
from wainwright.core.disruption.disruption_input import DEFAULT_DISRUPTION_OPTIONS, DisruptionInput
from wainwright.core.disruption.disruption_pass import DisruptionPass
from wainwright.errors import UsageError
from wainwright.model.disruption import FailedStart
from wainwright.model.instance_type_index import InstanceTypeIndex
from wainwright.model.labels import ZONE
from wainwright.model.plan import PreferencePolicy
from wainwright.model.snapshot import Snapshot
from wainwright.operator.flight_recorder import FlightRecorder
from wainwright.operator.process import EMULATOR, RunOptions
from wainwright.operator.recorder_options import RecorderOptions
from wainwright.operator.settings import OperatorSettings
from wainwright.report.plan_input import load_plan_input

SCHEMA = json.loads((TESTS.parent / "docs" / "consolidation.schema.json").read_text())
COMMANDS = {"provision": "plan", "disrupt": "consolidate"}


SPREAD = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="ScheduleAnyway")
WITH_DEFAULTS = msgspec.structs.replace(SETTINGS, scheduler_config=(SPREAD,))


def recorded(options: RecorderOptions, settings: OperatorSettings = SETTINGS) -> list[Path]:
    """Six pods get nodes, five go, and the nodes that are left are too many or too large."""
    selector = {"app": "shop"}

    async def story(world: World) -> None:
        run = RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=5.0, record=options)
        process = world.run(run, settings)
        metadata = ObjectMeta(name="web", namespace="default")
        await world.api.create(Service(metadata=metadata, spec=ServiceSpec(selector=selector)))
        for number in range(6):
            pod = pending_pod(f"web-{number}", cpu="900m", metadata={"labels": selector})
            await world.api.create(pod)
        await world.clock.sleep(60)
        for number in range(5):
            await world.api.delete(Pod, f"web-{number}", "default")
        await world.clock.sleep(300)
        await process.stop()

    play(story)
    return sorted(options.folder.iterdir(), key=number_of)


def repeat(decision: Path, *more: str) -> Result:
    command = COMMANDS[decision.name.split("-")[1]]
    return CliRunner().invoke(wain, [command, str(decision), *more], standalone_mode=False)


def recorded_dry(
    options: RecorderOptions, settings: OperatorSettings = SETTINGS, *, once: bool = False
) -> list[Path]:
    """Beside the node of a pod that has gone, another pod waits for a larger one. A second NodePool
    can launch nothing, as it has no class."""

    async def story(world: World) -> None:
        process = world.run()
        await world.api.create(pending_pod("web-0", cpu="1500m"))
        await world.clock.sleep(60)
        await process.stop()
        spec = {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}}
        await world.api.patch(NodePool, "web", {"spec": spec})
        reference = {"nodeClassRef": {"name": "missing"}}
        await world.api.create(node_pool("other", template={"spec": reference}))
        await world.api.delete(Pod, "web-0", "default", grace_period=0)
        await world.api.create(pending_pod("web-1", cpu="3500m"))
        await world.clock.sleep(5)
        run = RunOptions(provider=EMULATOR, cloud=CLOUD, dry_run=True, once=once, record=options)
        dry = world.run(run, settings)
        if once:
            await dry.task
        else:
            await world.clock.sleep(600)
            await dry.stop()

    play(story)
    return sorted(options.folder.iterdir(), key=number_of)


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return recorded(RecorderOptions(folder=tmp_path_factory.mktemp("record") / "new"))


def test_both_kinds_of_decisions_are_kept_with_what_was_done(decisions: list[Path]) -> None:
    kinds = [each.name.split("-")[1] for each in decisions]
    assert kinds[0] == "provision"
    assert kinds.count("disrupt") >= 1
    first = msgspec.json.decode((decisions[0] / "output.json").read_bytes())
    assert first["kind"] == "Plan"
    assert sum(len(claim["pods"]) for claim in first["nodeClaims"]) == 6
    last = decisions[-1]
    found = msgspec.json.decode((last / "output.json").read_bytes())
    assert found["kind"] == "Consolidation"
    [command] = found["commands"]
    assert command["savingsPerHour"] > 0
    assert found["now"].startswith(f"{last.name[:4]}-{last.name[4:6]}-{last.name[6:8]}T")


def test_a_decision_that_is_repeated_has_the_bytes_of_its_output(decisions: list[Path]) -> None:
    for decision in decisions:
        result = repeat(decision, "-o", "json")
        assert result.exception is None, (decision.name, result.output)
        assert result.stdout_bytes == (decision / "output.json").read_bytes(), decision.name


@pytest.mark.parametrize("redact", [False, True])
def test_a_decision_has_the_defaults_of_the_scheduler_that_it_was_made_with(
    redact: bool, tmp_path: Path
) -> None:
    options = RecorderOptions(folder=tmp_path, redact=redact)
    found = recorded(options, WITH_DEFAULTS)
    assert {each.name.split("-")[1] for each in found} == {"provision", "disrupt"}
    first = msgspec.json.decode((found[0] / "output.json").read_bytes())
    assert len({claim["zone"] for claim in first["nodeClaims"]}) == 4, "as many as there are"
    for decision in found:
        result = repeat(decision, "-o", "json")
        assert result.exception is None, (decision.name, result.output)
        assert result.stdout_bytes == (decision / "output.json").read_bytes(), decision.name


@pytest.mark.parametrize("redact", [False, True])
@pytest.mark.parametrize("once", [False, True])
def test_a_dry_run_records_each_decision_that_it_logs_and_it_can_be_repeated(
    once: bool, redact: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="wainwright.operator.dry_run"):
        found = recorded_dry(RecorderOptions(folder=tmp_path, redact=redact), once=once)
    logged = [each.message for each in caplog.records if each.message.startswith("would")]
    assert [each.split(" ")[1] for each in logged] == ["launch", "disrupt"]
    assert [each.name.split("-")[1] for each in found] == ["provision", "disrupt"], "each once"
    for decision in found:
        result = repeat(decision, "-o", "json")
        assert result.exception is None, (decision.name, result.output)
        assert result.stdout_bytes == (decision / "output.json").read_bytes(), decision.name
    planned, consolidated = (
        msgspec.json.decode((each / "output.json").read_bytes()) for each in found
    )
    assert [len(claim["pods"]) for claim in planned["nodeClaims"]] == [1]
    assert [each["method"] for each in consolidated["commands"]] == ["emptiness"]


def test_both_decisions_of_a_dry_run_are_made_with_the_settings_of_the_process(
    tmp_path: Path,
) -> None:
    ignore = msgspec.structs.replace(SETTINGS, preference_policy=PreferencePolicy.IGNORE)
    planned, disrupted = map(
        load_plan_input, map(str, recorded_dry(RecorderOptions(folder=tmp_path), ignore))
    )
    assert disrupted.consolidation is not None
    for options in (planned.options, disrupted.consolidation.options.plan):
        assert options.preference_policy is PreferencePolicy.IGNORE


def test_a_decision_has_its_own_settings(decisions: list[Path]) -> None:
    error = repeat(decisions[0], "--preference-policy", "Ignore").exception
    assert isinstance(error, UsageError)
    assert "has its own options" in error.message


def test_other_outputs_show_the_same_decision(decisions: list[Path]) -> None:
    claims = repeat(decisions[0], "-o", "nodeclaims").stdout
    assert claims.count("kind: NodeClaim") >= 1
    assert "m5." in repeat(decisions[0]).stdout


def test_the_input_of_another_kind_of_decision_is_refused(decisions: list[Path]) -> None:
    result = CliRunner().invoke(wain, ["consolidate", str(decisions[0])], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert "is the input of a plan" in result.exception.message


def test_only_the_last_decisions_are_kept(tmp_path: Path) -> None:
    options = RecorderOptions(folder=tmp_path, most=3)
    first = [number_of(each) for each in recorded(options)]
    again = [number_of(each) for each in recorded(options)]
    assert len(again) == 3
    assert again[0] > first[0] == 1
    assert again[-1] == 2 * first[-1], "numbers go on after a restart"


def number_of(decision: Path) -> int:
    return int(decision.name.rpartition("-")[2])


def test_redacted_decisions_have_no_names_and_can_be_repeated(tmp_path: Path) -> None:
    found = recorded(RecorderOptions(folder=tmp_path, redact=True))
    assert {each.name.split("-")[1] for each in found} == {"provision", "disrupt"}
    for decision in found:
        for file in decision.iterdir():
            text = file.read_text()
            assert "web-" not in text
            assert '"web"' not in text, "the name of the NodePool"
        result = repeat(decision, "-o", "json")
        assert result.exception is None, (decision.name, result.output)
        assert result.stdout_bytes == (decision / "output.json").read_bytes(), decision.name


def test_a_folder_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--record: .*file/folder cannot be used"):
        FlightRecorder(RecorderOptions(folder=tmp_path / "file" / "folder"), None, "us-west-2")  # type: ignore[arg-type]


def test_a_disk_that_fails_ends_no_controller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "record"
    options = RecorderOptions(folder=folder)

    async def story(world: World) -> None:
        world.run(RunOptions(provider=EMULATOR, cloud=CLOUD, emulator_boot=5.0, record=options))
        await world.clock.sleep(5)
        folder.rmdir()
        await world.api.create(pending_pod())
        await world.clock.sleep(30)
        assert await world.running() == 1

    play(story)
    [line] = [each.message for each in caplog.records if "cannot be written" in each.message]
    assert line.endswith("-provision-1 cannot be written: No such file or directory")


@pytest.mark.parametrize("redact", [False, True])
def test_a_decision_knows_of_which_nodes_no_command_could_be_begun(
    redact: bool, tmp_path: Path
) -> None:
    """Otherwise another command would be found when it is repeated."""
    refused = FailedStart(name="a", until=60.0, message="webhook shop.example denied the request")
    given = DisruptionInput(
        snapshot=Snapshot(nodes=(node("a", "large"), node("b", "large")), pools=(WEB,), now=10.0),
        catalogs={"web": InstanceTypeIndex(types())},
        failed_starts=(refused,),
    )
    command = DisruptionPass(given).find_command()
    assert command is not None
    recorder = FlightRecorder(
        RecorderOptions(folder=tmp_path, redact=redact), SystemClock(), "us-west-2"
    )
    recorder.command_found(given, DEFAULT_DISRUPTION_OPTIONS, command, [node_pool()])
    asyncio.run(write(recorder))
    (decision,) = tmp_path.iterdir()
    found = msgspec.json.decode((decision / "output.json").read_bytes())
    ((first, second),) = [found["nodes"]]
    assert (first["reason"], second["verdict"]) == ("cannot-begin", "removed")
    jsonschema.validate(found, SCHEMA)
    assert ("shop.example" in first["message"]) == (not redact)
    result = repeat(decision, "-o", "json")
    assert result.exception is None, result.output
    assert result.stdout_bytes == (decision / "output.json").read_bytes()


async def write(recorder: FlightRecorder) -> None:
    """All that it has been told."""
    running = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
