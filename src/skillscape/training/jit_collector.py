"""Environment, policy and update in one compiled function, for on-policy backbones."""

from collections.abc import Callable
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.config import RunConfig
from skillscape.envs.base import JaxEnv
from skillscape.replay import Trajectory
from skillscape.skills import SkillSpace
from skillscape.training.run import Run, selected_skill
from skillscape.training.state import Collector, RunState, unfit
from skillscape.types import Metrics, RandomKey, Rollout

Iteration: TypeAlias = Callable[..., tuple[RunState, Metrics]]
"""One iteration of a state, and of the skill [z] unless skills are resampled."""


def collect(
    env: JaxEnv,
    backbone: Backbone[Any, Any],
    skills: SkillSpace,
    resample_every: int | None,
    agent: PyTree,
    episodes: int,
    key: RandomKey,
    skill: Float[Array, "e z"] | None = None,
) -> Rollout:
    """Run ``episodes`` environments in parallel for one horizon; terminated episodes are reset.

    Skills are drawn from the prior, per episode and every ``resample_every`` steps, unless ``skill`` is given.
    """
    start_key, skill_key, run_key = jax.random.split(key, 3)
    state = jax.vmap(env.reset)(jax.random.split(start_key, episodes))
    first = skills.sample(skill_key, episodes) if skill is None else skill
    horizon = env.spec.horizon
    params = backbone.policy_params(agent)

    def step(carry: tuple[Any, ...], at: tuple[Int[Array, ""], RandomKey]) -> tuple[tuple[Any, ...], Rollout]:
        state, held, memory = carry
        time, key = at
        act_key, step_key, reset_key, skill_key = jax.random.split(key, 4)
        if skill is None and resample_every is not None:
            due = (time > 0) & (time % resample_every == 0)
            held = jnp.where(due, skills.sample(skill_key, episodes), held)
        obs = jax.vmap(env.observe)(state)
        action, memory = backbone.act(params, memory, obs, held, act_key, True)
        state, timestep = jax.vmap(env.step)(state, action, jax.random.split(step_key, episodes))
        row = Rollout(
            obs=obs,
            action=action,
            next_obs=timestep.obs,
            skill=held,
            reward=timestep.reward,
            discount=1 - timestep.terminated,
            last=jnp.maximum(timestep.terminated, jnp.full((episodes,), time == horizon - 1, jnp.float32)),
        )
        ended = timestep.terminated > 0
        anew = skills.sample(jax.random.fold_in(skill_key, 1), episodes) if skill is None else skill
        fresh = (jax.vmap(env.reset)(jax.random.split(reset_key, episodes)), anew, backbone.initial_carry(episodes))
        return jax.tree.map(lambda new, old: _where(ended, new, old), fresh, (state, held, memory)), row

    times = jnp.arange(horizon)
    carry = (state, first, backbone.initial_carry(episodes))
    return jax.lax.scan(step, carry, (times, jax.random.split(run_key, horizon)))[1]


def _where(
    mask: Shaped[Array, " e"], new: Shaped[Array, "e ..."], old: Shaped[Array, "e ..."]
) -> Shaped[Array, "e ..."]:
    return jnp.where(mask.reshape(mask.shape + (1,) * (old.ndim - 1)), new, old)


def iteration(config: RunConfig, env: JaxEnv) -> Iteration:
    """One iteration as a pure function: collect, fit, reward, improve.

    It takes a state, and the skill [z] of all episodes unless ``config.strategy`` draws from the prior.
    """
    backbone, objective, episodes = config.backbone, config.reward, _episodes(config, env)

    def advance(state: RunState, *fixed: Float[Array, " z"]) -> tuple[RunState, Metrics]:
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        skill = jnp.broadcast_to(fixed[0], (episodes, *fixed[0].shape)) if fixed else None
        rollout = collect(
            env, backbone, objective.skills, config.resample_every, state.agent, episodes, collect_key, skill
        )
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, rollout, learn_key)
        return RunState(key, agent, objective_state, state.step + episodes * env.spec.horizon), metrics

    return advance


