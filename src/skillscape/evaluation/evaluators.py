"""Evaluation of a run, during training and afterwards.

In a maze without a task: stochastic episodes of every skill from the fixed start, measured by coverage, reach and skill
discriminability. Everywhere else: returns of deterministic episodes, of every skill in pre-training and of the acting
skill on a task. Where the environment tells the position of a body, pre-training is also measured by where it goes.
Pre-training of discrete skills is also measured by how well the method's own model identifies them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, PyTree

from skillscape.config import RunConfig
from skillscape.envs.mazes.maze import Maze
from skillscape.envs.mazes.render import MazeRenderer
from skillscape.errors import Unwritable, UserError
from skillscape.evaluation.coverage import PositionMeasures, as_array, counted_paths, measure_positions
from skillscape.evaluation.inference import inferred_skill
from skillscape.evaluation.mazes import measure, rollouts_per_skill
from skillscape.evaluation.returns import EpisodeRunner, Recorded
from skillscape.evaluation.rollouts import SAMPLED_SKILLS, SkillRollouts, random_walks, skill_rollouts
from skillscape.evaluation.skill_accuracy import state_accuracy
from skillscape.evaluation.skill_model import RANDOM_WALKS, has_model_measures, model_measures, recorded_episodes
from skillscape.skills import SkillSpace
from skillscape.training.policy import DRAWN_SKILLS, listed_skills
from skillscape.training.run import Run, Snapshot
from skillscape.training.state import RunState
from skillscape.types import EnvSpec


@dataclass(frozen=True)
class Evaluation:
    """Measures of a trained policy."""

    step: int
    """Environment steps the policy was trained for."""
    measures: Mapping[str, float | None]
    """Measure → value; None where undefined, as skill accuracy is for a single policy."""
    returns: Mapping[str, list[float]]
    """Skill → returns of its episodes; empty in a maze without a task."""
    finetuned: str | None = None
    """Name of the skill that was fine-tuned, if there is one."""


@contextmanager
def evaluating(
    config: RunConfig,
) -> Iterator[Callable[[Run, RunState, Float[np.ndarray, " z"], int], Mapping[str, float]]]:
    """The evaluation that training calls with (run, state, skill, step).

    Environments are created at the first call and closed at the end of the block.
    """
    if has_maze_measures(config):
        yield _evaluate_in_maze
        return
    runners: list[EpisodeRunner] = []
    walks: list[Recorded] = []
    skills = listed_skills(config.reward.skills) if config.phase == "pretrain" else None
    number = config.evaluation.episodes if skills is None else max(1, config.evaluation.episodes // len(skills))

    def evaluate(run: Run, state: RunState, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
        params = config.backbone.policy_params(state.agent)
        evaluated = skill[None] if skills is None else skills
        if not runners:
            envs = [run.config.host_env() for _ in range(len(evaluated) * number)]
            runners.append(EpisodeRunner(envs, config.backbone))

        def seeds(number: int) -> list[int]:
            return [
                int(seed) for seed in np.random.SeedSequence([config.seed, 0xE7A1, step]).generate_state(number) >> 1
            ]

        scored = recorded_episodes(config, run.spec, number)
        record = [first + row for first in range(0, len(evaluated) * number, number) for row in range(scored)]
        episodes = runners[0].run(
            params, np.repeat(evaluated, number, axis=0), seeds(number) * len(evaluated), record=record
        )
        length = float(episodes.lengths.mean())
        if skills is None:
            mean, std = float(episodes.returns.mean()), float(episodes.returns.std())
            index = float(np.argmax(skill)) if len(skill) else 0.0
            return {"return": mean, "return_std": std, "length": length, "skill": index}
        returns = episodes.returns.reshape(len(skills), number).mean(axis=1)
        best = {"return_best": float(returns.max()), "return_worst": float(returns.min())}
        accuracy = state_accuracy(
            [episodes.states[first : first + number] for first in range(0, len(episodes.states), number)]
        )
        measures = {"return": float(returns.mean()), **best, "length": length}
        measures |= {} if accuracy is None else {"skill_accuracy": accuracy.value}
        if scored:
            if config.reward.diagnoses and not walks:
                walks.extend(runners[0].random_walk(seed) for seed in range(RANDOM_WALKS))
            own_episodes = [episodes.recorded[first : first + scored] for first in range(0, len(record), scored)]
            measures |= model_measures(config, run.spec, state.agent, state.objective, own_episodes, walks)
        if episodes.positions is None or not config.measures_positions:
            return measures
        own = [episodes.positions[first : first + number] for first in range(0, len(episodes.positions), number)]
        space, counted = config.reward.skills, config.evaluation.coverage_episodes
        paths = counted_paths(runners[0], params, space, own, counted, seeds)
        _save_rollouts(run, step, as_array(paths))
        positional = measure_positions(own, paths)._asdict()
        return measures | {name: value for name, value in positional.items() if value is not None}

    try:
        yield evaluate
    finally:
        for runner in runners:
            runner.close()


def has_maze_measures(config: RunConfig) -> bool:
    """Whether a run is evaluated by ``evaluation.mazes``: in a maze, without a task."""
    return config.layout is not None and config.task is None


def _evaluate_in_maze(run: Run, state: RunState, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
    del skill
    episodes = _maze_episodes(run.config, run.spec, run.config.backbone.policy_params(state.agent))
    _save_rollouts(run, step, episodes.obs)
    measures = maze_measures(run.config, episodes.obs)
    measures |= _maze_model_measures(run, state.agent, state.objective, episodes)
    return {name: value for name, value in measures.items() if value is not None}


def maze_rollouts(
    config: RunConfig, spec: EnvSpec, params: PyTree, *, per_skill: int | None = None, seed: int = 0
) -> Float[np.ndarray, "k r t 2"]:
    """Positions of stochastic episodes of every skill in a maze, from its fixed start; ``spec``: of the environment."""
    return _maze_episodes(config, spec, params, per_skill=per_skill, seed=seed).obs


def _maze_episodes(
    config: RunConfig, spec: EnvSpec, params: PyTree, *, per_skill: int | None = None, seed: int = 0
) -> SkillRollouts:
    layout = config.layout
    if layout is None:
        raise UserError(f"{config.env} is not a maze; `skillscape evaluate` measures the returns of its skills.")
    skills = config.reward.skills
    number = per_skill or rollouts_per_skill(config.evaluation.episodes, skills.count or SAMPLED_SKILLS, layout)
    render = MazeRenderer(layout) if spec.is_image else None
    return skill_rollouts(Maze(layout), config.backbone, skills, params, per_skill=number, seed=seed, render=render)


def _maze_model_measures(run: Run, agent: PyTree, model: PyTree, episodes: SkillRollouts) -> dict[str, float]:
    """How well the method's own model identifies skills, see ``skill_model``; empty where it has none."""
    config, layout = run.config, run.layout
    scored = recorded_episodes(config, run.spec, episodes.obs.shape[1])
    if layout is None or not scored:
        return {}
    own = [[*map(Recorded, obs[:scored], action[:scored])] for obs, action in zip(*episodes, strict=True)]
    walks = random_walks(Maze(layout), RANDOM_WALKS) if config.reward.diagnoses else []
    render = MazeRenderer(layout) if run.spec.is_image else None
    return model_measures(config, run.spec, agent, model, own, walks, render)


