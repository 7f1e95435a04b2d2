"""Gradient steps: one record for parameters with their optimiser state, one function for a step."""

import math
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import jax
import optax
from jaxtyping import Array, Float, PyTree

Params = TypeVar("Params")
Aux = TypeVar("Aux")


class TrainState(NamedTuple, Generic[Params]):
    """Parameters and the state of the optimiser that moves them."""

    params: Params
    opt_state: optax.OptState

    @staticmethod
    def create(transform: optax.GradientTransformation, params: Params) -> "TrainState[Params]":
        """Parameters with a new optimiser state."""
        return TrainState(params, transform.init(params))


def gradient_step(
    transform: optax.GradientTransformation,
    loss: Callable[[Params], tuple[Float[Array, ""], Aux]],
    state: TrainState[Params],
) -> tuple[TrainState[Params], Aux]:
    """One gradient step on ``loss``, which returns its value and something beside it: metrics, what it computed."""
    gradients, aux = jax.grad(loss, has_aux=True)(state.params)
    updates, opt_state = transform.update(gradients, state.opt_state, state.params)
    return TrainState(optax.apply_updates(state.params, updates), opt_state), aux


def adam(
    learning_rate: float, *, epsilon: float = 1e-8, clip_norm: float | None = None
) -> optax.GradientTransformation:
    """Adam, after clipping the global norm of the gradient where ``clip_norm`` is given."""
    step = optax.adam(learning_rate, eps=epsilon)
    return step if clip_norm is None else optax.chain(optax.clip_by_global_norm(clip_norm), step)


def decaying_adam(
    learning_rate: float, *, epsilon: float, clip_norm: float, decay: float
) -> optax.GradientTransformation:
    """``adam`` with weight decay by the factor 1 − ``decay`` per step, whatever the learning rate.

    The parameters are flattened to one vector: networks of many small arrays compile several times faster.
    """
    step = adam(learning_rate, epsilon=epsilon, clip_norm=clip_norm)
    return optax.flatten(optax.chain(step, optax.add_decayed_weights(-decay)))


def trained_parameters(tree: PyTree) -> int:
    """Number of parameters that gradient steps move: those of every ``TrainState`` in a tree of arrays or shapes.

    Target networks, frozen networks, moments and optimiser states do not count.
    """
    parts = jax.tree.leaves(tree, is_leaf=lambda part: isinstance(part, TrainState))
    trained = jax.tree.leaves([part.params for part in parts if isinstance(part, TrainState)])
    return sum(math.prod(leaf.shape) for leaf in trained)


def ema(average: Params, newest: Params, rate: float) -> Params:
    """average + rate · (newest − average), leaf by leaf."""
    moved: Params = jax.tree.map(lambda old, new: old + rate * (new - old), average, newest)
    return moved
