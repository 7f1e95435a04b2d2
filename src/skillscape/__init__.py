"""Unsupervised skill discovery in JAX: SD3 and the methods it is compared with.

>>> import skillscape
>>> (run,) = skillscape.pretrain("sd3", env="maze/square_a", out="runs/sd3")
>>> policy = skillscape.Policy(run, skill=3)
"""

from typing import TYPE_CHECKING

from skillscape.envs.gym import register

__version__ = "0.1.0"
__all__ = ["Policy", "Run", "UserError", "evaluate", "load", "pretrain", "rollouts", "scoreboard", "summarise_runs"]

if TYPE_CHECKING:
    from skillscape.api import Policy, evaluate, load, pretrain, rollouts, summarise_runs
    from skillscape.errors import UserError
    from skillscape.evaluation.scoreboard import scoreboard
    from skillscape.training.runs import Run


def __getattr__(name: str) -> object:
    """Load the interface on first use: `import skillscape` alone, and the plots, stay free of JAX."""
    if name == "UserError":
        from skillscape.errors import UserError

        return UserError
    if name == "scoreboard":
        from skillscape.evaluation.scoreboard import scoreboard

        return scoreboard
    if name in __all__:
        from skillscape import api

        return getattr(api, name)
    raise AttributeError(f"module 'skillscape' has no attribute {name!r}")


# Gymnasium reads no entry points: importing this package is what makes its environments known (and costs no JAX).
register()