def maze_measures(config: RunConfig, positions: Float[np.ndarray, "k r t 2"]) -> dict[str, float | None]:
    """Coverage, reach, I(S;Z) and skill accuracy of rollouts; see ``evaluation.mazes``."""
    if config.layout is None:
        raise UserError(f"{config.env} is not a maze.")
    return measure(positions, config.layout)._asdict()


def _save_rollouts(run: Run, step: int, positions: Float[np.ndarray, "k r t p"]) -> None:
    """Write rollouts/STEP.npz atomically: a reader finds the whole file or none, whenever the process is killed."""
    path = run.folder / "rollouts" / f"{step:012d}.npz"
    temporary = path.with_suffix(".partial")
    try:
        path.parent.mkdir(exist_ok=True)
        # Created anew: an existing file may be a link.
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
            np.savez_compressed(file, positions=positions)
        temporary.replace(path)
    except OSError as error:
        raise Unwritable(
            f"{path} cannot be written ({error.strerror}), so training stopped; fix this and continue with --resume."
        ) from error


def evaluate(
    run: Run,
    *,
    task: str | None = None,
    episodes: int | None = None,
    coverage_episodes: int | None = None,
    infer: int | None = None,
    seed: int = 0,
) -> Evaluation:
    """Measure the newest policy of a run with ``episodes`` episodes per skill, by default as many as in training.

    A pre-training in a maze is measured by ``evaluation.mazes`` on stochastic episodes. Everywhere else, and with a
    ``task``, the measures are the returns of deterministic episodes, on the same seeds for every skill, and the skill
    accuracy of their states; in pre-training also where the body goes, see ``evaluation.coverage``, with as many
    ``coverage_episodes`` as in training unless told otherwise. A pre-training of discrete skills is also measured by
    how well the method's own model identifies them, see ``evaluation.skill_model``.

    ``infer``: environment steps with the reward of the task, from which the method infers the one skill that is then
    measured, see ``evaluation.inference``.
    """
    in_maze = has_maze_measures(run.config) and task is None and infer is None
    least = 2 if in_maze else 1  # accuracy is measured on held-out episodes
    if episodes is not None and episodes < least:
        raise UserError(f"--episodes must be at least {least}, not {episodes}.")
    if in_maze:
        trained = run.trained_policy()
        rolled_out = _maze_episodes(run.config, run.spec, trained.params, per_skill=episodes, seed=seed)
        measures = maze_measures(run.config, rolled_out.obs)
        if (snapshot := _trained_model(run, trained.step)) is not None:
            measures |= _maze_model_measures(run, snapshot.agent, snapshot.objective, rolled_out)
        return Evaluation(trained.step, measures, {})
    if coverage_episodes is not None and coverage_episodes < 0:
        raise UserError(f"--coverage-episodes must be at least 0, not {coverage_episodes}.")
    if infer is None:
        return _evaluate_returns(run, task, episodes, coverage_episodes, seed)
    return _evaluate_returns(
        run, run.config.named_task(task), episodes, coverage_episodes, seed, inferred_skill(run, task, infer, seed=seed)
    )


