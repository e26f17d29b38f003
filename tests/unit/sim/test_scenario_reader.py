"""A Scenario as it is read: its parts, files beside it, changes by --set, traces."""

from pathlib import Path

import pytest
from tests.support.manifest_tables import TESTS

from wainwright.api.kubernetes.operations import ConfigMap
from wainwright.api.kubernetes.workloads import Deployment
from wainwright.api.wire import ObjectMeta
from wainwright.errors import UsageError
from wainwright.manifests.cluster_manifests import read_manifests
from wainwright.manifests.problems import InvalidInput
from wainwright.model.disruption import MinimumSaving
from wainwright.sim.scenario import (
    END,
    ApplyObjects,
    CancelReservation,
    DurationRange,
    EventExpectation,
    NodeExpectation,
    OfferLess,
    ScaleWorkload,
    Scenario,
    StateExpectation,
    TracePod,
    ValueComparison,
    Window,
)
from wainwright.sim.scenario_format.event_format import SELECTOR_KEYS, VERBS
from wainwright.sim.scenario_format.expectation_format import STATE_KEYS
from wainwright.sim.scenario_format.settings_format import SETTING_NAMES
from wainwright.sim.scenario_format.trace_csv import COLUMNS
from wainwright.sim.scenario_reader import read_scenario
from wainwright.sim.settings import NodeRepairMode

EVERY_FIELD = str(TESTS / "scenarios" / "every-field" / "scenario.yaml")
HEAD = """\
apiVersion: wainwright.dev/v1alpha1
kind: Scenario
metadata: {name: small}
spec:
"""
POOL = """\
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {}
"""


def written(folder: Path, spec: str, world: str = POOL, *changes: str) -> Scenario:
    file = folder / "scenario.yaml"
    lines = "".join(f"  {line}\n" for line in spec.splitlines())
    file.write_text(f"{HEAD}{lines}{world}")
    return read_scenario(str(file), changes=changes)


def refusals(folder: Path, spec: str, world: str = POOL) -> list[str]:
    with pytest.raises(InvalidInput) as raised:
        written(folder, spec, world)
    return [f"{Path(each.file).name}:{each.line}" for each in raised.value.report.errors]


def test_every_part_of_a_scenario_is_read() -> None:
    scenario = read_scenario(EVERY_FIELD)
    assert (scenario.name, scenario.seed, scenario.duration) == ("sale-day", 7, 24 * 3600)
    assert scenario.start == 1795737600.0
    assert len(scenario.events) == 22
    assert len(scenario.expect) == 8
    assert scenario.instances.boot == DurationRange(low=25, high=45)
    assert scenario.instances.less == {"memory": "300Mi"}
    settings = scenario.settings
    assert settings.feature_gates["SpotToSpotConsolidation"]
    assert settings.feature_gates["CapacityReservations"]
    assert settings.minimum_saving == MinimumSaving(fraction=0.05)
    assert settings.cluster_limits.price_per_hour == 3.5
    assert settings.node_repair is NodeRepairMode.REPLACE_FIRST
    assert settings.disruption_breaker.share == 0.3


def test_events_are_in_the_order_in_which_they_happen() -> None:
    events = read_scenario(EVERY_FIELD).events
    assert [event.at for event in events] == sorted(event.at for event in events)
    at_six = [event for event in events if event.at == 6 * 3600]
    assert [event.line for event in at_six] == [20, 22, 23, 24]  # of one moment in file order
    assert at_six[0].action == CancelReservation(id="cr-2")


def test_what_instances_offer_less_is_read_by_resource() -> None:
    actions = [event.action for event in read_scenario(EVERY_FIELD).events]
    (less,) = (each for each in actions if isinstance(each, OfferLess))
    assert less.quantities == {"memory": "300Mi"}


def test_values_of_expectations_are_comparisons() -> None:
    first, *_, node, event, _claim, _object = read_scenario(EVERY_FIELD).expect
    assert isinstance(first, StateExpectation)
    assert first.window == Window(start=END, end=END)
    assert first.values["pods", "pending"] == ValueComparison(equal=0.0)
    assert first.values["nodes", "count"] == ValueComparison(lte=7.0)
    assert isinstance(node, NodeExpectation)
    assert node.selector.pods == ("shop/web-0",)
    assert isinstance(event, EventExpectation)
    assert event.window == Window(start=3600, end=7200)


