"""The domains and tasks of the Unsupervised RL Benchmark (Laskin et al., 2021), as plain data.

Importing this module needs neither dm_control nor JAX, so that names can be listed and checked anywhere.
"""

from dataclasses import dataclass

from skillscape.errors import choose


@dataclass(frozen=True)
class Domain:
    """A robot and its downstream tasks; pre-training runs on ``primal_task`` without its reward.

    ``tasks``: full names, such as "walker_walk"; ``obs_size`` and ``action_size``: lengths of the flat vectors;
    ``horizon``: steps per episode.
    """

    name: str
    primal_task: str
    tasks: tuple[str, ...]
    obs_size: int
    action_size: int
    horizon: int


def _domain(name: str, primal: str, tasks: tuple[str, ...], sizes: tuple[int, int, int]) -> Domain:
    return Domain(name, f"{name}_{primal}", tuple(f"{name}_{task}" for task in tasks), *sizes)


DOMAINS: dict[str, Domain] = {
    domain.name: domain
    for domain in (
        _domain("walker", "stand", ("stand", "walk", "run", "flip"), (24, 6, 1000)),
        _domain("quadruped", "walk", ("stand", "walk", "run", "jump"), (78, 12, 1000)),
        _domain(
            "jaco",
            "reach_top_left",
            ("reach_top_left", "reach_top_right", "reach_bottom_left", "reach_bottom_right"),
            (55, 9, 250),
        ),
    )
}
"""Every domain by its name."""

TASKS: tuple[str, ...] = tuple(task for domain in DOMAINS.values() for task in domain.tasks)
"""All twelve task names."""


def domain_of(task: str) -> Domain:
    """The domain of a task; an unknown name is refused."""
    choose("task", task, TASKS, "skillscape envs")
    return next(domain for domain in DOMAINS.values() if task in domain.tasks)
