"""A controller c(z|s) over the skills of a policy: what the policy says under every skill, mixed state by state."""

from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from skillscape.nets import MLP

PolicyNet = TypeVar("PolicyNet", bound=eqx.Module)


def silenced(network: MLP) -> MLP:
    """The network with its last layer at zero: as logits, the uniform distribution; as a value, zero everywhere."""
    silent: MLP = eqx.tree_at(
        lambda net: (net.layers[-1].weight, net.layers[-1].bias), network, replace_fn=jnp.zeros_like
    )
    return silent


def controlled(policy: PolicyNet, network: MLP) -> PolicyNet:
    """The policy with this network as its ``controller``, at first a uniform mixture."""
    with_it: PolicyNet = eqx.tree_at(
        lambda net: net.controller, policy, silenced(network), is_leaf=lambda leaf: leaf is None
    )
    return with_it


def mixture(
    controller: MLP, state: Float[Array, " d"], outputs: Callable[[Float[Array, " k"]], PyTree], skills: int
) -> PyTree:
    """Σ_z c(z|s) outputs(z) over the k one-hot skills, for every array that ``outputs`` returns."""
    share = jax.nn.softmax(controller(state))
    return jax.tree.map(lambda under: share @ under, jax.vmap(outputs)(jnp.eye(skills)))
