"""A package outside the tree with a method, a backbone and a family of environments, taken through every command."""

import json
import subprocess
import sys

import pytest

PACKAGE = '''
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from skillscape import (
    MLP, Backbone, Discrete, EnvFamily, EnvSpec, HostEnv, HostStep, Objective, Scale, Schedule, VectorBackbone,
    TrainState, adam, gradient_step, register,
)


@register
@dataclass(frozen=True)
class Corners(Objective[None]):
    """Each skill is rewarded for one direction of the state; nothing is learned."""

    name: ClassVar[str] = "corners"
    label: ClassVar[str] = "Corners"
    number_of_skills: int = 2

    @classmethod
    def at(cls, scale: Scale) -> "Corners":
        return cls(3 if scale.benchmark == "maze" else 2)

    @property
    def skills(self):
        return Discrete(self.number_of_skills)

    def init(self, key, spec):
        return None

    def update(self, state, batch, key):
        return state, {}

    def reward(self, state, batch, key):
        sign = 1 - 2 * batch.skill[:, 0]
        return state, sign * (batch.next_obs - batch.obs)[:, 0], {}


class WeightedAgent(NamedTuple):
    actor: TrainState[MLP]


@register
@dataclass(frozen=True)
class Weighted(VectorBackbone[WeightedAgent, Any]):
    """Regression to the actions that were rewarded most."""

    name: ClassVar[str] = "weighted"
    label: ClassVar[str] = "Weighted"
    learning_rate: float = 1e-3
    warmup_steps: int = 40

    @property
    def schedule(self):
        return Schedule(self.warmup_steps, 2, 8, 1, 0.9, 1_000)

    def init(self, key, env_spec, objective):
        inputs = self.observation_width(env_spec) + objective.skills.width
        actor = MLP.create(key, inputs, (8,), env_spec.action_dim)
        return WeightedAgent(TrainState.create(adam(self.learning_rate), actor))

    def task_config(self, *, pretrained):
        return self

    def adapt(self, agent, key, *, keep_critic=False):
        return WeightedAgent(TrainState.create(adam(self.learning_rate), agent.actor.params))

    def with_controller(self, agent, key, env_spec, skills):
        return agent

    def policy_params(self, agent):
        return agent.actor.params

    def act(self, policy, carry, obs, skill, key, explore):
        mean = jnp.tanh(jax.vmap(policy)(jnp.concatenate([obs, skill], axis=-1)))
        return jnp.clip(mean + 0.1 * explore * jax.random.normal(key, mean.shape), -1, 1), carry

    def log_prob(self, agent, obs, skill, action):
        mean, _ = self.act(agent.actor.params, (), obs, skill, jax.random.key(0), False)
        return -jnp.sum((action - mean) ** 2, axis=-1)

    def sample(self, replay, episode_index, updates, skill=None):
        return replay.sample(8 * updates, episode_index) if episode_index.drawable else None

    def learn(self, agent, objective, objective_state, batch, key):
        from skillscape import Experience

        experience = Experience(batch.obs, batch.action, batch.next_obs, batch.skill, batch.reward)
        objective_state, metrics = objective.update(objective_state, experience, key)
        objective_state, reward, more = objective.reward(objective_state, experience, key)
        weight = jax.nn.softmax(reward)

        def loss(actor):
            mean = jnp.tanh(jax.vmap(actor)(jnp.concatenate([batch.obs, batch.skill], axis=-1)))
            error = jnp.sum(weight * jnp.mean((mean - batch.action) ** 2, axis=-1))
            return error, {"actor_loss": error, "reward": jnp.mean(reward)}

        actor, told = gradient_step(adam(self.learning_rate), loss, agent.actor)
        return WeightedAgent(actor), objective_state, {**metrics, **more, **told}


class Line(HostEnv):
    """A point on a line."""

    def __init__(self, target):
        self._target, self._x, self._left = target, 0.0, 0

    @property
    def spec(self):
        return EnvSpec((1,), 1, 10)

    def reset(self, seed):
        self._x, self._left = np.random.default_rng(seed).uniform(-0.1, 0.1), 10
        return np.array([self._x], np.float32)

    def step(self, action):
        self._x += 0.1 * float(action[0])
        self._left -= 1
        return HostStep(np.array([self._x], np.float32), -abs(self._x - self._target), False, self._left == 0)

    def close(self):
        pass


@register
class Lines(EnvFamily):
    """Points on lines: line/NAME."""

    name: ClassVar[str] = "line"

    def owns(self, env_id):
        return env_id.startswith("line/")

    def describe(self):
        return [("line/NAME", "A point on a line.")]

    def make(self, env_id, task=None, *, kwargs={}, definition=None):
        return Line(-1.0 if task == "left" else 1.0)

    def tasks(self, env_id):
        return ("left", "right")

    def task(self, env_id, task, *, definition=None):
        return task or "left"

    def benchmark(self, env_id, *, kwargs={}):
        return "urlb"

    def definition(self, env_id):
        return None

    def layout(self, env_id, definition=None):
        return None

    def folder_name(self, env_id):
        return env_id.replace("/", "-")

    def rendered(self, env_id, task=None, **wishes):
        raise NotImplementedError
'''
SWEEP = """
methods = ["corners"]
envs = ["line/one"]
tasks = ["left"]
backbones = ["weighted"]
preset = "smoke"
steps = 120
finetuning_steps = 80
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the package is, and where all commands run."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "my_package").mkdir()
    (folder / "my_package" / "__init__.py").write_text(PACKAGE)
    (folder / "sweep.toml").write_text(SWEEP)
    return folder


def skillscape(folder, *arguments, plugin=True, code=0):
    command = [sys.executable, "-m", "skillscape", *arguments, *(["--plugin", "my_package"] if plugin else [])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def pretrained(folder):
    flags = ["--env", "line/one", "--backbone", "weighted", "--preset", "smoke", "--steps", "120"]
    skillscape(folder, "pretrain", "corners", *flags, "--objective.number-of-skills", "3", "--out", "runs/line")
    return "runs/line"


def test_it_is_listed(folder):
    assert "corners" in skillscape(folder, "methods")
    assert "weighted" in skillscape(folder, "backbones")
    assert "line/NAME" in skillscape(folder, "envs")


def test_it_is_pretrained_evaluated_and_plotted(folder, pretrained):
    config = json.loads((folder / pretrained / "config.json").read_text())
    assert (config["objective"]["name"], config["backbone"]["name"]) == ("corners", "weighted")
    assert "corners in line/one, 120 steps" in skillscape(folder, "evaluate", pretrained, "--episodes", "2")
    assert "metrics.png" in skillscape(folder, "plot", pretrained)


def test_it_is_fine_tuned_and_reported(folder, pretrained):
    skillscape(
        folder, "finetune", pretrained, "--task", "right", "--skill", "1", "--steps", "80", "--out", "runs/tuned"
    )
    flags = ["--env", "line/one", "--task", "right", "--backbone", "weighted", "--preset", "smoke", "--steps", "80"]
    skillscape(folder, "train", *flags, "--out", "runs/scratch")
    skillscape(folder, "report", "runs/line", "runs/tuned", "runs/scratch", "--out", "report")
    rows = (folder / "report" / "scores.csv").read_text()
    assert "Corners,line/one · right" in rows
    assert "Weighted,line/one · right" in rows


def test_a_sweep_trains_it_in_processes(folder):
    told = skillscape(folder, "sweep", "sweep.toml", "--workers", "1", "--runs", "runs/sweep")
    assert "2 of 2 runs are finished" in told


def test_it_works_with_what_is_there(folder):
    mixed = ["--env", "gym/Pendulum-v1", "--preset", "smoke", "--steps", "220", "--backbone.warmup-steps", "210"]
    skillscape(folder, "pretrain", "corners", *mixed, "--out", "runs/pendulum")
    skillscape(
        folder, "pretrain", "diayn", "--env", "line/one", "--preset", "smoke", "--steps", "60", "--out", "runs/d"
    )
    skillscape(folder, "pretrain", "corners", "--preset", "smoke", "--steps", "400", "--out", "runs/maze")


def test_a_run_folder_never_imports_it(folder, pretrained):
    told = skillscape(folder, "evaluate", pretrained, plugin=False, code=2)
    assert "'corners'" in told
    assert "--plugin" in told
    assert "Traceback" not in told


def test_python_takes_objects(folder, tmp_path):
    program = (
        "import sys, skillscape, my_package as mine\n"
        "options = {'backbone': mine.Weighted(warmup_steps=30), 'steps': 60, 'preset': 'smoke', 'progress': False}\n"
        "run = skillscape.pretrain(mine.Corners(4), 'line/one', out=sys.argv[1], **options)\n"
        "print(run.policy(skill=2)([0.5]).shape, run.config.objective)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run")], cwd=folder, capture_output=True, text=True, check=False
    )
    assert "(1,) Corners(number_of_skills=4)" in done.stdout, done.stderr
