"""Learners that only count, for either collector: what they do tells how often they learned, and from what."""

import os
import signal
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import toys

from skillscape.backbones.base import Backbone, TooShort, VectorBackbone
from skillscape.config import EvaluationConfig, RunConfig
from skillscape.objectives.diayn import DIAYN
from skillscape.training import trainer
from skillscape.training.callbacks import Callback
from skillscape.training.run import Run
from skillscape.training.state import RunState, init_state
from skillscape.types import Schedule, Spec

RANDOM = 40
STEPS = 200
SNAPSHOTS = (73, 100)
RESAMPLE = 7
SKILLS = 4


class Counted(NamedTuple):
    updates: Any
    seen: Any


@final
@dataclass(frozen=True)
class Counter(Backbone[Counted, Any]):
    """Acts with (updates / 1000 + actions of its own in this episode / 10⁶, skill / 10 + a trace of batches / 25)."""

    name: ClassVar[str] = "counter"
    label: ClassVar[str] = "Counter"

    warmup_steps: int = RANDOM
    update_every: int = 2
    fails_after: int = 10**6
    """Updates after which what it reports is not a number."""
    capacity: int = 1000

    @property
    def schedule(self):
        return Schedule(self.warmup_steps, self.update_every, 8, 3, 0.99, self.capacity)

    def sample(self, replay, episode_index, updates, skill=None):
        return replay.sample(8, episode_index) if episode_index.drawable else None

    def too_short(self, steps):
        return TooShort("returns over 3 steps", "nstep", steps) if steps < 3 else None

    def objective_spec(self, env_spec):
        return Spec(env_spec.obs_shape, env_spec.action_dim)

    def init(self, key, env_spec, objective):
        return Counted(jnp.float32(0), jnp.float32(0))

    def initial_carry(self, rows):
        return jnp.zeros((rows, 1))

    def policy_params(self, agent):
        return agent

    def act(self, policy, carry, obs, skill, key, explore):
        first = policy.updates / 1000 + carry[:, 0] / 1e6
        return jnp.stack([first, jnp.argmax(skill, axis=1) / 10 + jnp.tanh(policy.seen) / 25], axis=1), carry + 1

    def learn(self, agent, objective, objective_state, batch, key):
        seen = 0.9 * agent.seen + jnp.mean(batch.obs) + jnp.mean(batch.reward) + 0.1 * jax.random.normal(key)
        reported = jnp.where(agent.updates >= self.fails_after, jnp.nan, seen)
        return Counted(agent.updates + 1, seen), objective_state, {"updates": agent.updates + 1, "seen": reported}

    def task_config(self, *, pretrained):
        return self

    def adapt(self, agent, key, *, keep_critic=False):
        return agent

    def log_prob(self, agent, obs, skill, action):
        return jnp.zeros(len(obs))

    def objective_obs(self, agent, obs, action):
        return obs

    def with_controller(self, agent, key, env_spec, skills):
        return agent


@final
@dataclass(frozen=True)
class Compass(VectorBackbone[Any, Any]):
    """Goes where its skill points, a little astray; counts its iterations and the skills that it learned from."""

    name: ClassVar[str] = "compass"
    label: ClassVar[str] = "Compass"
    on_policy: ClassVar[bool] = True
    view: ClassVar = "rollout"

    episodes: int = 8

    def steps_per_iteration(self, env_spec):
        return self.episodes * env_spec.horizon

    def init(self, key, env_spec, objective):
        return {"iterations": jnp.float32(0), "skills": jnp.zeros(objective.skills.width)}

    def policy_params(self, agent):
        return agent

    def act(self, policy, carry, obs, skill, key, explore):
        astray = 0.1 * jax.random.normal(key, (len(obs), 2)) * explore
        return jnp.clip(self._heading(skill) + astray, -1, 1), carry

    def _heading(self, skill):
        angle = 2 * jnp.pi * jnp.argmax(skill, axis=1) / skill.shape[1]
        return 0.5 * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)

    def learn(self, agent, objective, objective_state, batch, key):
        agent = {"iterations": agent["iterations"] + 1, "skills": agent["skills"] + jnp.mean(batch.skill, axis=(0, 1))}
        return agent, objective_state, {"reward": jnp.mean(batch.reward) + 0.1 * jax.random.normal(key)}

    def log_prob(self, agent, obs, skill, action):
        return -jnp.sum((action - self._heading(skill)) ** 2, axis=1)

    def task_config(self, *, pretrained):
        return self

    def adapt(self, agent, key, *, keep_critic=False):
        return agent

    def with_controller(self, agent, key, env_spec, skills):
        return agent


