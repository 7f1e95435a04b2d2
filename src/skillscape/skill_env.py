"""Skills as actions: an environment in which an agent chooses skills and a frozen policy acts.

Each choice is held for some steps, in which the policy takes its mean action. The METRA line of work measures skills
this way: Park et al., METRA: Scalable Unsupervised RL with Metric-Aware Abstraction, ICLR 2024.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, final

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from skillscape.config import RunConfig
from skillscape.envs.base import HostStep
from skillscape.envs.gymnasium_export import make
from skillscape.errors import UserError
from skillscape.skills import Box, Discrete, SignedBox, SkillSpace
from skillscape.training.policy import HasPolicy, Policy, TrainedPolicy
from skillscape.training.run import Run, seed_folders
from skillscape.zoo import locate

HOLD = 25
"""Environment steps of a choice in the METRA line."""


def frozen(source: str | Path | HasPolicy) -> TrainedPolicy:
    """The newest policy of a run, of its folder, or of its ``skills/`` folder; it must have skills."""
    if isinstance(source, HasPolicy):
        trained = source.trained_policy()
    else:
        folder = locate(source)
        if seeds := seed_folders(folder):
            raise UserError(f"{folder} holds {len(seeds)} seeds; give one of them, such as {seeds[0]}.")
        trained = Run(folder).trained_policy() if (folder / "config.json").exists() else TrainedPolicy.load(folder)
    check_space(trained.config)
    return trained


def skill_of(space: SkillSpace, action: Float[Array, " z"]) -> Float[Array, " z"]:
    """The skill that an action in [-1, 1]^z chooses.

    Discrete skills: the one-hot skill of the largest entry. Unit vectors: the direction of the action, equal entries
    for zero. A box: (action + 1) / 2. A signed box: the absolute values under the sign of their sum.
    """
    if isinstance(space, Discrete):
        return jax.nn.one_hot(jnp.argmax(action), space.width)
    if isinstance(space, Box):
        return (jnp.clip(action, -1.0, 1.0) + 1) / 2
    if isinstance(space, SignedBox):
        inside = jnp.clip(action, -1.0, 1.0)
        return jnp.where(jnp.sum(inside) < 0, -1.0, 1.0) * jnp.abs(inside)
    length = jnp.sqrt(jnp.sum(action**2))
    return jnp.where(length > 0, action / jnp.where(length > 0, length, 1.0), 1 / math.sqrt(max(space.width, 1)))


def check_space(config: RunConfig) -> SkillSpace:
    """The skills of a run; a run without any is refused."""
    skills = config.reward.skills
    if not skills.width:
        raise UserError(f"{config.method} has no skills to choose from; give a run of a method that has.")
    return skills


def check_readable(policy: TrainedPolicy, obs_shape: tuple[int, ...], action_dim: int, place: str) -> None:
    """Refuse an environment that is not the one of the policy, perhaps with the entries of a goal at the end."""
    spec = policy.spec
    readable = obs_shape == spec.obs_shape or (
        len(obs_shape) == len(spec.obs_shape) == 1 and obs_shape[0] >= spec.obs_shape[0]
    )
    if not readable or action_dim != spec.action_dim:
        raise UserError(
            f"The skills were trained in {policy.config.env} on observations of shape {spec.obs_shape} and "
            f"{spec.action_dim} actions, but {place} has {obs_shape} and {action_dim}; give {policy.config.env} with "
            "one of its tasks."
        )


def check_hold(hold: Any) -> int:  # noqa: ANN401  (unchecked user input)
    """The environment steps of a choice, at least 1."""
    if isinstance(hold, bool) or not isinstance(hold, int) or hold < 1:
        raise UserError(f"hold is the number of environment steps of a choice: give at least 1, not {hold!r}.")
    return hold


class Held(NamedTuple):
    """Outcome of a choice: its last step, with the sum of the rewards, and how many steps it took."""

    step: HostStep
    steps: int


def hold_skill(
    policy: Policy,
    obs: Shaped[np.ndarray, "..."],
    step: Callable[[Float[np.ndarray, " a"]], HostStep],
    hold: int,
) -> Held:
    """Let a policy act with its skill for ``hold`` steps, or to the end of the episode.

    The policy reads the entries of an observation that it was trained on, not the goal that a task adds at the end.
    """
    total, taken, width = 0.0, 0, policy.spec.obs_shape[0]
    while True:
        outcome = step(policy(obs[:width]))
        obs, total, taken = outcome.obs, total + float(outcome.reward), taken + 1
        if outcome.terminated or outcome.truncated or taken == hold:
            return Held(outcome._replace(reward=total), taken)


@final
class SkillEnv(gymnasium.Wrapper[np.ndarray, Any, np.ndarray, np.ndarray]):
    """A Gymnasium environment whose actions are the skills of a run.

    >>> env = skillscape.SkillEnv(("ant", "ant_multi_goals"), "runs/metra-ant")
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step(env.action_space.sample())

    An action chooses a skill, which acts for ``hold`` steps with the mean action of the frozen policy, or to the end of
    the episode. The reward is the sum over these steps, ``info["steps"]`` their number. Discrete skills are chosen by
    index, ``Discrete(n)``; continuous skills of width z by ``Box(-1, 1, (z,))``: unit vectors by the direction of the
    action, skills of a box by (action + 1) / 2. Observations are those of the task; the policy reads the entries that
    it was trained on.
    """

    def __init__(
        self,
        env: str | tuple[str, str] | gymnasium.Env[np.ndarray, np.ndarray],
        run: str | Path | HasPolicy,
        hold: int = HOLD,
    ) -> None:
        """Wrap ``env``: an ID, an ID with a task, or an environment as ``skillscape.make`` gives it.

        ``run``: a run, its folder, or its ``skills/`` folder; ``hold``: environment steps of a choice.
        """
        trained = frozen(run)
        self._hold = check_hold(hold)
        if isinstance(env, str | tuple):
            name, task = (env, None) if isinstance(env, str) else env
            env = make(name, task)
        gymnasium.Wrapper.__init__(self, env)
        spaces = env.observation_space.shape, env.action_space.shape
        check_readable(trained, spaces[0] or (), math.prod(spaces[1] or ()), "this environment")
        self._policy = Policy(trained)
        self._skills = trained.config.reward.skills
        self.action_space = (
            gymnasium.spaces.Box(-1.0, 1.0, (self._skills.width,), np.float32)
            if self._skills.count is None
            else gymnasium.spaces.Discrete(self._skills.count)
        )
        self._obs: Shaped[np.ndarray, "..."] | None = None
        self._info: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Shaped[np.ndarray, "..."], dict[str, Any]]:
        """Start an episode of the environment."""
        self._policy.reset()
        self._obs, info = self.env.reset(seed=seed, options=options)
        return self._obs, info

    def step(
        self,
        action: Any,  # noqa: ANN401  an index or a vector
    ) -> tuple[Shaped[np.ndarray, "..."], float, bool, bool, dict[str, Any]]:
        """Hold a skill for ``hold`` steps, or to the end of the episode."""
        if self._obs is None:
            raise gymnasium.error.ResetNeeded("Call reset() before step().")
        if self._skills.count is None:
            self._policy.switch(np.asarray(skill_of(self._skills, jnp.asarray(action, jnp.float32))))
        else:
            self._policy.switch(int(action))
        held = hold_skill(self._policy, self._obs, self._one_step, self._hold)
        step = held.step
        self._obs = None if step.terminated or step.truncated else step.obs
        return step.obs, step.reward, step.terminated, step.truncated, {**self._info, "steps": held.steps}

    def _one_step(self, action: Float[np.ndarray, " a"]) -> HostStep:
        obs, reward, terminated, truncated, self._info = self.env.step(action)
        return HostStep(obs, float(reward), terminated, truncated)
