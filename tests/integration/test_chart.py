"""The chart, rendered by helm, and installed by it on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.audited_requests import rights_of
from tests.support.control_plane import ControlPlane
from tests.support.helm import (
    CHART,
    KUBE_VERSION,
    NAMESPACE,
    RELEASE,
    SCHEDULER_CONFIG,
    render,
    rendered,
    run_helm,
    set_flags,
)

from wainwright.api.kubernetes.workloads import TopologySpreadConstraint
from wainwright.cli.run import run
from wainwright.model.labels import ZONE
from wainwright.model.plan import ClusterLimits
from wainwright.operator.recorder_options import MOST_DECISIONS
from wainwright.operator.settings import (
    OperatorSettings,
    read_settings,
    settings_without_effect,
)
from wainwright.sim.settings import FEATURE_GATES
from wainwright.translate.cluster_limits import parse_cluster_limits

ROOT = CHART.parents[1]
NO_LEADER = "WainwrightNoLeader"
MONITORED = ("serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true")


def container(*values: str) -> dict[str, Any]:
    deployment = rendered("Deployment", *values)[0]
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["containers"][0]
    return found


def environment(*values: str) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(*values)["env"]}


def test_the_defaults_of_the_values_are_those_of_the_program() -> None:
    found = read_settings({}, environment())
    wanted = OperatorSettings(cluster_name="shop", leader_election_namespace=NAMESPACE)
    assert found == wanted


def test_every_setting_of_the_program_is_a_value() -> None:
    wanted = {field.upper() for field in OperatorSettings.__struct_fields__}
    assert set(environment()) == wanted


def test_every_feature_gate_is_a_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    gates = values["settings"]["featureGates"]
    assert {f"{name[0].upper()}{name[1:]}": on for name, on in gates.items()} == FEATURE_GATES


@pytest.mark.parametrize(
    ("value", "field", "expected"),
    [
        ("settings.batchMaxDuration=1m30s", "batch_max_duration", 90.0),
        ("settings.breakerShare=30%", "breaker_share", 0.3),
        ("settings.kubeClientBurst=1000000", "kube_client_burst", 1_000_000),
        ("settings.kubeClientQPS=1000000", "kube_client_qps", 1e6),
        ("settings.interruptionQueue=shop", "interruption_queue", "shop"),
        ("settings.reservedENIs=2", "reserved_enis", 2),
        ("settings.isolatedVPC=true", "isolated_vpc", True),
        ("controller.metrics.port=9090", "metrics_port", 9090),
        ("settings.packing=cost", "packing", "cost"),
        ("settings.maxNodes=1000", "max_nodes", 1000),
        ("settings.balancedK=1.5", "balanced_k", 1.5),
        ("settings.nodeRepair=replace-first", "node_repair", "replace-first"),
        ("logLevel=debug", "log_level", "debug"),
    ],
)
def test_a_value_reaches_the_program(value: str, field: str, expected: object) -> None:
    assert getattr(read_settings({}, environment(value)), field) == expected


def test_the_configuration_of_the_scheduler_may_be_yaml_or_a_text() -> None:
    text = (
        "settings.schedulerConfig=podTopologySpread: {defaultConstraints: [{maxSkew: 100\\, "
        "topologyKey: topology.kubernetes.io/zone\\, whenUnsatisfiable: ScheduleAnyway}]}"
    )
    expected = TopologySpreadConstraint(
        maxSkew=100, topologyKey=ZONE, whenUnsatisfiable="ScheduleAnyway"
    )
    for values in (SCHEDULER_CONFIG, (text,)):
        assert read_settings({}, environment(*values)).scheduler_config == (expected,)


def test_a_feature_gate_reaches_the_program() -> None:
    gates = read_settings({}, environment("settings.featureGates.staticCapacity=true"))
    assert gates.feature_gates == {**FEATURE_GATES, "StaticCapacity": True}


def test_a_gate_of_another_version_of_karpenter_reaches_the_program_and_has_no_effect() -> None:
    found = environment("settings.featureGates.dynamicResources=true")
    assert read_settings({}, found).feature_gates == FEATURE_GATES
    assert settings_without_effect({}, found) == ["DynamicResources in FEATURE_GATES"]


def options(*values: str) -> dict[str, Any]:
    """What `wain run` reads of the arguments of the container."""
    command, *arguments = container(*values)["args"]
    assert command == "run"
    return run.make_context("run", arguments).params


@pytest.mark.parametrize(
    ("values", "option", "expected"),
    [
        ((), "cluster_limits", ()),
        (("settings.clusterLimits.cpu=1000000",), "cluster_limits", ("cpu=1000000",)),
        (("settings.clusterLimits.pricePerHour=0.5",), "cluster_limits", ("pricePerHour=0.5",)),
        (
            ("settings.clusterLimits.nodes=500", "settings.clusterLimits.memory=4Ti"),
            "cluster_limits",
            ("memory=4Ti", "nodes=500"),
        ),
        ((), "record", None),
        (("flightRecorder.enabled=true",), "record", Path("/decisions")),
        (("flightRecorder.enabled=true",), "record_limit", MOST_DECISIONS),
        (("flightRecorder.enabled=true", "flightRecorder.limit=20"), "record_limit", 20),
        (("flightRecorder.enabled=true", "flightRecorder.redacted=true"), "record_redacted", True),
        (("controller.extraArgs={--emulator-boot=5s}",), "emulator_boot", "5s"),
        (("controller.extraArgs={--cluster-name=a b,--once}",), "cluster_name", "a b"),
        (("controller.extraArgs={--cluster-name=a b,--once}",), "once", True),
    ],
)
def test_a_value_becomes_a_flag_of_the_program(
    values: tuple[str, ...], option: str, expected: object
) -> None:
    assert options(*values)[option] == expected


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"cpu": 1_000_000, "nodes": 2_000_000}, ClusterLimits(cpu=10**9, nodes=2_000_000)),
        ({"memory": 2**42}, ClusterLimits(memory=2**42)),
        ({"cpu": 0.5, "pricePerHour": 12.345}, ClusterLimits(cpu=500, price_per_hour=12.345)),
    ],
)
def test_numbers_of_a_file_of_values_are_written_out(
    limits: dict[str, float], expected: ClusterLimits, tmp_path: Path
) -> None:
    """Helm reads them as floats."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"settings": {"clusterName": "shop", "clusterLimits": limits}}))
    ended = run_helm("template", RELEASE, str(CHART), *KUBE_VERSION, "--values", str(file))
    assert ended.returncode == 0, ended.stderr
    manifests = [each for each in yaml.safe_load_all(ended.stdout) if each]
    (deployment,) = (each for each in manifests if each["kind"] == "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"][1:]
    stated = run.make_context("run", arguments).params["cluster_limits"]
    assert parse_cluster_limits(stated) == expected


