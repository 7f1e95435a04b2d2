"""Environments whose values are known in closed form, and a backbone that only acts.

All value probes are one environment with different numbers in it, so that one compiled function serves them all.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from skillscape.backbones.base import Backbone
from skillscape.backbones.ppo import PPO
from skillscape.config import RunConfig
from skillscape.envs.base import JaxEnv, Timestep
from skillscape.training.jit_collector import iteration
from skillscape.training.state import init_state
from skillscape.types import EnvSpec, Spec

HORIZON = 4


def quick(function, **options):
    """``jax.jit`` without optimisation: a test runs for milliseconds and would wait longer for a better program."""
    unoptimised = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=unoptimised, **options)


class Probe(NamedTuple):
    """What an episode pays at its end: constant + per_observation · x + per_action · x · action, with x = ±1."""

    constant: float = 0.0
    per_observation: float = 0.0
    per_action: float = 0.0
    length: float = 1.0
    """Steps until the task ends; above ``HORIZON`` it never does, and every step pays."""


CONSTANT = Probe(constant=1.0)
OBSERVATION = Probe(per_observation=1.0)
TWO_STEPS = Probe(constant=1.0, length=2.0)
ACTION = Probe(per_action=1.0)
ENDLESS = Probe(constant=1.0, length=1000.0)


class ProbeState(NamedTuple):
    sign: jax.Array
    time: jax.Array


@final
@dataclass(frozen=True)
class ProbeEnv(JaxEnv):
    """Observation: x, and whether this is not the first step."""

    probe: Any

    @property
    def spec(self):
        return EnvSpec(obs_shape=(2,), action_dim=1, horizon=HORIZON)

    def reset(self, key):
        return ProbeState(jax.random.rademacher(key, (), jnp.float32), jnp.float32(0))

    def reset_for_evaluation(self, key):
        del key
        return ProbeState(jnp.float32(1), jnp.float32(0))

    def observe(self, state):
        return jnp.stack([state.sign, jnp.minimum(state.time, 1.0)])

    def step(self, state, action, key):
        del key
        probe = self.probe
        ends = (state.time + 1 >= probe.length).astype(jnp.float32)
        pays = jnp.maximum(ends, (jnp.asarray(probe.length) > HORIZON).astype(jnp.float32))
        worth = probe.constant + probe.per_observation * state.sign + probe.per_action * state.sign * action[0]
        state = ProbeState(state.sign, state.time + 1)
        return state, Timestep(self.observe(state), pays * worth, ends)


PROBE_PPO = PPO(
    normalize_obs=False,
    episodes=32,
    hidden=(32,),
    discount=0.5,
    gae_lambda=0.9,
    epochs=4,
    minibatches=4,
    learning_rate=1e-2,
    entropy=0.0,
)


# No probe has a name among the environments; what is asked of the configuration is not where it is trained.
PROBE_CONFIG = RunConfig("train", "maze/square_a", "reach", objective=None, backbone=PROBE_PPO, steps=1_000)


@cache
def probe_state(seed):
    """The state that training on any probe begins in."""
    return init_state(replace(PROBE_CONFIG, seed=seed), ProbeEnv(CONSTANT).spec)


def probe_iteration(probe, state):
    """One iteration of PPO on a probe, not compiled."""
    return iteration(PROBE_CONFIG, ProbeEnv(probe))(state)


@cache
def compiled_probe_iteration():
    """The same, compiled once for all probes and tests."""
    return quick(probe_iteration)


@final
@dataclass(frozen=True)
class CountingEnv(JaxEnv):
    """Observation: a number drawn at the reset, and the steps since then. Ends after ``short`` steps where that number
    is positive, after ``long`` elsewhere; an end after the horizon never comes.
    """

    horizon: int
    short: int
    long: int

    @property
    def spec(self):
        return EnvSpec(obs_shape=(2,), action_dim=1, horizon=self.horizon)

    def reset(self, key):
        return jnp.stack([jax.random.uniform(key, minval=-1.0), 0.0])

    def reset_for_evaluation(self, key):
        del key
        return jnp.zeros(2)

    def observe(self, state):
        return state

    def step(self, state, action, key):
        del action, key
        state = state + jnp.array([0.0, 1.0])
        length = jnp.where(state[0] > 0, self.short, self.long)
        return state, Timestep(state, state[1], (state[1] >= length).astype(jnp.float32))


@final
@dataclass(frozen=True)
class Actor(Backbone[Any, Any]):
    """Learns nothing; its action is the number of steps it has carried since ``start``, a hundredth each."""

    def objective_spec(self, env_spec):
        return Spec(env_spec.obs_shape, env_spec.action_dim)

    def init(self, key, env_spec, objective):
        return jnp.zeros(())

    def initial_carry(self, rows):
        return jnp.zeros((rows, 1))

    def policy_params(self, agent):
        return agent

    def act(self, policy, carry, obs, skill, key, explore):
        return carry / 100, carry + 1

    def learn(self, agent, objective, objective_state, batch, key):
        return agent, objective_state, {}

    def task_config(self, *, pretrained):
        return self

    def adapt(self, agent, key, *, keep_critic=False):
        return agent

    def with_controller(self, agent, key, env_spec, skills):
        return agent

    def log_prob(self, agent, obs, skill, action):
        return jnp.zeros(len(obs))

    def objective_obs(self, agent, obs, action):
        return obs
