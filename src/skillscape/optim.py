"""Gradient steps: one record for parameters with their optimiser state, one function to descend."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import jax
import optax
from jaxtyping import Array, Float

from skillscape.types import Metrics

Params = TypeVar("Params")


class Learner(NamedTuple, Generic[Params]):
    """Parameters and the state of the optimiser that moves them."""

    params: Params
    opt_state: optax.OptState


def learner(transform: optax.GradientTransformation, params: Params) -> Learner[Params]:
    """Start an optimiser on ``params``."""
    return Learner(params, transform.init(params))


def descend(
    transform: optax.GradientTransformation,
    loss: Callable[[Params], tuple[Float[Array, ""], Metrics]],
    learner: Learner[Params],
) -> tuple[Learner[Params], Metrics]:
    """One gradient step on ``loss``, which returns (value, metrics)."""
    gradients, metrics = jax.grad(loss, has_aux=True)(learner.params)
    updates, opt_state = transform.update(gradients, learner.opt_state, learner.params)
    return Learner(optax.apply_updates(learner.params, updates), opt_state), metrics


def adam(
    learning_rate: float, *, epsilon: float = 1e-8, clip_norm: float | None = None
) -> optax.GradientTransformation:
    """Adam, after clipping the global norm of the gradient where ``clip_norm`` is given."""
    step = optax.adam(learning_rate, eps=epsilon)
    return step if clip_norm is None else optax.chain(optax.clip_by_global_norm(clip_norm), step)


def ema(average: Params, newest: Params, rate: float) -> Params:
    """average + rate · (newest − average), leaf by leaf."""
    moved: Params = jax.tree.map(lambda old, new: old + rate * (new - old), average, newest)
    return moved
