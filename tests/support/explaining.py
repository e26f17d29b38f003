"""Small clusters as manifests, and what `wain explain pod` has to say about their pods."""

from click.testing import CliRunner, Result

from wainwright.cli.main import wain

NOW = ("--now", "2026-01-31T12:00:00Z")
CLOUD = """\
apiVersion: wainwright.dev/v1alpha1
kind: Cloud
metadata: {name: test}
spec:
  region: us-west-2
  zones: [us-west-2a]
  instanceTypes: [m5.large, m5.xlarge]
  prices: [{instanceType: m5.large, capacityType: spot, price: 0.5},
           {instanceType: m5.xlarge, capacityType: spot, price: 0.5}]
"""
POOL = """\
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: NAME}
spec: {weight: WEIGHT, LIMITStemplate: {spec: {requirements: [REQUIREMENTS]}}}
"""
ON_DEMAND = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"
LARGE = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}"
POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {MOREcontainers: [{name: c, resources: {requests: {cpu: CPU}}}]}
"""
NODE = """\
---
apiVersion: v1
kind: Node
metadata: {name: here, labels: {kubernetes.io/hostname: here}}
spec: {providerID: "aws:///us-west-2a/i-1"}
status: {allocatable: {cpu: "1", memory: 4Gi, pods: "10"},
         capacity: {cpu: "1", memory: 4Gi, pods: "10"},
         conditions: [{type: Ready, status: "True"}]}
"""


def pool(name: str, weight: int = 1, requirements: str = "", limits: str = "") -> str:
    made = POOL.replace("NAME", name).replace("WEIGHT", str(weight))
    return made.replace("REQUIREMENTS", requirements).replace("LIMITS", limits)


def pod(name: str, cpu: str = "1", more: str = "") -> str:
    return POD.replace("NAME", name).replace("CPU", f'"{cpu}"').replace("MORE", more)


def explained(name: str, *documents: str, flags: tuple[str, ...] = ()) -> Result:
    text = "".join((CLOUD, *documents))
    line = ("explain", "pod", name, "-", *NOW, *flags)
    return CliRunner().invoke(wain, line, input=text, standalone_mode=False)


def told(name: str, *documents: str, flags: tuple[str, ...] = ()) -> list[str]:
    result = explained(name, *documents, flags=flags)
    assert result.exception is None, result.exception
    return [line.strip() for line in result.stdout.splitlines()]