def test_the_flight_recorder_writes_to_a_volume_of_limited_size() -> None:
    values = ("flightRecorder.enabled=true", "flightRecorder.sizeLimit=500Mi")
    more = ("extraVolumes[0].name=token", "controller.extraVolumeMounts[0].name=token")
    spec = pod_spec(*values, *more)
    assert spec["volumes"] == [
        {"name": "decisions", "emptyDir": {"sizeLimit": "500Mi"}},
        {"name": "token"},
    ]
    [controller] = spec["containers"]
    assert controller["securityContext"]["readOnlyRootFilesystem"] is True
    folder = {"name": "decisions", "mountPath": str(options(*values)["record"])}
    assert controller["volumeMounts"] == [folder, {"name": "token"}]
    without = pod_spec()
    assert "volumes" not in without
    assert "volumeMounts" not in without["containers"][0]


def test_values_of_a_release_before_there_was_a_flight_recorder_are_enough() -> None:
    """`helm upgrade --reuse-values` adds no value that the older chart did not have."""
    older = ("flightRecorder=null", "settings.clusterLimits=null", "controller.extraArgs=null")
    assert render(*older) == render()
    unset = ("flightRecorder.limit=null", "flightRecorder.sizeLimit=null")
    spec = pod_spec(*unset, "flightRecorder.enabled=true")
    assert spec["volumes"] == [{"name": "decisions", "emptyDir": {}}]
    assert spec["containers"][0]["args"][-1] == "--record=/decisions"


