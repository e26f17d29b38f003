"""Well-known labels: aliases, restrictions, and suggestions for misspelled ones."""

import pytest

from wainwright.model import labels


@pytest.mark.parametrize(
    ("key", "stable"),
    [
        ("failure-domain.beta.kubernetes.io/zone", labels.ZONE),
        ("failure-domain.beta.kubernetes.io/region", labels.REGION),
        ("beta.kubernetes.io/arch", labels.ARCH),
        ("beta.kubernetes.io/os", labels.OS),
        ("beta.kubernetes.io/instance-type", labels.INSTANCE_TYPE),
        ("topology.ebs.csi.aws.com/zone", labels.ZONE),
        ("example.com/zone", "example.com/zone"),
    ],
)
def test_aliases_map_to_stable_names(key: str, stable: str) -> None:
    assert labels.normalize_label(key) == stable


@pytest.mark.parametrize(
    ("key", "restricted"),
    [
        ("karpenter.sh/anything", True),
        ("karpenter.sh/price", True),
        ("sub.karpenter.sh/anything", True),
        ("karpenter.k8s.aws/anything", True),
        ("kubernetes.io/hostname", True),
        ("karpenter.sh/capacity-type", False),
        ("karpenter.sh/nodepool", False),
        ("karpenter.k8s.aws/instance-cpu", False),
        ("karpenter.kwok.sh/instance-family", False),
        ("notkarpenter.sh/anything", False),
        ("kubernetes.io/anything", False),
        ("node.kubernetes.io/anything", False),
        ("kops.k8s.io/instancegroup", False),
        ("team", False),
    ],
)
def test_karpenter_domains_and_the_hostname_are_restricted(key: str, restricted: bool) -> None:
    assert labels.is_restricted(key) is restricted
    assert labels.is_restricted_for_pods(key) is restricted


@pytest.mark.parametrize("key", [labels.REGISTERED, labels.INITIALIZED])
def test_pods_may_select_labels_that_every_managed_node_gets(key: str) -> None:
    assert labels.is_restricted(key)
    assert not labels.is_restricted_for_pods(key)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("zone", labels.ZONE),
        ("topolgy.kubernetes.io/zone", labels.ZONE),
        ("topology.kubernetes.io/zne", labels.ZONE),
        ("karpenter.sh/arch", labels.ARCH),
        ("karpenter.k8s.aws/instance-cpus", labels.INSTANCE_CPU),
        ("karpenter.k8s.aws/instance-famly", labels.INSTANCE_FAMILY),
        ("karpenter.sh/Capacity-Type", labels.CAPACITY_TYPE),
        ("capacity", labels.CAPACITY_TYPE),
        ("karpenter.k8s.aws/instance-gpu", labels.INSTANCE_GPU_NAME),
        ("example.com/team", None),
        ("a", None),
        (labels.ZONE, None),
    ],
)
def test_a_label_is_suggested_for_a_misspelled_one(key: str, meant: str | None) -> None:
    assert labels.suggest_label(key) == meant


def test_suggestions_come_from_the_labels_of_the_caller() -> None:
    assert labels.suggest_label("example.com/tem", {"example.com/team"}) == "example.com/team"


def test_integer_labels_are_labels_of_instance_types() -> None:
    assert labels.INTEGER_LABELS < labels.INSTANCE_TYPE_LABELS < labels.WELL_KNOWN_LABELS
    assert not labels.OFFERING_LABELS & labels.INSTANCE_TYPE_LABELS
