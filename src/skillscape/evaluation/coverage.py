"""Where the skills of a body go: policy state coverage, distance, speed, and spread within and between skills.

Every measure reads the positions of episodes, [t + 1, p] with the start at time 0 and p coordinates, listed by skill.
Episodes may differ in length. Policy state coverage is METRA's (Park et al., ICLR 2024): unique 1 × 1 bins of the
positions of 48 deterministic episodes under skills from the prior, the last position included.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, PyTree

from skillscape.evaluation.returns import EpisodeRunner
from skillscape.skills import SkillSpace
from skillscape.training.policy import listed_skills
from skillscape.training.positions import bins

Paths: TypeAlias = Sequence[Sequence[Float[np.ndarray, "t p"]]]
"""Skill → episode → positions."""


class PositionMeasures(NamedTuple):
    """The measures of a set of skills, in the environment's unit of length and per environment step."""

    policy_coverage: float
    """Number of 1 × 1 bins that the counted episodes visit."""
    distance: float
    """Net displacement ‖x_T − x_0‖ of an episode, averaged over episodes, then over skills."""
    speed: float
    """Length of an episode's path divided by its steps, averaged likewise."""
    spread_within: float | None
    """Root mean square distance of a skill's end points from their mean, over skills; None for one episode each."""
    spread_between: float | None
    """Root mean square distance of the skills' mean end points from the mean of all; None for one skill."""


def measure_positions(paths: Paths, counted: Paths) -> PositionMeasures:
    """All measures: coverage of the ``counted`` episodes, the others of ``paths``."""
    ends = [np.stack([path[-1] for path in episodes]).astype(np.float64) for episodes in paths]
    means = np.stack([points.mean(axis=0) for points in ends])
    within = [np.square(points - mean).sum(axis=1).mean() for points, mean in zip(ends, means, strict=True)]
    between = np.square(means - means.mean(axis=0)).sum(axis=1).mean()
    return PositionMeasures(
        policy_coverage=float(len(coverage(counted))),
        distance=_mean(paths, lambda path: float(np.linalg.norm(path[-1] - path[0]))),
        speed=_mean(paths, _speed),
        spread_within=float(np.sqrt(np.mean(within))) if min(len(points) for points in ends) > 1 else None,
        spread_between=float(np.sqrt(between)) if len(means) > 1 else None,
    )


def coverage(paths: Paths) -> frozenset[tuple[int, ...]]:
    """The unique bins of all positions."""
    return bins(np.concatenate([path for episodes in paths for path in episodes]))


def _speed(path: Float[np.ndarray, "t p"]) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).mean())


def _mean(paths: Paths, of: Callable[[Float[np.ndarray, "t p"]], float]) -> float:
    """The mean over episodes, then over skills."""
    return float(np.mean([np.mean([of(path) for path in episodes]) for episodes in paths]))


def counted_paths(
    runner: EpisodeRunner,
    params: PyTree,
    space: SkillSpace,
    own: Paths,
    number: int,
    seeds: Callable[[int], Sequence[int]],
) -> Paths:
    """The episodes that policy state coverage counts: ``number`` in all, or those of the evaluation if 0.

    Discrete skills have ``number`` // n episodes each, at least one: of ``own``, the episodes of the evaluation, as far
    as those go. Of a continuum ``number`` skills are drawn for one episode each. ``seeds``: the first so many seeds of
    the episodes.
    """
    if not number:
        return own
    if space.count is None:
        return [[path] for path in _run(runner, params, listed_skills(space, number), seeds(number))]
    each = max(1, number // space.count)
    done = min(len(own[0]), each)
    if done == each:
        return [episodes[:each] for episodes in own]
    skills, more = listed_skills(space), each - done
    added = _run(runner, params, np.repeat(skills, more, axis=0), [*seeds(each)[done:]] * len(skills))
    return [[*episodes, *added[index * more : (index + 1) * more]] for index, episodes in enumerate(own)]


def _run(
    runner: EpisodeRunner, params: PyTree, skills: Float[np.ndarray, "n z"], seeds: Sequence[int]
) -> list[Float[np.ndarray, "t p"]]:
    """Positions of one episode for each skill, as many at a time as there are environments."""
    paths: list[Float[np.ndarray, "t p"]] = []
    for first in range(0, len(skills), runner.size):
        rows = slice(first, first + runner.size)
        paths += runner.run(params, skills[rows], seeds[rows]).positions or []
    return paths


def as_array(paths: Paths) -> Float[np.ndarray, "k r t p"]:
    """Paths of skills with equally many episodes as one array; after the end of an episode it is NaN."""
    length = max(len(path) for episodes in paths for path in episodes)
    array = np.full((len(paths), len(paths[0]), length, paths[0][0].shape[1]), np.nan, np.float32)
    for skill, episodes in enumerate(paths):
        for row, path in enumerate(episodes):
            array[skill, row, : len(path)] = path
    return array