def test_the_region_is_stated_where_a_value_says_it() -> None:
    assert environment("awsRegion=us-west-2")["AWS_REGION"] == "us-west-2"
    assert "AWS_REGION" not in environment()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "settings.clusterName is the name of the cluster: set it"),
        (["settings.clusterNam=shop"], "clusterNam"),
        (["settings.clusterName=shop", "settings.batchMaxDuration=soon"], "batchMaxDuration"),
        (["settings.clusterName=shop", "provider=gcp"], "provider"),
        (["settings.clusterName=shop", "settings.featureGates.Drift=true"], "Drift"),
        (["settings.clusterName=shop", "settings.clusterLimits.gpus=1"], "gpus"),
        (["settings.clusterName=shop", "serviceAccount.create=false"], "serviceAccount.name"),
    ],
)
def test_values_that_make_no_sense_are_refused(values: list[str], message: str) -> None:
    ended = run_helm("template", RELEASE, str(CHART), *KUBE_VERSION, *set_flags(values))
    assert ended.returncode != 0
    assert message in ended.stderr


def test_helm_finds_no_fault_in_the_chart() -> None:
    flags = set_flags(["settings.clusterName=shop", *MONITORED])
    ended = run_helm("lint", "--strict", str(CHART), *KUBE_VERSION, *flags)
    assert ended.returncode == 0, ended.stdout


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert chart["version"] == chart["appVersion"]
    assert f'version = "{chart["appVersion"]}"' in project


def test_credentials_come_over_ipv4_and_ipv6() -> None:
    [rule] = [each for each in rendered("NetworkPolicy")[0]["spec"]["egress"] if "to" in each]
    reached = {each["ipBlock"]["cidr"] for each in rule["to"]}
    assert reached >= {"fd00:ec2::23/128", "fd00:ec2::254/128", "169.254.170.23/32"}
    assert rule["ports"] == [{"port": 80}]


def pod_spec(*values: str) -> dict[str, Any]:
    found: dict[str, Any] = rendered("Deployment", *values)[0]["spec"]["template"]["spec"]
    return found


def test_values_of_karpenters_chart_take_effect() -> None:
    spec = pod_spec(
        "schedulerName=other",
        "dnsConfig.options[0].name=ndots",
        "initContainers[0].name=first",
        "terminationGracePeriodSeconds=0",
        "controller.containerName=karpenter",
        "controller.securityContext.seccompProfile.type=Localhost",
    )
    assert spec["schedulerName"] == "other"
    assert spec["dnsConfig"] == {"options": [{"name": "ndots"}]}
    assert spec["initContainers"] == [{"name": "first"}]
    assert spec["terminationGracePeriodSeconds"] == 0
    [controller] = spec["containers"]
    assert controller["name"] == "karpenter"
    assert controller["securityContext"]["seccompProfile"] == {"type": "Localhost"}
    assert controller["securityContext"]["readOnlyRootFilesystem"] is True
    assert rendered("PodDisruptionBudget", "podDisruptionBudget.name=other")[0]["metadata"][
        "name"
    ] == ("other")
    annotations = rendered("Service", "service.annotations.team=platform")[0]["metadata"]
    assert annotations["annotations"] == {"team": "platform"}
    endpoint = rendered(
        "ServiceMonitor", *MONITORED, "serviceMonitor.metricRelabelings[0].action=drop"
    )[0]["spec"]["endpoints"][0]
    assert endpoint["metricRelabelings"] == [{"action": "drop"}]


def test_a_grace_period_of_null_is_the_default() -> None:
    assert pod_spec("terminationGracePeriodSeconds=null")["terminationGracePeriodSeconds"] == 45


def test_a_sidecar_has_the_volumes_of_the_controller_and_its_own() -> None:
    [_, sidecar] = pod_spec(
        "controller.sidecarContainer[0].name=proxy",
        "controller.sidecarContainer[0].volumeMounts[0].name=own",
        "controller.extraVolumeMounts[0].name=shared",
        "controller.sidecarVolumeMounts[0].name=more",
    )["containers"]
    assert sidecar["name"] == "proxy"
    assert [each["name"] for each in sidecar["volumeMounts"]] == ["own", "shared", "more"]


def test_more_rules_are_at_the_end_of_the_cluster_role() -> None:
    rule = "additionalClusterRoleRules[0]"
    values = (f"{rule}.apiGroups[0]=", f"{rule}.resources[0]=secrets", f"{rule}.verbs[0]=get")
    assert rendered("ClusterRole", *values)[0]["rules"][-1]["resources"] == ["secrets"]


