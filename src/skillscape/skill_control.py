"""Environments in which an action chooses a skill of a pre-training (``skills/RUN``), to learn a controller over them.

The environment is that of the run, with a task. A choice is held for some steps, in which the frozen policy of the run
takes its mean action; rewards are summed. So every backbone learns a high-level controller as it learns anything else,
and a step of such a run is one choice. Park et al., METRA, ICLR 2024, and Zheng et al., Can a MISL Fly?, ICLR 2025, put
skills to use this way.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import NO_KWARGS, Definition, EnvFamily, HostEnv, HostStep, JaxEnv, Kwargs, Timestep
from skillscape.envs.registry import family_of, make_env
from skillscape.errors import UserError
from skillscape.skill_env import HOLD, check_hold, check_readable, check_space, frozen, hold_skill, skill_of
from skillscape.skills import SkillSpace
from skillscape.training.checkpoint import load_metadata
from skillscape.training.policy import Policy, TrainedPolicy
from skillscape.training.run import Run, seed_folders
from skillscape.types import Benchmark, EnvSpec, RandomKey
from skillscape.zoo import entry_name, locate

PREFIX = "skills/"


def control_id(run: Run) -> str:
    """The ID of the environment whose actions are the skills of a run, by name if it comes with the package."""
    return f"{PREFIX}{entry_name(run.folder) or run.folder.as_posix()}"


def _spec(inner: EnvSpec, skills: SkillSpace, hold: int) -> EnvSpec:
    """The observations of the task, an action for each entry of a skill, and as many choices as fill an episode."""
    return EnvSpec(inner.obs_shape, skills.width, -(-inner.horizon // hold), inner.goal_dim)


@final
class SkillHostEnv(HostEnv):
    """A ``HostEnv`` in which an action chooses a skill, see ``skill_env.skill_of``."""

    def __init__(self, inner: HostEnv, trained: TrainedPolicy, hold: int) -> None:
        self._inner, self._hold = inner, hold
        self._policy = Policy(trained)
        self._skills = trained.config.reward.skills
        self._spec = _spec(inner.spec, self._skills, hold)
        self._obs: Shaped[np.ndarray, "..."] = np.zeros(0, np.float32)

    @property
    def spec(self) -> EnvSpec:
        """The observations of the task, and choices in place of actions."""
        return self._spec

    def reset(self, seed: int) -> Shaped[np.ndarray, "..."]:
        """Start the episode of a seed."""
        self._policy.reset()
        self._obs = self._inner.reset(seed)
        return self._obs.copy()

    def step(self, action: Float[np.ndarray, " z"]) -> HostStep:
        """Hold the chosen skill, or to the end of the episode; the reward is the sum over its steps."""
        self._policy.switch(np.asarray(skill_of(self._skills, jnp.asarray(action))))
        step = hold_skill(self._policy, self._obs, self._inner.step, self._hold).step
        self._obs = step.obs
        return step._replace(obs=step.obs.copy())

    @property
    def position(self) -> Float[np.ndarray, " p"] | None:
        """Where the body is."""
        return self._inner.position

    def close(self) -> None:
        """Close the environment of the task."""
        self._inner.close()


class SkillState(NamedTuple):
    """The state of the environment, what the policy carries, and the environment steps taken."""

    inner: PyTree
    carry: PyTree
    steps: Int[Array, ""]


@final
@dataclass(frozen=True)
class SkillJaxEnv(JaxEnv):
    """A ``JaxEnv`` in which an action chooses a skill: the steps of a choice are one compiled loop.

    ``width``: entries of an observation that the policy reads; ``digest``: stands for ``params`` in comparisons.
    """

    inner: JaxEnv
    backbone: Backbone[Any, Any]
    skills: SkillSpace
    width: int
    hold: int
    digest: str
    params: PyTree = field(compare=False, repr=False)

    @property
    def spec(self) -> EnvSpec:
        """The observations of the task, and choices in place of actions."""
        return _spec(self.inner.spec, self.skills, self.hold)

    def reset(self, key: RandomKey) -> SkillState:
        """The first state of a training episode."""
        return self._first(self.inner.reset(key))

    def reset_for_evaluation(self, key: RandomKey) -> SkillState:
        """The first state of an evaluation episode."""
        return self._first(self.inner.reset_for_evaluation(key))

    def _first(self, inner: PyTree) -> SkillState:
        return SkillState(inner, self.backbone.initial_carry(1), jnp.asarray(0, jnp.int32))

    def observe(self, state: SkillState) -> Shaped[Array, "..."]:
        """The observation of the task."""
        return self.inner.observe(state.inner)

    def position(self, state: SkillState) -> Float[Array, " p"] | None:
        """Where the body is."""
        return self.inner.position(state.inner)

    def step(self, state: SkillState, action: Float[Array, " z"], key: RandomKey) -> tuple[SkillState, Timestep]:
        """Hold the chosen skill, or to the end of the episode; the reward is the sum over its steps."""
        skill, horizon = skill_of(self.skills, action), self.inner.spec.horizon

        def act(
            before: tuple[SkillState, Float[Array, ""]], key: RandomKey
        ) -> tuple[tuple[SkillState, Float[Array, ""]], Float[Array, ""]]:
            state, terminated = before
            obs = self.inner.observe(state.inner)[: self.width]
            # World models sample latent states even if actions are modes: with a fixed key, as policies do.
            action, carry = self.backbone.act(
                self.params, state.carry, obs[None], skill[None], jax.random.key(0), False
            )
            inner, timestep = self.inner.step(state.inner, action[0], key)
            over: Bool[Array, ""] = (terminated > 0) | (state.steps >= horizon)
            after = SkillState(inner, carry, state.steps + 1), timestep.terminated
            kept = jax.tree.map(lambda new, old: jnp.where(over, old, new), after, (state, terminated))
            return kept, jnp.where(over, 0.0, timestep.reward)

        begun = state, jnp.float32(0)
        (state, terminated), rewards = jax.lax.scan(act, begun, jax.random.split(key, self.hold))
        return state, Timestep(self.observe(state), jnp.sum(rewards), terminated)


class _Frozen(NamedTuple):
    """A policy that no longer learns, and a checksum of its parameters."""

    trained: TrainedPolicy
    digest: str


@lru_cache(maxsize=8)
def _load(folder: Path, written: int, step: int) -> _Frozen:
    """The policy of a run; ``written`` and ``step`` tell a run that was trained again or further from what was read."""
    del written, step
    trained = frozen(folder)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(trained.params):
        digest.update(np.asarray(leaf).tobytes())
    return _Frozen(trained, digest.hexdigest())


@final
class SkillControl(EnvFamily):
    """The environments of pre-trained runs, with choices of skills in place of actions."""

    name = "skills"

    def owns(self, env_id: str) -> bool:
        """Whether the ID begins with skills/."""
        return env_id.startswith(PREFIX)

    def describe(self) -> list[tuple[str, str]]:
        """One pattern for all runs."""
        text = (
            "The environment of a pre-training, RUN its folder, where an action chooses a skill that the frozen policy "
            f"follows for {HOLD} steps (`--env.kwargs hold={HOLD}`); `skillscape control` trains there."
        )
        return [(f"{PREFIX}RUN", text)]

    def source_folder(self, env_id: str) -> Path:
        """The folder of the pre-training."""
        return locate(env_id.removeprefix(PREFIX))

    def make(
        self, env_id: str, task: str | None = None, *, kwargs: Kwargs = NO_KWARGS, definition: Definition = None
    ) -> JaxEnv | HostEnv:
        """The environment of the run with a task; ``kwargs``: hold, the environment steps of a choice."""
        if unknown := sorted({*kwargs} - {"hold"}):
            raise UserError(f"{env_id} takes the keyword argument hold, not {', '.join(unknown)}: leave it out.")
        hold, stored = check_hold(kwargs.get("hold", HOLD)), self._stored(env_id, definition)
        run = self._run(env_id)
        step = _trained_steps(run)
        if step != stored["step"]:
            raise UserError(
                f"The skills of {env_id} were those of step {stored['step']:,}, but {run.folder} is now at step "
                f"{step:,}; train the controller again."
            )
        trained, digest = _load(run.folder, (run.folder / "config.json").stat().st_mtime_ns, step)
        inner = make_env(stored["env"], task, kwargs=stored["env_kwargs"], definition=stored["definition"])
        spec = inner.spec.without_goal
        check_readable(trained, spec.obs_shape, spec.action_dim, stored["env"])
        if isinstance(inner, HostEnv):
            return SkillHostEnv(inner, trained, hold)
        width, skills = trained.spec.obs_shape[0], trained.config.reward.skills
        return SkillJaxEnv(inner, trained.config.backbone, skills, width, hold, digest, trained.params)

    def tasks(self, env_id: str) -> tuple[str, ...]:
        """The tasks of the run's environment."""
        config = self._run(env_id).config
        return config.family.tasks(config.env)

    def task(self, env_id: str, task: str | None, *, definition: Definition = None) -> str:
        """A task of the run's environment."""
        stored = self._stored(env_id, definition)
        return family_of(stored["env"]).task(stored["env"], task, definition=stored["definition"])

    def benchmark(self, env_id: str, *, kwargs: Kwargs = NO_KWARGS) -> Benchmark:
        """The benchmark of the run's environment."""
        del kwargs
        config = self._run(env_id).config
        return config.family.benchmark(config.env, kwargs=config.env_kwargs)

    def definition(self, env_id: str) -> dict[str, Any]:
        """The environment of the run, and the step of its policy; the policy itself stays in the run's folder."""
        run = self._run(env_id)
        config = run.config
        return {
            "env": config.env,
            "env_kwargs": dict(config.env_kwargs),
            "definition": config.definition,
            "step": _trained_steps(run),
        }

    def folder_name(self, env_id: str) -> str:
        """The name of the run, of which seed_N is a part."""
        folder = self.source_folder(env_id)
        return f"{folder.parent.name}-{folder.name}" if folder.name.startswith("seed_") else folder.name

    def _stored(self, env_id: str, definition: Definition) -> Mapping[str, Any]:
        """What the run of a controller stored, or else what its skills' run says now."""
        stored = self.definition(env_id) if definition is None else definition
        if missing := {"env", "env_kwargs", "definition", "step"} - {*stored}:
            raise UserError(f"The definition of {env_id} is damaged: {', '.join(sorted(missing))} is missing.")
        return stored

    def _run(self, env_id: str) -> Run:
        """The pre-training whose skills act."""
        folder = self.source_folder(env_id)
        if seeds := seed_folders(folder):
            raise UserError(f"{folder} holds {len(seeds)} seeds; give one of them, such as {PREFIX}{seeds[0]}.")
        if not (folder / "config.json").exists():
            raise UserError(
                f"The skills of {env_id} are those of the run {folder}, which is not there; move it back, or run the "
                "command in the folder that it was started in."
            )
        run = Run(folder)
        if run.config.phase != "pretrain":
            raise UserError(f"{folder} was trained on a task reward; give a run of `skillscape pretrain`.")
        check_space(run.config)
        return run


def _trained_steps(run: Run) -> int:
    """Step of the newest policy; of a run that was copied without checkpoints, that of ``skills/``."""
    if not run.trained_steps and (run.folder / "skills").is_dir():
        return int(load_metadata(run.folder / "skills")["step"])
    return run.trained_steps