def test_manifests_of_apply_are_complete_objects() -> None:
    action = read_scenario(EVERY_FIELD).events[0].action
    assert isinstance(action, ApplyObjects)
    [deployment] = action.objects
    assert isinstance(deployment, Deployment)
    assert deployment.spec.replicas == 2


def test_a_curve_is_linear_and_rounded_half_up() -> None:
    actions = [event.action for event in read_scenario(EVERY_FIELD).events]
    curve = next(each for each in actions if isinstance(each, ScaleWorkload) and each.curve[1:])
    steps = [0, 5, 60, 1800, 1860, 14400, 99999]
    assert [curve.replicas_at(second) for second in steps] == [20, 21, 26, 200, 199, 40, 40]


def test_manifests_apply_and_traces_are_looked_for_beside_the_scenario(tmp_path: Path) -> None:
    apps = tmp_path / "apps"
    apps.mkdir()
    (apps / "pool.yaml").write_text(POOL)
    (tmp_path / "more.yaml").write_text(POOL.replace("default", "later"))
    spec = "duration: 1h\nmanifests: [apps/]\nevents: [{at: 1m, apply: more.yaml}]"
    scenario = written(tmp_path, spec, "")
    assert [pool.metadata.name for pool in scenario.manifests.pools] == ["default"]
    assert isinstance(scenario.events[0].action, ApplyObjects)


def test_a_config_map_can_be_applied(tmp_path: Path) -> None:
    value = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {pause: all}}"
    scenario = written(tmp_path, f"duration: 1h\nevents: [{{at: 1m, apply: {value}}}]")
    action = scenario.events[0].action
    assert isinstance(action, ApplyObjects)
    assert action.objects == (
        ConfigMap(metadata=ObjectMeta(name="settings"), data={"pause": "all"}),
    )


