"""The evaluation of a run, in training and after it: measures of where skills go, or of what they earn.

In a maze without a task, stochastic episodes of every skill from the fixed start are measured. Everywhere else
deterministic episodes are played: of every skill in pre-training, of the skill that acts on a task.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, PyTree

from skillscape.config import RunConfig
from skillscape.envs.mazes.frames import Sight
from skillscape.envs.mazes.maze import Maze
from skillscape.errors import Unwritable, UserError
from skillscape.evaluation.mazes import measure, rollouts_per_skill
from skillscape.evaluation.returns import Player
from skillscape.evaluation.rollouts import number_shown, skill_rollouts
from skillscape.evaluation.separation import state_accuracy
from skillscape.skills import SkillSpace
from skillscape.training.policy import listed_skills
from skillscape.training.run import Run
from skillscape.types import EnvSpec

Evaluate = Callable[[Run, PyTree, Float[np.ndarray, " z"], int], Mapping[str, float]]


@dataclass(frozen=True)
class Evaluation:
    """What a trained policy was measured to be."""

    step: int
    """Environment steps it was trained for."""
    measures: Mapping[str, float | None]
    """Named numbers; None where a measure says nothing: a single policy has no skills to tell apart."""
    returns: Mapping[str, list[float]]
    """Skill → returns of its episodes; empty in a maze without a task."""
    finetuned: str | None = None
    """The skill that a fine-tuning kept, if it kept one."""


@contextmanager
def evaluating(config: RunConfig) -> Iterator[Evaluate]:
    """The evaluation that training calls. Environments are made when first needed, and closed at the end."""
    if measured_in_maze(config):
        yield _evaluate_in_maze
        return
    players: list[Player] = []
    skills = listed_skills(config.reward.skills) if config.phase == "pretrain" else None
    number = config.evaluation.episodes if skills is None else max(1, config.evaluation.episodes // len(skills))

    def evaluate(run: Run, params: PyTree, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
        played = skill[None] if skills is None else skills
        if not players:
            players.append(Player([run.config.host_env() for _ in range(len(played) * number)], config.backbone))
        seeds = [int(seed) for seed in np.random.SeedSequence([config.seed, 0xE7A1, step]).generate_state(number) >> 1]
        found = players[0].play(params, np.repeat(played, number, axis=0), seeds * len(played))
        length = {"length": float(found.lengths.mean())}
        if skills is None:
            kept = float(np.argmax(skill)) if len(skill) else 0.0
            spread = {"return_deviation": float(found.returns.std())}
            return {"return": float(found.returns.mean()), **spread, **length, "skill": kept}
        by_skill = found.returns.reshape(len(played), number).mean(axis=1)
        best = {"return_best": float(by_skill.max()), "return_worst": float(by_skill.min())}
        states = [found.states[first : first + number] for first in range(0, len(found.states), number)]
        accuracy = state_accuracy(states)
        named = {} if accuracy is None else {"skill_accuracy": accuracy.value}
        return {"return": float(by_skill.mean()), **best, **length, **named}

    try:
        yield evaluate
    finally:
        for player in players:
            player.close()


def measured_in_maze(config: RunConfig) -> bool:
    """Whether a run is measured by where its skills go: in a maze, without a task."""
    return config.layout is not None and config.task is None


def _evaluate_in_maze(run: Run, params: PyTree, skill: Float[np.ndarray, " z"], step: int) -> Mapping[str, float]:
    del skill
    positions = maze_rollouts(run.config, run.spec, params)
    _keep_rollouts(run, step, positions)
    return {name: value for name, value in maze_measures(run.config, positions).items() if value is not None}


def maze_rollouts(
    config: RunConfig, spec: EnvSpec, params: PyTree, *, per_skill: int | None = None, seed: int = 0
) -> Float[np.ndarray, "k r t 2"]:
    """Where stochastic episodes of every skill go in a maze, from its fixed start; ``spec``: of the environment."""
    layout = config.layout
    if layout is None:
        raise UserError(f"{config.env} is not a maze; `skillscape evaluate` tells what its skills earn.")
    skills = config.reward.skills
    number = per_skill or rollouts_per_skill(config.evaluation.episodes, number_shown(skills), layout)
    see = Sight(layout) if spec.is_image else None
    return skill_rollouts(Maze(layout), config.backbone, skills, params, per_skill=number, seed=seed, see=see)


def maze_measures(config: RunConfig, positions: Float[np.ndarray, "k r t 2"]) -> dict[str, float | None]:
    """Coverage, reach, I(S;Z) and skill accuracy of rollouts; see ``evaluation.mazes``."""
    if config.layout is None:
        raise UserError(f"{config.env} is not a maze.")
    return measure(positions, config.layout)._asdict()


def _keep_rollouts(run: Run, step: int, positions: Float[np.ndarray, "k r t 2"]) -> None:
    path = run.folder / "rollouts" / f"{step:012d}.npz"
    try:
        path.parent.mkdir(exist_ok=True)
        np.savez_compressed(path, positions=positions)
    except OSError as error:
        raise Unwritable(
            f"{path} cannot be written ({error.strerror}), so training stopped; put that right and go on with --resume."
        ) from error


def evaluate(run: Run, *, task: str | None = None, episodes: int | None = None, seed: int = 0) -> Evaluation:
    """Measure the newest policy of a run.

    In a maze, a pre-training is measured by where ``episodes`` stochastic episodes of each skill go. Everywhere else,
    and with a ``task``, it is what each skill earns in ``episodes`` deterministic episodes, the same for every skill,
    and how well a state names its skill. ``episodes``: as in training if not given.
    """
    in_maze = measured_in_maze(run.config) and task is None
    least = 2 if in_maze else 1  # accuracy is measured on held-out episodes
    if episodes is not None and episodes < least:
        raise UserError(f"--episodes must be at least {least}, not {episodes}.")
    if in_maze:
        trained = run.trained_policy()
        positions = maze_rollouts(run.config, run.spec, trained.params, per_skill=episodes, seed=seed)
        return Evaluation(trained.step, maze_measures(run.config, positions), {})
    return _returns(run, task, episodes, seed)


def _returns(run: Run, task: str | None, episodes: int | None, seed: int) -> Evaluation:
    config = replace(run.config, noise=0.0, task=run.config.task if task is None else run.config.named_task(task))
    trained = run.trained_policy()
    number = episodes or config.evaluation.episodes
    space = config.reward.skills
    skills = dict(named_skills(space))
    finetuned = None
    if config.strategy.mixes:
        # It mixes all skills, whichever it is given.
        skills = {"controller": next(iter(skills.values()))}
    elif trained.skill is not None and space.width:
        kept = trained.skill
        finetuned = next((name for name, skill in skills.items() if np.array_equal(skill, kept)), "fine-tuned")
        skills = skills if finetuned in skills else {finetuned: kept, **skills}
    player = Player([config.host_env() for _ in range(number)], config.backbone)
    try:
        played = {
            name: player.play(trained.params, np.repeat(skill[None], number, axis=0), range(seed, seed + number))
            for name, skill in skills.items()
        }
    finally:
        player.close()
    means = {name: float(found.returns.mean()) for name, found in played.items()}
    accuracy = state_accuracy([found.states for found in played.values()])
    measures: dict[str, float | None] = {
        "return": means[finetuned] if finetuned is not None else float(np.mean(list(means.values()))),
        "return_best": max(means.values()),
        "return_worst": min(means.values()),
        "skill_accuracy": None if accuracy is None else accuracy.value,
        "skill_accuracy_error": None if accuracy is None else accuracy.error,
    }
    returns = {name: found.returns.tolist() for name, found in played.items()}
    return Evaluation(trained.step, measures, returns, finetuned)


def named_skills(space: SkillSpace) -> Iterator[tuple[str, Float[np.ndarray, " z"]]]:
    """The skills that are played, with the names that they have in tables, pictures and files."""
    noun = "policy" if space.width == 0 else "draw" if space.count is None else "skill"
    for index, skill in enumerate(listed_skills(space)):
        yield f"{noun} {index}", skill
