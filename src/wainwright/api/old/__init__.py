"""Kinds of the past: read so that a folder of old manifests can be converted, and never served."""

from typing import Final

from wainwright.api.old.awsnodetemplate import AWSNodeTemplate
from wainwright.api.old.ec2nodeclass_v1beta1 import EC2NodeClassV1Beta1
from wainwright.api.old.nodeclaim_v1beta1 import NodeClaimV1Beta1
from wainwright.api.old.nodepool_v1beta1 import NodePoolV1Beta1
from wainwright.api.old.provisioner import Provisioner
from wainwright.api.wire import Wire

OLD_KINDS: Final[dict[tuple[str, str], type[Wire]]] = {
    ("karpenter.sh/v1alpha5", "Provisioner"): Provisioner,
    ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate"): AWSNodeTemplate,
    ("karpenter.sh/v1beta1", "NodePool"): NodePoolV1Beta1,
    ("karpenter.sh/v1beta1", "NodeClaim"): NodeClaimV1Beta1,
    ("karpenter.k8s.aws/v1beta1", "EC2NodeClass"): EC2NodeClassV1Beta1,
}
"""By apiVersion and kind."""
