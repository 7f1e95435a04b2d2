"""What several tests of environments need."""

import gymnasium
import pytest
from gym_toy import Toy

from skillscape.envs.gymnasium_adapter import make_gymnasium


@pytest.fixture
def make(monkeypatch):
    monkeypatch.setattr("gymnasium.envs.registration.registry", {**gymnasium.registry})
    monkeypatch.setattr("gymnasium.registry", gymnasium.envs.registration.registry)

    def registered(limit=None, wrap=lambda env: env, **arguments):
        gymnasium.register("OwnToy-v0", lambda **given: wrap(Toy(**given)), max_episode_steps=limit, kwargs=arguments)
        return make_gymnasium("OwnToy-v0")

    return registered
