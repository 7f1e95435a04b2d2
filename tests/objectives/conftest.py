"""Objectives are compiled many times here and then run for milliseconds: compile quickly rather than well."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
