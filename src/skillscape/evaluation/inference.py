"""A skill for a task without training: inferred by a method's model from the task rewards of a few steps.

Liu and Abbeel, APS: Active Pretraining with Successor Features, ICML 2021, infer the task vector so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from skillscape.config import RunConfig
from skillscape.envs.base import HostEnv
from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.replay import Trajectory
from skillscape.skill_selection import inferred
from skillscape.training.policy import compiled_act
from skillscape.training.run import Run

PARALLEL = 10
"""Episodes run in parallel."""


def inferred_skill(run: Run, task: str | None, steps: int, *, seed: int = 0) -> Float[np.ndarray, " z"]:
    """The skill that the method of a pre-training infers from the rewards of a task.

    The newest policy acts for ``steps`` environment steps under skills from the prior, with actions as in training.
    """
    if steps < 1:
        raise UserError(f"--infer must be at least 1 environment step, not {steps}.")
    method = _method(run.config)
    config = replace(run.config, noise=0.0, task=run.config.named_task(task))
    snapshot = run.snapshot()
    agent, model = snapshot.agent, snapshot.objective
    first = config.host_env()
    number = min(PARALLEL, -(-steps // first.spec.horizon))
    envs = [first, *(config.host_env() for _ in range(number - 1))]

    def infer(obs: Shaped[Array, "n ..."], reward: Float[Array, " n"]) -> Float[Array, " z"]:
        return method.infer_skill(model, obs, reward)

    try:
        trajectories = list(_labelled(config, agent, envs, steps, seed))
    finally:
        for env in envs:
            env.close()
    return inferred(config.backbone, agent, trajectories, infer)


def _method(config: RunConfig) -> Objective[Any]:
    method = config.objective
    if config.phase != "pretrain" or method is None:
        raise UserError("--infer needs a pre-training; give a run of `skillscape pretrain`, or leave --infer out.")
    if not method.infers_skill:
        raise UserError(f"{method.name} cannot infer a skill from rewards; leave --infer out, or give a run of APS.")
    return method


def _labelled(
    config: RunConfig,
    agent: PyTree,
    envs: Sequence[HostEnv],
    steps: int,
    seed: int,
) -> Iterator[Trajectory]:
    """Episodes under skills from the prior, ``steps`` steps in all: what the policy reads, actions, rewards, skills."""
    backbone, space, period = config.backbone, config.reward.skills, config.resample_every
    act, params = compiled_act(backbone, True), backbone.policy_params(agent)
    spec = envs[0].spec.without_goal
    width, key, left, begun = spec.obs_shape[0], jax.random.key(seed), steps, 0
    while left:
        # No more episodes than the steps fill: else most of the last ones would be starts.
        rows = min(len(envs), -(-left // spec.horizon))
        obs = [env.reset(seed + begun + row)[:width] for row, env in enumerate(envs[:rows])]
        begun += rows
        carry, time, running = backbone.initial_carry(rows), 0, [True] * rows
        taken: list[list[tuple[Any, ...]]] = [[] for _ in range(rows)]
        skill = np.zeros((rows, space.width), np.float32)
        while left and any(running):
            key, act_key, skill_key = jax.random.split(key, 3)
            if time == 0 or (period is not None and time % period == 0):
                skill = np.asarray(space.sample(skill_key, rows))
            drawn, carry = act(params, carry, np.stack(obs), skill, act_key)
            actions, time = np.asarray(drawn), time + 1
            for row in (row for row in range(rows) if running[row] and left):
                step = envs[row].step(actions[row])
                taken[row].append((obs[row], actions[row], step.reward, skill[row]))
                obs[row], running[row], left = step.obs[:width], not (step.terminated or step.truncated), left - 1
        for episode in filter(None, taken):
            columns = [np.stack(column) for column in zip(*episode, strict=True)]
            yield Trajectory(columns[0], columns[1], columns[2].astype(np.float32), columns[3])