def test_a_folder_that_holds_the_scenario_is_no_second_one(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(f"{HEAD}  duration: 5h\n")
    scenario = written(tmp_path, "duration: 1h\nmanifests: [.]")
    assert scenario.duration == 3600
    assert len(scenario.manifests.pools) == 1


def test_the_gate_of_reservations_has_two_names(tmp_path: Path) -> None:
    spec = "duration: 1h\nsettings: {featureGates: {ReservedCapacity: false}}"
    gates = written(tmp_path, spec).settings.feature_gates
    assert not gates["ReservedCapacity"]
    assert not gates["CapacityReservations"]


def test_a_scenario_that_runs_until_quiet_has_no_duration(tmp_path: Path) -> None:
    scenario = written(tmp_path, "until: quiet\nexpect: [{at: 2h, pods: {pending: 0}}]")
    assert scenario.duration is None
    assert scenario.last_moment == 7200


def test_mistakes_in_files_beside_it_name_those_files(tmp_path: Path) -> None:
    (tmp_path / "pool.yaml").write_text(POOL.replace("spec: {}", "spec: {weight: 1000}"))
    spec = "duration: 1h\nmanifests: [pool.yaml]\nevents: [{at: 1m, apply: pool.yaml}]"
    assert refusals(tmp_path, spec, "") == ["pool.yaml:5", "pool.yaml:5"]


def test_a_scenario_among_the_manifests_of_a_plan_is_left_alone() -> None:
    notes = read_manifests([EVERY_FIELD]).notes
    assert [note.message for note in notes] == [
        "a Scenario is what wain simulate runs; the other documents were read without it"
    ]


class TestSet:
    def test_changes_reach_the_scenario_and_its_manifests(self, tmp_path: Path) -> None:
        scenario = written(
            tmp_path,
            "duration: 1h\nevents: [{at: 1m, restart: controller}]",
            POOL,
            "spec.settings.minimumSaving=5%",
            "spec.events[0].at=2m",
            "spec.duration=2h",
            "NodePool/default:spec.weight=7",
            'NodePool/default:metadata.annotations["example.com/team"]=shop',
        )
        [pool] = scenario.manifests.pools
        assert scenario.settings.minimum_saving == MinimumSaving(fraction=0.05)
        assert scenario.events[0].at == 120
        assert scenario.duration == 7200
        assert pool.spec.weight == 7
        assert pool.metadata.annotations == {"example.com/team": "shop"}

    def test_a_pool_without_a_name_goes_by_default(self, tmp_path: Path) -> None:
        world = POOL.replace("metadata: {name: default}\n", "")
        scenario = written(tmp_path, "duration: 1h", world, "NodePool/default:spec.weight=7")
        assert scenario.manifests.pools[0].spec.weight == 7

    @pytest.mark.parametrize(
        ("change", "path", "hint"),
        [
            ("NodePool/default:spec.disruptoin.consolidateAfter=1m", "spec.disruptoin",
             "did you mean disruption?"),
            ("NodePool/default:spec.disruption.consolidationPolcy=WhenEmpty",
             "spec.disruption.consolidationPolcy", "did you mean consolidationPolicy?"),
            ("Deployment/shop/web:spec.replcas=3", "spec.replcas", "did you mean replicas?"),
        ],
    )  # fmt: skip
    def test_a_field_that_the_manifest_does_not_have_is_refused(
        self, tmp_path: Path, change: str, path: str, hint: str
    ) -> None:
        world = f"{POOL}---\n{Path(EVERY_FIELD).read_text().partition('---')[2]}"
        with pytest.raises(InvalidInput) as raised:
            written(tmp_path, "duration: 1h", world, change)
        [problem] = raised.value.report.errors
        assert problem.path == path
        assert problem.hint == f"{hint}; this value was given by --set {change}"

    def test_a_wrong_value_says_where_it_is_from(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput) as raised:
            written(tmp_path, "duration: 1h", POOL, "spec.settings.packing=cheap")
        [problem] = raised.value.report.errors
        assert problem.path == "spec.settings.packing"
        assert problem.hint == "this value was given by --set spec.settings.packing=cheap"

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("spec.seed", "--set spec.seed has no value"),
            ("=3", "--set =3 names no field"),
            ("spec..seed=3", "--set spec..seed=3: 'spec..seed' is not a path"),
            ("spec.events[3].at=1h", "--set spec.events[3].at=1h: the Scenario has no "
                                     "spec.events[3]"),
            ("spec.duration.x=1", "--set spec.duration.x=1: the Scenario has no spec.duration.x"),
            ("NodePool/defalt:spec.weight=1", "--set NodePool/defalt:spec.weight=1: there is no "
                                              "NodePool/defalt"),
            ("NodePool/shop/default:spec.weight=1", "--set NodePool/shop/default:spec.weight=1: "
                                                    "there is no NodePool/shop/default"),
            ("NodePool:spec.weight=1", "--set NodePool:spec.weight=1: 'NodePool' is not an object"),
            ("spec.seed={", "--set spec.seed={: not YAML: did not find expected node content"),
            (f"spec.{'a.' * 1000}b=1", f"--set spec.{'a.' * 27}a…: a path of more than 100 "
                                       "segments"),
            (f"spec.events[{'9' * 50}]=1", f"--set spec.events[{'9' * 50}]=1: "
                                           f"'spec.events[{'9' * 50}]' is not a path"),
        ],
    )  # fmt: skip
    def test_a_change_that_cannot_be_made_is_refused(
        self, tmp_path: Path, change: str, message: str
    ) -> None:
        with pytest.raises(UsageError) as raised:
            written(tmp_path, "duration: 1h\nevents: []", POOL, change)
        assert raised.value.message == message


