"""CSF (Zheng et al., Can a MISL Fly? Analysis and Ingredients for Mutual Information Skill Learning, ICLR 2025).

Contrastive successor features: METRA's reward, with the representation learned by contrast instead of under a
constraint. A step of the representation is to name its own skill among skills drawn from the prior.

Departure: the authors fit successor features ψ(s, a, z) entry by entry to the vector φ(s') − φ(s) + γ ψ̄. Here the
critic is Q = ψ(s, a, z)·z and its target the scalar r + γ Q̄, as for APS: backbones hand rewards on as one number.
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.objectives.base import Scale
from skillscape.objectives.encoders import StateNet
from skillscape.objectives.latent_steps import LatentSteps, directions, latent_steps
from skillscape.optim import TrainState, gradient_step
from skillscape.ranges import POSITIVE
from skillscape.types import Experience, Metrics, RandomKey, Spec


class CSFState(NamedTuple):
    """The representation φ."""

    representation: TrainState[StateNet]


@dataclass(frozen=True)
class CSF(LatentSteps[CSFState]):
    """(φ(s') − φ(s))·z, where φ maximises mean(Δφ·z − ξ log Σⱼ exp(Δφ·zⱼ)) over skills zⱼ drawn from the prior.

    The log-sum over other skills is not in the reward, which measures the direction and not discriminability.
    """

    name: ClassVar[str] = "csf"
    label: ClassVar[str] = "CSF"

    skill_kind: Literal["discrete", "continuous"] = "continuous"
    """One-hot skills, or directions: unit vectors, as in the paper."""
    contrast_weight: Annotated[float, POSITIVE] = 5.0
    """ξ: weight of the contrast with other skills in the loss of φ."""
    negatives: Annotated[int, POSITIVE] = 256
    """Skills drawn from the prior at each update that a step is contrasted with."""

    @classmethod
    def at(cls, scale: Scale) -> Self:
        """As the paper: a skill lasts an episode; two entries in mazes, four for robots."""
        if scale.benchmark == "maze":
            return cls()
        return replace(
            cls.sized(scale),
            number_of_skills=scale.number_of_skills,
            dimension=2 if scale.benchmark == "maze-pixels" else 4,
        )

    @property
    def critic_head(self) -> Literal["scalar", "skill"]:
        """Successor features of directions; one-hot skills have one value each anyway."""
        return "skill" if self.skill_kind == "continuous" else "scalar"

    def init(self, key: RandomKey, spec: Spec) -> CSFState:
        """A fresh representation."""
        representation = StateNet.create(key, spec.obs_shape, self.hidden, self.skills.width)
        return CSFState(TrainState.create(self._transform, representation))

    def update(self, state: CSFState, batch: Experience, key: RandomKey) -> tuple[CSFState, Metrics]:
        """A step of φ on −mean(Δφ·z − ξ log Σⱼ exp(Δφ·zⱼ)), the zⱼ drawn anew for the whole batch."""
        own = directions(batch.skill, self.skill_kind)
        others = directions(self.skills.sample(key, self.negatives), self.skill_kind)

        def loss(representation: StateNet) -> tuple[Float[Array, ""], Metrics]:
            steps = latent_steps(representation, batch)
            gain = jnp.mean(jnp.sum(steps * own, axis=-1))
            contrast = jnp.mean(jax.nn.logsumexp(steps @ others.T, axis=-1))
            value = self.contrast_weight * contrast - gain
            length = jnp.mean(jnp.sum(steps**2, axis=-1))
            return value, {"model_loss": value, "gain": gain, "contrast": contrast, "squared_length": length}

        representation, metrics = gradient_step(self._transform, loss, state.representation)
        return CSFState(representation), metrics

    def represent(self, state: CSFState, obs: Shaped[Array, "n ..."]) -> Float[Array, "n d"]:
        """φ(s)."""
        return jax.vmap(state.representation.params)(obs)
