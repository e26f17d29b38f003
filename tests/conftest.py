"""Profiles of the property tests: quick by default, more thorough where nobody waits."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=100,
    derandomize=True,  # a landing is judged twice by the same examples; new ones are met at home
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