def _episodes(config: RunConfig, env: JaxEnv) -> int:
    return config.backbone.steps_per_iteration(env.spec) // env.spec.horizon


def compiled_iteration(run: Run, env: JaxEnv) -> Iteration:
    """The compiled iteration of a run, and of all runs that differ from it in their seed alone."""
    config = run.config
    fixed = () if config.strategy.kind == "prior" else (jax.ShapeDtypeStruct((config.reward.skills.width,), "float32"),)
    compiled: Iteration = jax.jit(iteration(config, env)).lower(run.like, *fixed).compile()
    return compiled


@final
class JitCollector(Collector):
    """Advances by whole iterations of a compiled program."""

    def __init__(
        self, run: Run, env: JaxEnv, compiled: Iteration, state: RunState, metadata: dict[str, Any] | None
    ) -> None:
        """Start at ``state``; ``metadata``: that of its checkpoint, or None."""
        self._run, self._env, self._compiled = run, env, compiled
        self._config = config = run.config
        self._skill_key = jax.random.fold_in(jax.random.key(config.seed), 0x5C11)
        self.state = state
        self.step = int(state.step)
        self.skill = config.strategy.initial(config.reward.skills, self._skill_key)
        if metadata is not None:
            self._restore(metadata)
        self._metrics: Metrics = {}
        self._before = self.state, self.skill, self._metrics

    def _restore(self, metadata: dict[str, Any]) -> None:
        width = self._config.reward.skills.width
        try:
            self.skill = None if metadata["skill"] is None else np.asarray(metadata["skill"], np.float32).reshape(width)
        except (LookupError, TypeError, ValueError) as error:
            raise unfit(self._run.checkpoints) from error

    def advance(self) -> None:
        """One iteration; if the skill is selected from warm-up data, the first iteration collects it."""
        self._before = self.state, self.skill, self._metrics
        if self.skill is None and self._config.strategy.needs_warmup_data:
            self._try_skills()
        else:
            fixed = () if self._config.strategy.kind == "prior" else (self.skill,)
            self.state, self._metrics = self._compiled(self.state, *fixed)
        self.step = int(self.state.step)

    def _try_skills(self) -> None:
        """Select the skill from an iteration of episodes with different skills."""
        config, skills = self._config, self._config.reward.skills
        episodes = _episodes(config, self._env)
        key, collect_key, skill_key = jax.random.split(self.state.key, 3)
        trials = config.strategy.trials(skills)
        tried = (
            np.asarray(skills.sample(skill_key, episodes))
            if trials is None
            else trials[np.arange(episodes) % len(trials)]
        )
        act = jax.jit(
            lambda agent, key, skill: collect(self._env, config.backbone, skills, None, agent, episodes, key, skill)
        )
        rollout = jax.tree.map(np.asarray, act(self.state.agent, collect_key, tried))
        trajectories = [
            Trajectory(rollout.obs[:, row], rollout.action[:, row], rollout.reward[:, row], rollout.skill[:, row])
            for row in range(episodes)
        ]
        self.skill = selected_skill(self._run, self.state, trajectories)
        self.state = self.state._replace(key=key, step=self.state.step + episodes * self._env.spec.horizon)

    def rewind(self) -> None:
        """Restore the state before the newest iteration."""
        self.state, self.skill, self._metrics = self._before
        self.step = int(self.state.step)

    @property
    def log_due(self) -> bool:
        """A row per iteration."""
        return True

    @property
    def metrics(self) -> dict[str, float]:
        """Means over the newest iteration."""
        return {name: float(value) for name, value in sorted(self._metrics.items())}

    def metadata(self) -> dict[str, Any]:
        """The skill of the run."""
        return {"skill": None if self.skill is None else self.skill.tolist()}

    def evaluation_skill(self) -> Float[np.ndarray, " z"]:
        """The skill of the run, or a draw determined by the step."""
        if self.skill is not None:
            return self.skill
        key = jax.random.fold_in(self._skill_key, self.step)
        return np.asarray(self._config.reward.skills.sample(key, 1)[0])

    def close(self) -> None:
        """Nothing to release."""
