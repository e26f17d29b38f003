"""NodeClaims of a plan as they are printed, and what an API server would say of them."""

from typing import Any, Final

from tests.support.random_inputs.unconstrained import PlannerInput

from wainwright.api.karpenter.nodepool import (
    NodePool,
    NodePoolSpec,
    NodePoolTemplate,
    NodePoolTemplateMetadata,
    NodePoolTemplateSpec,
)
from wainwright.api.karpenter.shared_fields import NodeClassRef, PoolTaint
from wainwright.api.kinds import known_kinds
from wainwright.api.validation.object_validation import validate_object
from wainwright.api.wire import ObjectMeta
from wainwright.model.input_remarks import RegionChoice, RegionSource
from wainwright.model.plan import Plan
from wainwright.model.snapshot import Pool
from wainwright.report.nodeclaim_manifests import node_claim_manifests
from wainwright.report.plan_input import PlanInput

NODE_CLASS: Final = NodeClassRef(group="karpenter.k8s.aws", kind="EC2NodeClass", name="default")


def claim_errors(manifest: dict[str, Any]) -> list[str]:
    """Why an API server would not create the NodeClaim."""
    kind = known_kinds()["karpenter.sh/v1", "NodeClaim"]
    return [
        f"{each.path}: {each.message}"
        for each in validate_object(kind, manifest)
        if not each.warning
    ]


def printed_claims(planner_input: PlannerInput, plan: Plan) -> list[dict[str, Any]]:
    """The claims of a plan that was not made from manifests."""
    given = PlanInput(
        now="",
        options=planner_input.options,
        snapshot=planner_input.snapshot,
        indexes=planner_input.catalogs,
        file_notes=(),
        input_notes=(),
        warnings=(),
        node_pools={pool.name: _node_pool(pool) for pool in planner_input.snapshot.pools},
        region=RegionChoice(region="us-west-2", source=RegionSource.OPTION),
    )
    return node_claim_manifests(given, plan)


def _node_pool(pool: Pool) -> NodePool:
    """What a claim takes over from the object of its pool."""
    taints = [
        PoolTaint(key=taint.key, value=taint.value or None, effect=taint.effect)
        for taint in pool.taints
    ]
    return NodePool(
        metadata=ObjectMeta(name=pool.name),
        spec=NodePoolSpec(
            template=NodePoolTemplate(
                metadata=NodePoolTemplateMetadata(labels=dict(pool.labels)),
                spec=NodePoolTemplateSpec(nodeClassRef=NODE_CLASS, requirements=[], taints=taints),
            )
        ),
    )
