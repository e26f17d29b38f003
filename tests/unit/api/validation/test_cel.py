"""The CEL engine, loaded when the first rule is evaluated, and what is kept of its answers."""

import subprocess
import sys

from wainwright.api.validation.cel import evaluate_rule

AT_ONCE = """
from threading import Barrier, Thread
from wainwright.api.validation.cel import evaluate_rule

started, found = Barrier(8), []

def evaluate():
    started.wait()
    found.append(evaluate_rule("self.size() > 1", "ab"))

threads = [Thread(target=evaluate) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
print(found.count(True))
"""


def test_threads_that_evaluate_their_first_rule_at_once_all_get_an_answer() -> None:
    """In a process of its own: the engine can be loaded only once."""
    command = [sys.executable, "-c", AT_ONCE]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.stdout.split() == ["8"], ended.stderr


def test_a_rule_on_keys_is_judged_by_the_keys_of_each_mapping() -> None:
    rule = "self.all(k, k != 'kubernetes.io/hostname')"
    for _ in range(2):
        assert evaluate_rule(rule, {"app": "a"}) is True
        assert evaluate_rule(rule, {"app": "kubernetes.io/hostname"}) is True
        assert evaluate_rule(rule, {"app": "a", "kubernetes.io/hostname": "a"}) is False


def test_a_rule_on_the_values_of_keys_is_judged_by_the_values() -> None:
    rule = "self.all(k, self[k] != '')"
    assert evaluate_rule(rule, {"app": "a"}) is True
    assert evaluate_rule(rule, {"app": ""}) is False