def test_two_replicas_stand_by_for_each_other() -> None:
    deployment = rendered("Deployment")[0]
    assert deployment["spec"]["replicas"] == 2
    assert environment()["DISABLE_LEADER_ELECTION"] == "false"
    budget = rendered("PodDisruptionBudget")[0]
    assert budget["spec"]["maxUnavailable"] == 1
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    for selecting in (budget["spec"]["selector"], deployment["spec"]["selector"]):
        assert selecting["matchLabels"].items() <= labels.items()
    assert rendered("Service")[0]["spec"]["selector"].items() <= labels.items()
    assert rendered("NetworkPolicy")[0]["spec"]["podSelector"]["matchLabels"].items() <= (
        labels.items()
    )


def test_it_does_not_run_on_the_nodes_that_it_manages() -> None:
    affinity = rendered("Deployment")[0]["spec"]["template"]["spec"]["affinity"]
    required = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
    ]


def test_values_cannot_take_security_away() -> None:
    pod = rendered("Deployment", "podSecurityContext.runAsNonRoot=false")[0]
    assert pod["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"] is True


def test_a_digest_goes_before_the_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    values = ("controller.image.repository=shop/wain", f"controller.image.digest={digest}")
    assert container(*values)["image"] == f"shop/wain@{digest}"
    assert container("controller.image.tag=1.2.3")["image"] == "wainwright:1.2.3"


def test_the_service_account_takes_the_role_of_irsa() -> None:
    value = r"serviceAccount.annotations.eks\.amazonaws\.com/role-arn=arn:aws:iam::1:role/wain"
    assert rendered("ServiceAccount", value)[0]["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/wain"
    }


def test_a_dry_run_may_only_read() -> None:
    assert "--dry-run" in container("dryRun=true")["args"]
    rights = rights_of(render("dryRun=true", "provider=emulator"))
    assert {each.verb for each in rights} == {"list", "watch"}
    assert "configmaps" in {each.resource for each in rights}, "decisions that are paused"
    assert set(rights) < set(rights_of(render("provider=emulator")))
    gated = ("dryRun=true", "provider=emulator", "settings.featureGates.capacityBuffer=true")
    assert rights_of(render(*gated)) == rights, "it does not look at buffers"


def test_one_replica_decides_and_logs_in_a_dry_run() -> None:
    """It takes no lease, so that a second one would say everything twice."""
    for values, replicas in (
        (("dryRun=true",), 1),
        (("dryRun=true", "replicas=3"), 3),
        (("replicas=0",), 0),
    ):
        assert rendered("Deployment", *values)[0]["spec"]["replicas"] == replicas


def test_rights_for_a_gate_are_given_with_the_gate() -> None:
    gated = ("settings.featureGates.podDeletionCostManagement=true",)
    more = set(rights_of(render(*gated))) - set(rights_of(render()))
    assert {(each.resource, each.verb) for each in more} == {("pods", "patch")}


def test_rights_for_default_constraints_are_given_where_there_are_any() -> None:
    more = set(rights_of(render(*SCHEDULER_CONFIG))) - set(rights_of(render()))
    assert {each.verb for each in more} == {"list", "watch"}
    assert {each.resource for each in more} == {
        "services",
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
    }


def test_capacity_buffers_and_default_constraints_share_a_right() -> None:
    both = (*SCHEDULER_CONFIG, "settings.featureGates.capacityBuffer=true")
    rights = rights_of(render(*both))
    assert len({*rights}) == len(rights)


def test_every_rule_says_what_it_is_for() -> None:
    for name in ("clusterrole.yaml", "role.yaml"):
        lines = (CHART / "templates" / name).read_text(encoding="utf-8").splitlines()
        lines = [each for each in lines if not each.strip().startswith("{{-")]
        starts = [number for number, each in enumerate(lines) if "- apiGroups:" in each]
        for start in starts:
            above = lines[start - 1].strip()
            # Rules for one purpose follow each other under one comment.
            assert above.startswith(("#", "verbs:")), lines[start]


def alerts(*values: str) -> list[dict[str, Any]]:
    rule = rendered("PrometheusRule", *MONITORED, *values)[0]
    found: list[dict[str, Any]] = rule["spec"]["groups"][0]["rules"]
    assert all({"alert", "expr", "for", "labels", "annotations"} == set(each) for each in found)
    return found