def _trained_model(run: Run, step: int) -> Snapshot | None:
    """Agent and model of the policy of a step, if there are ``model_measures``; None of a run copied without them."""
    if not has_model_measures(run.config) or run.trained_steps != step or not step:
        return None
    snapshot = run.snapshot()
    return None if snapshot.model is None else snapshot


def _evaluate_returns(
    run: Run,
    task: str | None,
    episodes: int | None,
    coverage_episodes: int | None,
    seed: int,
    inferred: Float[np.ndarray, " z"] | None = None,
) -> Evaluation:
    config = replace(run.config, noise=0.0, task=run.config.task if task is None else run.config.named_task(task))
    trained = run.trained_policy()
    number = episodes or config.evaluation.episodes
    space = config.reward.skills
    skills = named_skills(space) if inferred is None else {"inferred": inferred}
    finetuned = None
    if config.strategy.uses_controller:
        # The controller mixes all skills, whichever is passed.
        skills = {"controller": next(iter(skills.values()))}
    elif trained.skill is not None and space.width:
        vector = trained.skill
        finetuned = next((name for name, skill in skills.items() if np.array_equal(skill, vector)), "fine-tuned")
        skills = skills if finetuned in skills else {finetuned: vector, **skills}
    envs = [config.host_env() for _ in range(number)]
    # A policy that was trained without the task does not read its goal.
    unread = envs[0].spec.goal_dim if run.config.task is None else 0
    runner = EpisodeRunner(envs, config.backbone, unread)
    positions: PositionMeasures | None = None
    snapshot = _trained_model(run, trained.step) if task is None and inferred is None else None
    record = range(0 if snapshot is None else recorded_episodes(config, run.spec, number))
    model: dict[str, float] = {}
    try:
        _check_observation(trained.spec, envs[0].spec, unread, config)
        by_skill = {
            name: runner.run(
                trained.params, np.repeat(skill[None], number, axis=0), range(seed, seed + number), record=record
            )
            for name, skill in skills.items()
        }
        if snapshot is not None:
            walks = [runner.random_walk(seed) for seed in range(RANDOM_WALKS if config.reward.diagnoses else 0)]
            recorded = [batch.recorded for batch in by_skill.values()]
            model = model_measures(config, run.spec, snapshot.agent, snapshot.objective, recorded, walks)
        own = [batch.positions for batch in by_skill.values() if batch.positions is not None]
        if own and task is None and config.measures_positions:
            counted = config.evaluation.coverage_episodes if coverage_episodes is None else coverage_episodes
            paths = counted_paths(runner, trained.params, space, own, counted, lambda count: range(seed, seed + count))
            positions = measure_positions(own, paths)
    finally:
        runner.close()
    means = {name: float(batch.returns.mean()) for name, batch in by_skill.items()}
    accuracy, error = state_accuracy([batch.states for batch in by_skill.values()]) or (None, None)
    measures = {
        "return": means[finetuned] if finetuned is not None else float(np.mean(list(means.values()))),
        "return_best": max(means.values()),
        "return_worst": min(means.values()),
        "skill_accuracy": accuracy,
        "skill_accuracy_error": error,
        **model,
        **({} if positions is None else positions._asdict()),
    }
    returns = {name: batch.returns.tolist() for name, batch in by_skill.items()}
    return Evaluation(trained.step, measures, returns, finetuned)


def _check_observation(trained: EnvSpec, shown: EnvSpec, unread: int, config: RunConfig) -> None:
    """Refuse the policy of one task on another whose goal it cannot read."""
    read = (*shown.obs_shape[:-1], shown.obs_shape[-1] - unread)
    if read != trained.obs_shape:
        raise UserError(
            f"The policy reads observations of shape {trained.obs_shape}, and {config.task} shows {shown.obs_shape}: "
            "measure it by the task that it was trained on."
        )


def named_skills(space: SkillSpace, sampled: int = DRAWN_SKILLS) -> dict[str, Float[np.ndarray, " z"]]:
    """Name → vector of every skill, or of ``sampled`` skills of a continuum, as in tables, figures and files."""
    noun = "policy" if space.width == 0 else "draw" if space.count is None else "skill"
    return {f"{noun} {index}": skill for index, skill in enumerate(listed_skills(space, sampled))}