class TestTraces:
    SPEC = "duration: 1h\ntraces: [{csv: pods.csv, speed: 2}]"

    def test_rows_are_pods_in_the_order_of_their_creation(self, tmp_path: Path) -> None:
        (tmp_path / "pods.csv").write_text(
            "name,cpu,memory,gpu,created,deleted,namespace,labels,nodeSelector\n"
            "late,0.5,1073741824,2,2026-01-01T00:10:00Z,1h,ml,team=ml;tier=batch,disk=ssd\n"
            "early,1,1Gi,0,60,,,,\n"
        )
        early, late = written(tmp_path, self.SPEC).traces
        assert early == TracePod(name="early", requests={"cpu": "1", "memory": "1Gi"}, created=30)
        assert (late.created, late.deleted) == (300, 1800)
        assert late.requests == {"cpu": "0.5", "memory": "1073741824", "nvidia.com/gpu": "2"}
        assert late.namespace == "ml"
        assert late.labels == {"team": "ml", "tier": "batch"}
        assert late.node_selector == {"disk": "ssd"}

    def test_columns_of_published_traces_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "pods.csv").write_text(
            "name,cpu_milli,memory_mib,num_gpu,qos,creation_time,deletion_time\na,500,64,1,LS,0,8\n"
        )
        [pod] = written(tmp_path, self.SPEC).traces
        assert pod.requests == {"cpu": "500m", "memory": "64Mi", "nvidia.com/gpu": "1"}
        assert (pod.created, pod.deleted) == (0, 4)

    @pytest.mark.parametrize(
        ("row", "column", "message"),
        [
            ("B,1,1Gi,0,0,1", "name", "a name of lower case letters, digits, '-' and '.'"),
            ("b,much,1Gi,0,0,1", "cpu", "a quantity of 0 or more such as 500m or 2Gi"),
            ("b,1,-1,0,0,1", "memory", "a quantity of 0 or more such as 500m or 2Gi"),
            ("b,1,1Gi,half,0,1", "gpu", "a whole number of 0 or more"),
            (f"b,1,1Gi,{'9' * 5000},0,1", "gpu", "a whole number of 0 or more"),
            ("b,1,1Gi,0,-1,1", "created", "seconds since the start, or a time such as "
                                          "2026-01-31T08:00:00Z, not before it"),
            ("b,1,1Gi,0,5,1", "deleted", "a time that is not before created"),
            ("a,1,1Gi,0,0,1", "name", "a name that is not in line 2 already"),
            ("b,1,1Gi,0,7201,", "created", "a time before the end of the simulation, which is "
                                           "at 1h"),
            ("b,1", "", "6 values, as the first line has"),
        ],
    )  # fmt: skip
    def test_a_wrong_row_names_its_line(
        self, tmp_path: Path, row: str, column: str, message: str
    ) -> None:
        (tmp_path / "pods.csv").write_text(
            f"name,cpu,memory,gpu,created,deleted\na,1,1Gi,0,0,1\n{row}\n"
        )
        with pytest.raises(InvalidInput) as raised:
            written(tmp_path, self.SPEC)
        [problem] = raised.value.report.errors
        assert problem.where.endswith("pods.csv:3")
        assert (problem.path, problem.expected) == (column, message)

    @pytest.mark.parametrize(
        "header", ["name,cpus,created", "cpu,created", "name,created,created", ""]
    )
    def test_a_wrong_header_names_the_first_line(self, tmp_path: Path, header: str) -> None:
        (tmp_path / "pods.csv").write_text(f"{header}\na,1,0\n")
        assert set(refusals(tmp_path, self.SPEC)) == {"pods.csv:1"}

    def test_a_device_without_an_end_is_no_trace(self, tmp_path: Path) -> None:
        (tmp_path / "pods.csv").symlink_to("/dev/zero")
        assert set(refusals(tmp_path, self.SPEC)) == {"pods.csv:1"}

    def test_a_file_with_many_wrong_rows_is_not_read_to_its_end(self, tmp_path: Path) -> None:
        (tmp_path / "pods.csv").write_text("name,created\n" + "A,0\n" * 1000)
        assert len(refusals(tmp_path, self.SPEC)) == 11


class TestDocumentation:
    TEXT = (TESTS.parent / "docs" / "simulate.md").read_text(encoding="utf-8")

    def test_the_example_is_a_valid_scenario(self, tmp_path: Path) -> None:
        example = self.TEXT.partition("```yaml\n")[2].partition("```")[0]
        folder = tmp_path / "scenarios"
        folder.mkdir()
        (tmp_path / "apps").mkdir()
        deployment = Path(EVERY_FIELD).read_text().partition("---\n")[2]
        (tmp_path / "apps" / "web.yaml").write_text(deployment)
        (folder / "pools.yaml").write_text(POOL)
        (folder / "pods.csv").write_text("name,created\na,0\n")
        (folder / "sale-day.yaml").write_text(example)
        scenario = read_scenario(str(folder / "sale-day.yaml"))
        assert len(scenario.events) == len(scenario.expect) == 2

    def test_every_verb_setting_and_total_has_its_place(self) -> None:
        for name in (*VERBS, *SETTING_NAMES, *SELECTOR_KEYS, *STATE_KEYS, *COLUMNS):
            assert f"`{name}" in self.TEXT or f"{name}:" in self.TEXT or f"{name}," in self.TEXT
