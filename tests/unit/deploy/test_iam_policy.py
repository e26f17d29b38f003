"""The IAM policy: exactly the operations that are called, each with its reason, each scoped.

That of a dry run is a part of it; `tests/unit/operator/test_dry_run.py` compares it with the calls.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

import botocore.session

from wainwright.aws.cluster_config import ClusterConfig
from wainwright.aws.instances import CLAIM_TAG, NAME_TAG

ROOT = Path(__file__).parents[3]
POLICY = (ROOT / "deploy" / "iam-policy.json").read_text("utf-8")
STATEMENTS: list[dict[str, Any]] = json.loads(POLICY)["Statement"]
FOR_DRY_RUNS: list[dict[str, Any]] = json.loads(
    (ROOT / "deploy" / "iam-policy-dry-run.json").read_text("utf-8")
)["Statement"]
SERVICES = ("ec2", "iam", "ssm", "eks", "sqs", "resource-groups", "pricing")
CLUSTER = ClusterConfig(name="${CLUSTER_NAME}", region="${AWS_REGION}")
MANAGED_POLICY_LIMIT = 6144
"""Characters, white space not counted."""
READING = ("Describe", "Get", "List", "Receive")


def called_operations() -> set[str]:
    """Every text of the provider that names an operation of AWS; its calls have no others."""
    session = botocore.session.get_session()
    known = {name: set(session.get_service_model(name).operation_names) for name in SERVICES}
    folder = ROOT / "src" / "wainwright" / "aws"
    texts = {
        node.value
        for path in folder.rglob("*.py")
        if path.name != "error_codes.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {f"{service}:{name}" for service, names in known.items() for name in names & texts}


def allowed_actions() -> set[str]:
    return {action for each in STATEMENTS for action in each["Action"]}


def test_exactly_what_is_called_is_allowed() -> None:
    assert allowed_actions() == called_operations() | {"iam:PassRole"}


def test_every_action_has_its_reason() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    rows = re.findall(
        r"^\| ((?:ec2|iam|ssm|eks|sqs|pricing|resource-groups):\w+) \| (.+) \|$", page, re.M
    )
    assert len(rows) == len(allowed_actions())
    assert {action for action, _ in rows} == allowed_actions()
    assert all(reason for _, reason in rows)


def test_what_changes_something_is_limited_to_the_cluster() -> None:
    shared = {"LaunchWithWhatIsThere"}
    """Images, subnets and reservations belong to others, and are only used."""
    for each in STATEMENTS:
        operations = [action.partition(":")[2] for action in each["Action"]]
        if each["Sid"] in shared or all(name.startswith(READING) for name in operations):
            continue
        text = json.dumps(each.get("Condition", {})) + json.dumps(each["Resource"])
        own = ("${CLUSTER_NAME}", "${INTERRUPTION_QUEUE}", "${NODE_ROLE}")
        assert any(name in text for name in own), each["Sid"]
        assert "*" not in (each["Resource"], *operations)


def test_conditions_are_about_tags_that_are_set() -> None:
    keys = set(re.findall(r"aws:(?:Request|Resource)Tag/([^\"]+)\"", POLICY))
    launched = CLUSTER.launch_tags("class", "pool", None)
    assert keys <= {*launched, *CLUSTER.profile_tags("class", None)}
    for key, value in CLUSTER.owner_tags().items():
        assert f'"aws:RequestTag/{key}": "{value}"' in POLICY


def test_instances_may_get_every_tag_that_is_added_later() -> None:
    tagging = next(each for each in STATEMENTS if each["Sid"] == "TagOwnInstances")
    allowed = set(tagging["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"])
    later = {NAME_TAG, CLAIM_TAG, *CLUSTER.owner_tags()}
    # Who may tag an instance knows it by this one, so that it need not be added.
    assert allowed == later - {"kubernetes.io/cluster/${CLUSTER_NAME}"}


def test_what_a_dry_run_may_do_is_a_part_of_it_and_only_reads() -> None:
    statements = {each["Sid"]: each for each in STATEMENTS}
    for each in FOR_DRY_RUNS:
        whole = statements[each["Sid"]]
        assert set(each["Action"]) <= set(whole["Action"])
        assert {**each, "Action": whole["Action"]} == whole, "on the same resources"
        names = [action.partition(":")[2] for action in each["Action"]]
        assert all(name.startswith(("Describe", "Get", "List")) for name in names)


def test_it_fits_into_a_managed_policy() -> None:
    assert len(re.sub(r"\s", "", POLICY)) < MANAGED_POLICY_LIMIT