def told_updates(action):
    """How often the policy of an action had learned."""
    return round(float(action[0]) * 1000)


def told_carry(action):
    """How many actions of its episode the policy remembers."""
    return round((float(action[0]) * 1000 - told_updates(action)) * 1000)


def a_config(env="Toy-v0", *, every=50, **changes):
    """A pre-training of 200 steps."""
    config = RunConfig(
        phase="pretrain",
        env=f"gym/toys:{env}",
        task=None,
        objective=DIAYN(SKILLS, hidden=(4,), resample_every=RESAMPLE),
        backbone=Counter(),
        steps=STEPS,
        seed=3,
        evaluation=EvaluationConfig(every, 2),
        snapshots=SNAPSHOTS,
    )
    return replace(config, **changes)


def finetuning_config(env="Toy-v0", **changes):
    """The same on the task of the toy."""
    return a_config(env, phase="finetune", task=f"gym/toys:{env}", snapshots=(), **changes)


def maze_config(**changes):
    """A pre-training of five iterations of 400 steps, evaluated every 800."""
    config = RunConfig(
        phase="pretrain",
        env="maze/square_a",
        task=None,
        objective=DIAYN(SKILLS, hidden=(4,)),
        backbone=Compass(),
        steps=2000,
        evaluation=EvaluationConfig(800, 2),
    )
    return replace(config, **changes)


def measure(run, state, skill, step):
    return {"return": float(state.agent.updates), "skill": float(np.argmax(skill))}


def opened(folder, config):
    return Run(folder) if folder.exists() else Run.create(folder, config)


def train(folder, config, evaluate=measure, callbacks=()):
    """Start a run or go on with it."""
    run = opened(folder, config)
    train_runs([run], evaluate, callbacks)
    return run


def train_runs(runs, evaluate=measure, callbacks=(), workers=1):
    """Start runs or go on with them; what they begin with is not compiled."""
    trainer.train(
        runs,
        lambda run: init_state(run.config, run.spec),
        [evaluate] * len(runs),
        callbacks,
        workers=workers,
        on_end=lambda run: None,
    )


def contents(folder):
    """All that a run computed."""
    arrays = sorted((folder / "checkpoints").iterdir())[-1] / "arrays.safetensors"
    snapshots = sorted((folder / "snapshots").rglob("*.safetensors"))
    named = [folder / "metrics.csv", folder / "evaluation.csv", arrays, *snapshots]
    return {str(path.relative_to(folder)): path.read_bytes() for path in named}


def saved_steps(folder):
    return [int(path.name) for path in sorted((folder / "checkpoints").iterdir())]


class Telling(Callback):
    """Hands progress to a function."""

    def __init__(self, told):
        self._told = told

    def on_progress(self, run, step, pace, row):
        self._told(run, step, pace, row)


def with_step(monkeypatch, number, happens):
    """``happens(result)`` in place of what the toys' step with this number would return, counted over all of them."""
    step, calls = toys.Toy.step, count(1)

    def stepping(self, action):
        result = step(self, action)
        return happens(result) if next(calls) == number else result

    monkeypatch.setattr(toys.Toy, "step", stepping)


def signalling_at(monkeypatch, lived, number=signal.SIGINT):
    """Sends a signal from inside a step, after so many others."""

    def send(result):
        os.kill(os.getpid(), number)
        return result

    with_step(monkeypatch, lived + 1, send)


def iterate(state):
    """An iteration of ``maze_config`` that learns one and takes 400 steps."""
    step = state.step + 400
    agent = {**state.agent, "iterations": state.agent["iterations"] + 1}
    return RunState(state.key, agent, state.objective, step), {"reward": step / 100}


def count_iterations(_run, state, _skill, _step):
    return {"coverage": float(state.agent["iterations"])}


def train_maze_runs(*runs, evaluate=count_iterations, callbacks=(), workers=1):
    """Start runs of ``maze_config`` or go on with them."""
    train_runs(runs, evaluate, callbacks, workers)


def assert_rows_are_right(run):
    """A run of ``maze_config`` that iterated by ``iterate``, whatever happened to it, has these rows."""
    assert run.metrics() == {"step": [400, 800, 1200, 1600, 2000], "reward": [4, 8, 12, 16, 20]}
    assert run.evaluation() == {"step": [0, 800, 1600, 2000], "coverage": [0, 2, 4, 5]}
