"""Bad user data: a machine that never joins, with the reason as data."""

import pytest
from tests.support.machines import facts, why_not
from tests.support.nodeconfigs import TARGET, config, configs, mime

from wainwright.emulator.boot.booted import boot
from wainwright.emulator.boot.reasons import NeverJoins, Reason


@pytest.mark.parametrize("missing", list(TARGET))
def test_a_config_without_its_cluster_joins_nothing(missing: str) -> None:
    cluster = {key: value for key, value in TARGET.items() if key != missing}
    assert why_not(configs(config(cluster=cluster))) is Reason.NO_CLUSTER


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.NOTHING),
        (" \n", Reason.NOTHING),
        ("hello", Reason.NO_BOOTSTRAP),
        ("#!/bin/bash\necho hello\n", Reason.NO_BOOTSTRAP),
        (mime(("text/x-shellscript", "#!/bin/bash\necho hello")), Reason.NO_BOOTSTRAP),
        (configs("a: [b"), Reason.UNREADABLE),
        (configs("just text"), Reason.UNREADABLE),
        (configs(config().replace("NodeConfig", "Node")), Reason.UNREADABLE),
        (configs(config())[:-6], Reason.UNREADABLE),
        (configs(config()).replace('boundary="//"', 'boundary="=="'), Reason.UNREADABLE),
        (configs(config(cluster=TARGET | {"cidr": "ten"})), Reason.NO_CLUSTER),
        (config({"maxPods": "110"}), Reason.REFUSED),
        (config({"maxPods": -1}), Reason.REFUSED),
        (config({"kubeReserved": {"memory": 100}}), Reason.REFUSED),
        (config({"kubeReserved": {"memory": "lots"}}), Reason.REFUSED),
        (config({"kubeReserved": {"memory": "-1Gi"}}), Reason.REFUSED),
        (config({"systemReserved": {"gpu": "1"}}), Reason.REFUSED),
        (config({"evictionHard": {"memory.free": "1Gi"}}), Reason.REFUSED),
        (config({"evictionSoft": {"memory.available": "1Gi"}}), Reason.REFUSED),
        (
            config(
                {
                    "evictionSoft": {"memory.available": "1Gi"},
                    "evictionSoftGracePeriod": {"memory.available": "soon"},
                }
            ),
            Reason.REFUSED,
        ),
        (config({}, ["--node-labels=kubernetes.io/role=x"]), Reason.REFUSED),
        (config({}, ["--node-labels=node-restriction.kubernetes.io/a=b"]), Reason.REFUSED),
        (config({}, ["--node-labels=a b"]), Reason.REFUSED),
        (config({}, ["--node-labels=-a=b"]), Reason.UNREGISTERED),
        (config({}, ["--max-pods=many"]), Reason.REFUSED),
        (config({}, ['--node-labels="a=b']), Reason.UNREADABLE),
        (config({"registerWithTaints": [{"key": "a", "effect": "Never"}]}), Reason.REFUSED),
        (config({"registerWithTaints": ["a"]}), Reason.REFUSED),
        (
            config({"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}] * 2}),
            Reason.UNREGISTERED,
        ),
        (config({"systemReserved": {"memory": "1Ti"}}), Reason.TOO_SMALL),
    ],
)
def test_bad_user_data_makes_a_machine_that_never_joins(text: str, reason: Reason) -> None:
    assert why_not(text) is reason


def test_the_reason_comes_with_words() -> None:
    outcome = boot(config({"maxPods": "x"}), facts())
    assert outcome == NeverJoins(Reason.REFUSED, "maxPods is 'x', which is no number")
