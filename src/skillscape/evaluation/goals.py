"""Zero-shot goal reaching: a pre-trained policy goes to places under the skill that its method chooses for them.

The protocol is that of Zheng et al., Can a MISL Fly? Analysis and Ingredients for Mutual Information Skill Learning,
ICLR 2025, after Park et al., METRA, ICLR 2024: goals uniform in [−R, R]^p around the start, the mean action of the
policy, and the skill z(s, g) chosen anew at every step ("adaptive") or once ("single"). In mazes the goals are the
centres of all cells, and episodes begin at the fixed start of evaluations. The best skill for each goal in hindsight
bounds what any single choice of a discrete skill could reach.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from skillscape.backbones.base import Backbone, VectorBackbone
from skillscape.config import RunConfig
from skillscape.envs.base import HostEnv
from skillscape.envs.host_adapter import HostJaxEnv
from skillscape.envs.mazes.layouts import Layout
from skillscape.errors import UserError
from skillscape.objectives.base import Objective
from skillscape.training.files import damaged, read_json, write_json
from skillscape.training.policy import compiled_act
from skillscape.training.run import Run

Mode: TypeAlias = Literal["adaptive", "single"]
MODES: tuple[Mode, ...] = ("adaptive", "single")
HINDSIGHT = "hindsight"
FILE = "goals.json"
NUMBER = 50
"""Goals outside mazes."""
WITHIN = (3.0, 1.0)
"""Distances within which a goal counts as reached."""
WITHIN_IN_MAZES = (0.5,)
"""Half a cell."""
MAZE_MEASURE, BODY_MEASURE = "hit_0.5", "hit_3"
"""The measures that tables show."""

# Separates goals from the random numbers of the episodes.
_STREAM = 0x676F616C


class NoGoals(UserError):
    """A place is not the state of a goal in this environment."""


@dataclass(frozen=True)
class Reached:
    """The episodes of one mode."""

    measures: Mapping[str, float]
    """hit_R, end_R: share of episodes within R of the goal at any time, the start included, and at the end; time_R:
    share of time within R; in mazes also hit_cell, end_cell and time_cell, in the goal's cell; final_distance: mean
    distance to the goal at the end."""
    closest: list[float]
    """Smallest distance of each episode to its goal."""
    final: list[list[float]]
    """Last position of each episode."""


@dataclass(frozen=True)
class GoalReaching:
    """Zero-shot goal reaching of a run."""

    step: int
    """Environment steps the policy was trained for."""
    within: tuple[float, ...]
    """Distances R of the measures, in the environment's unit of length."""
    starts: list[list[float]]
    """First position of each episode."""
    goals: list[list[float]]
    """Goal of each episode."""
    modes: Mapping[str, Reached]
    """"adaptive" and "single"; "hindsight" too where it was asked for."""
    explore: bool = False
    """Whether actions were sampled, not the mean."""

    @property
    def measures(self) -> dict[str, float]:
        """The measures of all modes: adaptive_hit_3, …"""
        return {f"{mode}_{name}": value for mode, each in self.modes.items() for name, value in each.measures.items()}

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)


class _Agent(NamedTuple):
    """What acts: the policy, and the method that chooses its skill."""

    backbone: Backbone[Any, Any]
    params: PyTree
    explore: bool
    choose: Callable[[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]], Float[Array, "n z"]]


def reach_goals(
    run: Run,
    *,
    number: int | None = None,
    goal_range: float | None = None,
    within: Sequence[float] | None = None,
    episodes: int = 1,
    explore: bool = False,
    hindsight: bool = False,
    seed: int = 0,
) -> GoalReaching:
    """Send the newest policy of a pre-training to goals, in both modes.

    ``number``: how many goals, 50 by default; in mazes every cell's centre by default, else places drawn uniformly.
    ``goal_range``: R, for environments other than mazes, by default the environment's. ``within``: distances that count
    as reached, by default 3 and 1, in mazes 0.5. ``episodes``: of each goal. ``explore``: sample actions instead of
    taking the mean. ``hindsight``: try every discrete skill for every goal and also measure the best one, which comes
    within the first distance most often. ``seed``: of the goals and of the episodes.
    """
    config = replace(run.config, noise=0.0)
    objective, layout = _method(config), config.layout
    radii = tuple(within or (WITHIN if layout is None else WITHIN_IN_MAZES))
    _check(config, number, goal_range, radii, episodes)
    if hindsight and objective.skills.count is None:
        raise UserError(f"--hindsight tries every skill, and {objective.name} has a continuum here; leave it out.")
    reach = goal_range or config.family.goal_range(config.env)
    snapshot = run.snapshot()
    model = snapshot.objective
    agent = _Agent(
        config.backbone,
        config.backbone.policy_params(snapshot.agent),
        explore,
        lambda obs, goal: _compiled_choice(config.backbone, objective)(snapshot.agent, model, obs, goal),
    )
    count = len(layout.cells) if layout is not None and number is None else number or NUMBER
    envs = [config.host_env() for _ in range(count * episodes)]
    modes: dict[str, Reached] = {}

    def observations() -> Float[np.ndarray, "n d"]:
        return np.stack([_reset(env, seed + row) for row, env in enumerate(envs)])

    try:
        _check_goal_state(envs[0], config)
        observations()
        starts = np.stack([_position(env) for env in envs])
        random = np.random.default_rng((_STREAM, seed))
        places = _inside(layout, number, random) if layout is not None else _around(starts[:count], reach, random)
        goals = np.tile(places, (episodes, 1))
        for mode in MODES:
            paths = _episodes(envs, agent, observations(), goals, adaptive=mode == "adaptive", seed=seed)
            modes[mode] = _measured(paths, goals, radii, layout)
        if hindsight:
            attempts = [
                _episodes(envs, _under(agent, skill), observations(), goals, adaptive=False, seed=seed)
                for skill in np.asarray(objective.skills.all())
            ]
            modes[HINDSIGHT] = _measured(_best(attempts, goals, radii[0], episodes), goals, radii, layout)
    finally:
        for env in envs:
            env.close()
    return GoalReaching(snapshot.step, radii, starts.tolist(), goals.tolist(), modes, explore)


