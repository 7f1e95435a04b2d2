"""What CIC, MOSS and CeSD share: a representation of states learned by contrast between transitions and skills.

Laskin et al., Contrastive Intrinsic Control, NeurIPS 2022; InfoNCE is of van den Oord et al., Representation Learning
with Contrastive Predictive Coding, 2018.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.encoders import StateNet
from skillscape.skills import SkillSpace
from skillscape.stats import unit_rows
from skillscape.types import Experience, RandomKey

CANDIDATES = 1024
"""Skills of a continuum among which the one for a goal is searched."""


class ContrastNetworks(eqx.Module):
    """State net g, transition predictor p on (g(s), g(s')), skill net h."""

    state: StateNet
    predictor: MLP
    skill: MLP

    @staticmethod
    def create(
        key: RandomKey, obs_shape: tuple[int, ...], skill_width: int, hidden: Sequence[int], features: int
    ) -> "ContrastNetworks":
        """Fresh networks of the same hidden widths."""
        state_key, predictor_key, skill_key = jax.random.split(key, 3)
        return ContrastNetworks(
            state=StateNet.create(state_key, obs_shape, hidden, features),
            predictor=MLP.create(predictor_key, 2 * features, hidden, features),
            skill=MLP.create(skill_key, skill_width, hidden, features),
        )

    def keys(self, obs: Shaped[Array, "n ..."], next_obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """p(g(s), g(s')) of unit length."""
        features = jax.vmap(self.state)(obs), jax.vmap(self.state)(next_obs)
        return unit_rows(jax.vmap(self.predictor)(jnp.concatenate(features, axis=-1)))

    def queries(self, skill: Float[Array, "n z"]) -> Float[Array, "n d"]:
        """h(z) of unit length."""
        return unit_rows(jax.vmap(self.skill)(skill))


def contrast_loss(networks: ContrastNetworks, batch: Experience, temperature: float) -> Float[Array, ""]:
    """InfoNCE: row i's skill h(zᵢ) is to pick row i's transition p(g(s), g(s')) out of the batch."""
    similarity = networks.queries(batch.skill) @ networks.keys(batch.obs, batch.next_obs).T / temperature
    return -jnp.mean(jnp.diag(jax.nn.log_softmax(similarity, axis=-1)))


def skill_of_transition(
    networks: ContrastNetworks, obs: Shaped[Array, "n ..."], goal: Shaped[Array, "n ..."], skills: SkillSpace
) -> Float[Array, "n z"]:
    """The skill whose query is most similar to the key of (s, g): argmax_z h(z)·p(g(s), g(g)).

    Of a continuum, among ``CANDIDATES`` draws from the prior, which are the same at every call.
    """
    candidates = skills.sample(jax.random.key(0), CANDIDATES) if skills.count is None else skills.all()
    similarity = networks.keys(obs, goal) @ networks.queries(candidates).T
    return candidates[jnp.argmax(similarity, axis=-1)]
