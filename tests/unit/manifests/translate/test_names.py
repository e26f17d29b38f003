"""Pods without a name of their own get one."""

from tests.unit.manifests.translate.objects import typed_pod

from wainwright.manifests.translate.names import named


def names(*pods: tuple[str, str]) -> list[str]:
    made = [typed_pod(name, metadata={"generateName": beginning}) for name, beginning in pods]
    return [pod.metadata.name for pod in named(made)]


def test_nameless_pods_are_numbered() -> None:
    assert names(("", "job-"), ("", "job-"), ("", "other-")) == ["job-0", "job-1", "other-0"]


def test_names_that_are_taken_are_skipped() -> None:
    assert names(("", "job-"), ("job-0", ""), ("", "job-")) == ["job-1", "job-0", "job-2"]


def test_named_pods_keep_their_names() -> None:
    assert names(("job-x7k2p", "job-"), ("web", "")) == ["job-x7k2p", "web"]