def measure_goals(run: Run, measure: str) -> None:
    """Write goals.json of a pre-training with the default settings, unless it has ``measure`` or cannot be measured."""
    config = run.config
    able = config.objective is not None and config.objective.reaches_goals
    if able and isinstance(config.backbone, VectorBackbone) and goals_reached([run.folder], measure) is None:
        with suppress(NoGoals):
            write_json(run.folder / FILE, reach_goals(run).to_json())


def goals_reached(folders: Iterable[Path], measure: str) -> list[float] | None:
    """``measure`` of each run, such as hit_0.5, of skills chosen adaptively and by mean actions.

    Read from goals.json; None as soon as one run has not been measured so.
    """
    shares: list[float] = []
    for folder in folders:
        path = folder / FILE
        if not path.exists():
            return None
        advice = "run `skillscape goals` again"
        values = read_json(path, advice=advice)
        try:
            share = None if values["explore"] else values["modes"]["adaptive"]["measures"].get(measure)
            if share is None:
                return None
            shares.append(float(share))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise damaged(path, "it holds no measures", advice) from error
    return shares or None


def _method(config: RunConfig) -> Objective[Any]:
    """The method that chooses skills for goals; runs that cannot are refused."""
    objective = config.objective
    if config.phase != "pretrain" or objective is None:
        raise UserError("Goals are reached by the skills of a pre-training; give a run of `skillscape pretrain`.")
    if not objective.reaches_goals:
        raise UserError(
            f"{objective.name} does not say which skill leads to a goal; give a run of METRA, SD3 or DIAYN."
        )
    if not isinstance(config.backbone, VectorBackbone):
        raise UserError(
            f"{config.backbone.label} gives objectives the features of a world model, and a goal is a place, which has "
            "none; give a run of PPO, DDPG or SAC."
        )
    return objective


def _check(
    config: RunConfig, number: int | None, goal_range: float | None, radii: Sequence[float], episodes: int
) -> None:
    if not all(radius > 0 for radius in radii):
        raise UserError(f"--within takes distances above zero, not {min(radii):g}.")
    if number is not None and number < 1:
        raise UserError(f"--goals must be at least 1, not {number}.")
    if episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {episodes}.")
    if config.layout is not None and goal_range is not None:
        raise UserError(f"--range does not apply to {config.env}, whose goals lie in its cells; leave it out.")
    if goal_range is not None and not goal_range > 0:
        raise UserError(f"--range must be above zero, not {goal_range:g}.")


def _check_goal_state(env: HostEnv, config: RunConfig) -> None:
    """Refuse an environment in which a place is not the state of a goal."""
    position = env.position
    if position is None:
        raise NoGoals(
            f"{config.env} does not give the position of the body, so there are no goals to reach; pre-train with "
            "--env.position, which names the entries of the observation that are coordinates."
        )
    if env.with_position(np.zeros(env.spec.obs_shape, np.float32), position) is None:
        raise NoGoals(
            f"The observation of {config.env} does not hold the position of the body, so {config.method} cannot tell "
            "one place from another; choose an environment whose observation does, such as ant."
        )


def _around(
    starts: Float[np.ndarray, "n p"], reach: float | None, random: np.random.Generator
) -> Float[np.ndarray, "n p"]:
    """Goals uniform in [−R, R]^p around the start."""
    if reach is None:
        raise UserError(
            "This environment has no default distance of goals; give --range R, for goals uniform in [−R, R] around "
            "the start."
        )
    return starts + random.uniform(-reach, reach, starts.shape)


def _inside(layout: Layout, number: int | None, random: np.random.Generator) -> Float[np.ndarray, "n 2"]:
    """The centres of all cells, or ``number`` places that are uniform in the maze."""
    cells = np.asarray(layout.cells, np.float64)
    if number is None:
        return cells
    return cells[random.integers(len(cells), size=number)] + random.uniform(-0.5, 0.5, (number, 2))


