"""CSD (Park et al., Controllability-Aware Unsupervised Skill Discovery, ICML 2023).

Move far along the skill's direction in a representation whose steps may be as long as they are unlikely under what the
skills do now: what is already easy to change counts for little, what is hard to change for much.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from skillscape.nets import MLP
from skillscape.objectives.base import Objective, Pairs
from skillscape.objectives.metra import directions, squared_length
from skillscape.optim import Learner, adam, descend, learner
from skillscape.skills import Discrete, Sphere
from skillscape.types import Experience, Metrics, RandomKey, Spec
from skillscape.vision import Eye, StateNet, outline, outline_width


class ChangeModel(eqx.Module):
    """N(μ(s), σ(s)²) of the change s' − s; two networks, the second for log σ, behind one eye.

    Of images the change is that of their outlines.
    """

    eye: Eye
    mean: MLP
    log_deviation: MLP

    def __call__(self, obs: Shaped[Array, "..."]) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """μ(s) and log σ(s), with σ within [10⁻⁶, 10⁶]."""
        bound = math.log(1e6)
        seen = self.eye(obs)
        return self.mean(seen), jnp.clip(self.log_deviation(seen), -bound, bound)


class CSDState(NamedTuple):
    """The representation φ, log λ of the multiplier on its constraint, and the model of changes."""

    representation: Learner[StateNet]
    multiplier: Learner[Float[Array, ""]]
    changes: Learner[ChangeModel]


@dataclass(frozen=True)
class CSD(Objective[CSDState]):
    """(φ(s') − φ(s))·z, where φ maximises the same under ‖φ(s') − φ(s)‖² ≤ d(s, s').

    d(s, s') = Σ ρ (s' − s − μ(s))² with ρ ∝ σ(s)⁻², scaled so that its geometric mean over the entries of s is one.
    s and s' are one step apart. Of images d is that of their outlines.
    """

    name: ClassVar[str] = "csd"
    label: ClassVar[str] = "CSD"
    pairs: ClassVar[Pairs] = "one-step"

    skill_kind: Literal["discrete", "continuous"] = "discrete"
    """One-hot skills, or directions: unit vectors."""
    number_of_skills: int = 10
    """Of one-hot skills; also the dimension of φ then."""
    dimension: int = 2
    """Of directions, and of φ then."""
    constraint: Literal["sum", "mean"] = "sum"
    """Squares summed in ‖Δφ‖² and in d (norms, as the paper writes), or averaged in both (the authors' code)."""
    slack: float = 1e-6
    """ε: what a step shorter than allowed counts for at most."""
    initial_multiplier: float = 3000.0
    """λ at the start."""
    hidden: tuple[int, ...] = (128, 128)
    """Of all three networks."""
    learning_rate: float = 1e-3
    """Of φ and of the model of changes."""
    multiplier_learning_rate: float = 1e-3
    """Of log λ."""
    epsilon: float = 1e-3
    """Adam's ε for the networks."""
    reward_scale: float = 10.0
    resample_every: int | None = None
    """Environment steps between two draws of a skill; None keeps it for the whole episode."""

    @property
    def skills(self) -> Discrete | Sphere:
        """One-hot skills or unit vectors."""
        return Discrete(self.number_of_skills) if self.skill_kind == "discrete" else Sphere(self.dimension)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return adam(self.learning_rate, epsilon=self.epsilon)

    @property
    def _multiplier_transform(self) -> optax.GradientTransformation:
        # A kept constraint has the gradient ``slack``: a larger ε of Adam would never let λ come down.
        return adam(self.multiplier_learning_rate)

    def init(self, key: RandomKey, spec: Spec) -> CSDState:
        """A fresh representation and model of changes."""
        representation_key, mean_key, deviation_key = jax.random.split(key, 3)
        representation = StateNet.create(representation_key, spec.obs_shape, self.hidden, self.skills.width)
        eye, outputs = Eye.create(mean_key, spec.obs_shape), outline_width(spec.obs_shape)
        changes = ChangeModel(
            eye=eye,
            mean=MLP.create(mean_key, eye.width, self.hidden, outputs),
            log_deviation=MLP.create(deviation_key, eye.width, self.hidden, outputs),
        )
        log_multiplier = jnp.asarray(math.log(self.initial_multiplier), jnp.float32)
        return CSDState(
            learner(self._transform, representation),
            learner(self._multiplier_transform, log_multiplier),
            learner(self._transform, changes),
        )

    def distance(self, state: CSDState, batch: Experience) -> Float[Array, " n"]:
        """d(s, s'): how far the change is from what the model expects, in units of what it deems usual."""
        mean, log_deviation = jax.vmap(state.changes.params)(batch.obs)
        # σ⁻¹ over its geometric mean: only how the entries compare matters, not how sure the model is of all of them.
        relative = jnp.exp(jnp.mean(log_deviation, axis=-1, keepdims=True) - log_deviation)
        return squared_length((_changes(batch) - mean) * relative, self.constraint)

    def update(self, state: CSDState, batch: Experience, key: RandomKey) -> tuple[CSDState, Metrics]:
        """A step of φ on −mean(Δφ·z + λ c), of log λ on log λ · mean c, and of the model on −log N(s' − s; μ, σ²).

        c = min(ε, d(s, s') − ‖Δφ‖²). All see the networks before the steps; λ grows where the constraint is broken.
        """
        del key
        multiplier = jnp.exp(state.multiplier.params)
        distance = self.distance(state, batch)

        def loss(representation: StateNet) -> tuple[Float[Array, ""], Metrics]:
            steps = _steps(representation, batch)
            length = squared_length(steps, self.constraint)
            kept = jnp.mean(jnp.minimum(self.slack, distance - length))
            gain = jnp.mean(jnp.sum(steps * directions(batch.skill, self.skill_kind), axis=-1))
            value = -(gain + multiplier * kept)
            return value, {"model_loss": value, "constraint": kept, "squared_length": jnp.mean(length)}

        def surprise(changes: ChangeModel) -> tuple[Float[Array, ""], Metrics]:
            mean, log_deviation = jax.vmap(changes)(batch.obs)
            scaled = (_changes(batch) - mean) * jnp.exp(-log_deviation)
            value = jnp.mean(jnp.sum(0.5 * scaled**2 + log_deviation + 0.5 * math.log(2 * math.pi), axis=-1))
            return value, {"change_loss": value}

        representation, metrics = descend(self._transform, loss, state.representation)
        log_multiplier, _ = descend(
            self._multiplier_transform, lambda log: (log * metrics["constraint"], {}), state.multiplier
        )
        changes, more = descend(self._transform, surprise, state.changes)
        metrics = {**metrics, **more, "multiplier": multiplier, "distance": jnp.mean(distance)}
        return CSDState(representation, log_multiplier, changes), metrics

    def reward(
        self, state: CSDState, batch: Experience, key: RandomKey
    ) -> tuple[CSDState, Float[Array, " n"], Metrics]:
        """scale · (φ(s') − φ(s))·z, with z as ``metra.directions`` has it."""
        del key
        steps = _steps(state.representation.params, batch)
        return state, self.reward_scale * jnp.sum(steps * directions(batch.skill, self.skill_kind), axis=-1), {}


def _changes(batch: Experience) -> Float[Array, "n d"]:
    return jax.vmap(outline)(batch.next_obs) - jax.vmap(outline)(batch.obs)


def _steps(representation: StateNet, batch: Experience) -> Float[Array, "n d"]:
    return jax.vmap(representation)(batch.next_obs) - jax.vmap(representation)(batch.obs)
