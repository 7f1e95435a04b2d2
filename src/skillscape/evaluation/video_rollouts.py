"""Episodes of a policy in a host environment, rendered step by step."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, PyTree, UInt8

from skillscape.backbones.base import Backbone
from skillscape.envs.base import RenderedEnv
from skillscape.evaluation.returns import EpisodeRunner

OnFrame: TypeAlias = Callable[[UInt8[np.ndarray, "h w 3"]], None]
"""Called with each rendered frame."""


def record_episode(
    rendered: RenderedEnv,
    backbone: Backbone[Any, Any],
    params: PyTree,
    skill: Float[np.ndarray, " z"],
    on_frame: OnFrame,
    *,
    seed: int,
    steps: int,
    stride: int,
) -> float:
    """Return of the deterministic episode of a seed with a fixed skill, which is run to its end.

    Renders the initial state and every ``stride``-th of the first ``steps`` steps, and the last step of an episode that
    ends before. params: see ``Backbone.policy_params``.
    """

    def on_step(step: int, done: bool) -> None:
        if step <= steps and (step % stride == 0 or done):
            on_frame(rendered.render())

    return float(EpisodeRunner([rendered.env], backbone).run(params, skill[None], [seed], on_step).returns[0])