def test_alerts_name_their_runbook_and_link_to_nothing_that_nobody_publishes() -> None:
    for each in alerts():
        page = f"docs/runbooks/{each['alert']}.md"
        assert page in each["annotations"]["description"]
        assert (ROOT / page).exists()
        assert "runbook_url" not in each["annotations"]


def test_alerts_link_to_the_runbooks_where_they_are_published() -> None:
    where = "https://docs.example.org/runbooks"
    for each in alerts(f"prometheusRule.runbookURL={where}/"):
        assert each["annotations"]["runbook_url"] == f"{where}/{each['alert']}.md"


def test_the_alert_about_the_leader_is_about_the_lease_of_the_values() -> None:
    [found] = [each for each in alerts() if each["alert"] == NO_LEADER]
    assert 'name="wainwright-leader-election"' in found["expr"]
    [found] = [
        each for each in alerts("settings.leaderElectionName=mine") if each["alert"] == NO_LEADER
    ]
    assert found["expr"] == 'absent(leader_election_master_status{name="mine"} == 1)'


def test_nobody_is_woken_because_a_dry_run_does_not_lead() -> None:
    names = {each["alert"] for each in alerts()}
    assert {each["alert"] for each in alerts("dryRun=true")} == names - {NO_LEADER}


def test_a_relative_link_to_runbooks_is_refused() -> None:
    values = ("settings.clusterName=shop", "prometheusRule.runbookURL=docs/runbooks")
    ended = run_helm("template", RELEASE, str(CHART), *KUBE_VERSION, *set_flags(values))
    assert ended.returncode != 0
    assert "runbookURL" in ended.stderr


def test_the_dashboard_is_the_file() -> None:
    data = rendered("ConfigMap", *MONITORED)[0]["data"]["wainwright.json"]
    file = CHART / "dashboards" / "wainwright.json"
    assert json.loads(data) == json.loads(file.read_text(encoding="utf-8"))


# On a real API server


@pytest.fixture(scope="module")
def installed(api: ControlPlane) -> Iterator[ControlPlane]:
    """The CRDs are there already, as they are with Karpenter: helm leaves them as they are."""
    ended = helm(api, "install", "--create-namespace")
    assert ended.returncode == 0, ended.stderr
    assert "manages the nodes of shop, with AWS" in ended.stdout
    yield api
    assert helm(api, "uninstall").returncode == 0


def helm(plane: ControlPlane, verb: str, *flags: str) -> Any:
    values = () if verb == "uninstall" else (str(CHART), *set_flags(["settings.clusterName=shop"]))
    there = ("--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE)
    return run_helm(verb, RELEASE, *values, *there, *flags)


def test_the_api_server_takes_every_object(installed: ControlPlane) -> None:
    paths = {
        "Deployment": f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
        "PodDisruptionBudget": f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
        "NetworkPolicy": f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
        "Service": f"/api/v1/namespaces/{NAMESPACE}/services",
        "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
        "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    }
    for each in render():
        path = f"{paths[each['kind']]}/{each['metadata']['name']}"
        assert installed.request("GET", path).status == 200, path


def test_an_upgrade_changes_what_the_values_change(installed: ControlPlane) -> None:
    ended = helm(installed, "upgrade", "--set", "logLevel=debug", "--reset-values")
    assert ended.returncode == 0, ended.stderr
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
    deployed = installed.request("GET", path).json()
    env = deployed["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in env


def test_the_pod_is_restricted(control_plane: ControlPlane, tmp_path: Path) -> None:
    """What Pod Security calls restricted is enforced by the API server itself."""
    namespace = tmp_path.name.replace("_", "-")[:40]
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    post(control_plane, "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    values = ("priorityClassName=", "flightRecorder.enabled=true")
    template = rendered("Deployment", *values)[0]["spec"]["template"]
    pod = {"metadata": {"name": "wain"}, "spec": template["spec"]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert post(control_plane, path, pod) == 201
    open_pod = json.loads(json.dumps(pod))
    open_pod["metadata"]["name"] = "open"
    del open_pod["spec"]["containers"][0]["securityContext"]
    assert post(control_plane, path, open_pod) == 403


def post(plane: ControlPlane, path: str, manifest: dict[str, Any]) -> int:
    return plane.request("POST", path, body=json.dumps(manifest).encode()).status
