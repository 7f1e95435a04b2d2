"""Environment, policy and update in one compiled function, for on-policy backbones."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from skillscape.config import RunConfig
from skillscape.envs.base import JaxEnv
from skillscape.replay import Trajectory
from skillscape.training.run import Run, selected_skill
from skillscape.training.state import Collector, RunState, unfit
from skillscape.training.unroll import begin_episodes, collect, collect_whole, parallel_episodes
from skillscape.types import Metrics, RandomKey, Rollout

Iteration: TypeAlias = Callable[..., tuple[RunState, Metrics]]
"""One iteration of a state, and of the skill [z] unless skills are resampled."""


def iteration(config: RunConfig, env: JaxEnv) -> Iteration:
    """One iteration as a pure function: collect, fit, reward, improve.

    It takes a state, and the skill [z] of all episodes unless ``config.strategy`` draws from the prior.
    """
    backbone, objective, episodes = config.backbone, config.reward, parallel_episodes(config, env)
    steps = backbone.steps_per_iteration(env.spec)

    def advance(state: RunState, *fixed: Float[Array, " z"]) -> tuple[RunState, Metrics]:
        key, collect_key, learn_key = jax.random.split(state.key, 3)
        skill = jnp.broadcast_to(fixed[0], (episodes, *fixed[0].shape)) if fixed else None
        under_way, rollout = _advanced(config, env, state, collect_key, skill)
        agent, objective_state, metrics = backbone.learn(state.agent, objective, state.objective, rollout, learn_key)
        return RunState(key, agent, objective_state, state.step + steps, under_way), metrics

    return advance


def _advanced(
    config: RunConfig,
    env: JaxEnv,
    state: RunState,
    key: RandomKey,
    skill: Float[Array, "e z"] | None,
    unrolls: int = 1,
) -> tuple[PyTree, Rollout]:
    """The episodes after ``unrolls`` iterations of one policy, and their rollout."""
    backbone, skills, resample_every = config.backbone, config.reward.skills, config.resample_every
    if backbone.unroll_steps is None:
        episodes = parallel_episodes(config, env)
        return (), collect_whole(env, backbone, skills, resample_every, state.agent, episodes, key, skill)
    steps = unrolls * backbone.unroll_steps
    return collect(env, backbone, skills, resample_every, state.agent, state.episodes, steps, key, skill)


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
        if metadata is None:
            # Compiled apart from the networks' initialisation: both may call LAPACK, see ``PureTraining.init``.
            self.state = state._replace(episodes=jax.jit(partial(begin_episodes, config, env))(state.key))
        else:
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
        """Select the skill from steps with different skills, as many as an episode has."""
        config, skills = self._config, self._config.reward.skills
        episodes = parallel_episodes(config, self._env)
        key, collect_key, skill_key = jax.random.split(self.state.key, 3)
        trials = config.strategy.trials(skills)
        tried = (
            np.asarray(skills.sample(skill_key, episodes))
            if trials is None
            else trials[np.arange(episodes) % len(trials)]
        )
        steps = config.trial_steps(self._env.spec)
        unrolls = steps // config.backbone.steps_per_iteration(self._env.spec)
        act = jax.jit(lambda state, key, skill: _advanced(config, self._env, state, key, skill, unrolls))
        under_way, rollout = act(self.state, collect_key, tried)
        rollout = jax.tree.map(np.asarray, rollout)
        trajectories = [
            Trajectory(rollout.obs[:, row], rollout.action[:, row], rollout.reward[:, row], rollout.skill[:, row])
            for row in range(episodes)
        ]
        self.skill = selected_skill(self._run, self.state, trajectories)
        self.state = self.state._replace(key=key, step=self.state.step + steps, episodes=under_way)

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