def _reset(env: HostEnv, seed: int) -> Float[np.ndarray, " d"]:
    return env.reset_for_evaluation(seed) if isinstance(env, HostJaxEnv) else env.reset(seed)


def _position(env: HostEnv) -> Float[np.ndarray, " p"]:
    position = env.position
    assert position is not None
    return position.astype(np.float64)


def _goal_states(
    envs: Sequence[HostEnv], obs: Float[np.ndarray, "n d"], goals: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, "n d"]:
    """The observations with the bodies at their goals."""
    rows = [env.with_position(*row) for env, *row in zip(envs, obs, goals.astype(np.float32), strict=True)]
    return np.stack([row for row in rows if row is not None])


@cache
def _compiled_choice(backbone: Backbone[Any, Any], objective: Objective[Any]) -> Callable[..., Float[Array, "n z"]]:
    """``skill_for_goal`` of (agent, objective state, observations, goals) for runs of equal settings, compiled once."""

    def choose(
        agent: PyTree, state: PyTree, obs: Float[Array, "n d"], goal: Float[Array, "n d"]
    ) -> Float[Array, "n z"]:
        no_action = jnp.zeros((len(obs), 0))
        obs, goal = (backbone.objective_obs(agent, each, no_action) for each in (obs, goal))
        return objective.skill_for_goal(state, obs, goal)

    compiled: Callable[..., Float[Array, "n z"]] = jax.jit(choose)
    return compiled


def _episodes(
    envs: Sequence[HostEnv],
    agent: _Agent,
    obs: Float[np.ndarray, "n d"],
    goals: Float[np.ndarray, "n p"],
    *,
    adaptive: bool,
    seed: int,
) -> list[Float[np.ndarray, "t p"]]:
    """Positions of an episode towards each goal, from where the environments are; ``obs``: what they show there."""
    act, key = compiled_act(agent.backbone, agent.explore), jax.random.key(seed)
    carry = agent.backbone.initial_carry(len(envs))
    paths = [[_position(env)] for env in envs]
    running = np.ones(len(envs), bool)
    skill: Float[Array, "n z"] | None = None
    while running.any():
        if skill is None or adaptive:
            skill = agent.choose(obs, _goal_states(envs, obs, goals))
        key, act_key = jax.random.split(key)
        actions, carry = act(agent.params, carry, obs, skill, act_key)
        actions = np.asarray(actions)
        for row in np.flatnonzero(running).tolist():
            step = envs[row].step(actions[row])
            obs[row] = step.obs
            paths[row].append(_position(envs[row]))
            running[row] = not (step.terminated or step.truncated)
    return [np.stack(path) for path in paths]


def _under(agent: _Agent, skill: Float[np.ndarray, " z"]) -> _Agent:
    """The agent under one skill, whatever the goal."""
    return agent._replace(choose=lambda obs, _: jnp.tile(jnp.asarray(skill), (len(obs), 1)))


def _best(
    attempts: Sequence[Sequence[Float[np.ndarray, "t p"]]],
    goals: Float[np.ndarray, "n p"],
    radius: float,
    episodes: int,
) -> list[Float[np.ndarray, "t p"]]:
    """The paths of the skill that comes near a goal most often, of equals the one that ends nearest on average.

    attempts: skill → episode; goals: every goal once, ``episodes`` times over.
    """
    away = [[np.linalg.norm(path - goal, axis=1) for path, goal in zip(each, goals, strict=True)] for each in attempts]
    hits = np.array([[row.min() <= radius for row in each] for each in away])
    ends = np.array([[row[-1] for row in each] for each in away])
    by_goal = [values.reshape(len(attempts), episodes, -1).mean(axis=1) for values in (hits, -ends)]
    best = [
        max(range(len(attempts)), key=lambda skill: tuple(means[skill, goal] for means in by_goal))
        for goal in range(by_goal[0].shape[1])
    ]
    return [attempts[best[row % len(best)]][row] for row in range(len(goals))]


def _measured(
    paths: Sequence[Float[np.ndarray, "t p"]],
    goals: Float[np.ndarray, "n p"],
    radii: Sequence[float],
    layout: Layout | None,
) -> Reached:
    """The measures of one mode."""
    pairs = list(zip(paths, goals, strict=True))
    distances = [np.linalg.norm(path - goal, axis=1) for path, goal in pairs]
    reached = {f"{radius:g}": [each <= radius for each in distances] for radius in radii}
    if layout is not None:
        reached["cell"] = [layout.cell_index(path) == layout.cell_index(goal) for path, goal in pairs]
    measures: dict[str, float] = {}
    for name, by_episode in reached.items():
        measures[f"hit_{name}"] = float(np.mean([each.any() for each in by_episode]))
        measures[f"end_{name}"] = float(np.mean([each[-1] for each in by_episode]))
        measures[f"time_{name}"] = float(np.mean([each.mean() for each in by_episode]))
    measures["final_distance"] = float(np.mean([each[-1] for each in distances]))
    return Reached(measures, [float(each.min()) for each in distances], [path[-1].tolist() for path in paths])
