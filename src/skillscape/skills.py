"""Skill spaces: the set of skills and their prior."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from skillscape.errors import UserError
from skillscape.types import RandomKey


class SkillSpace(ABC):
    """The set a skill z comes from, with its prior p(z). Skills are rows of width ``width``."""

    kind: ClassVar[str]
    """What a space is called in a configuration; with its width it is the whole space."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Length of a skill vector."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many skills there are; None where they are a continuum."""

    @abstractmethod
    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Draw ``rows`` skills from the prior."""

    @abstractmethod
    def all(self) -> Float[Array, "k z"]:
        """Every skill once, or a helpful error where that is impossible."""


@dataclass(frozen=True)
class Discrete(SkillSpace):
    """``number`` skills as one-hot vectors, uniform."""

    kind: ClassVar[str] = "discrete"

    number: int

    @property
    def width(self) -> int:
        """One entry per skill."""
        return self.number

    @property
    def count(self) -> int:
        """The number of skills."""
        return self.number

    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Uniform one-hot rows."""
        return jax.nn.one_hot(jax.random.randint(key, (rows,), 0, self.number), self.number)

    def all(self) -> Float[Array, "k z"]:
        """The identity matrix."""
        return jnp.eye(self.number)


@dataclass(frozen=True)
class Continuum(SkillSpace):
    """Vectors of ``dimension`` entries; a subclass says which, and how they are drawn."""

    dimension: int

    @final
    @property
    def width(self) -> int:
        """The dimension of the space."""
        return self.dimension

    @final
    @property
    def count(self) -> None:
        """None, since the skills are continuous."""
        return None

    @final
    def all(self) -> Float[Array, "k z"]:
        """Refused: a continuum cannot be listed."""
        raise UserError("These skills are a continuum and cannot be listed; sample some instead.")


@dataclass(frozen=True)
class Sphere(Continuum):
    """Unit vectors of ``dimension`` entries, uniform on the sphere."""

    kind: ClassVar[str] = "sphere"

    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Normalised normal draws."""
        normal = jax.random.normal(key, (rows, self.dimension))
        length: Array = jnp.linalg.norm(normal, axis=-1, keepdims=True)
        return normal / length


@dataclass(frozen=True)
class Box(Continuum):
    """Vectors uniform in [0, 1]^dimension."""

    kind: ClassVar[str] = "box"

    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Skills drawn uniformly."""
        return jax.random.uniform(key, (rows, self.dimension))


@dataclass(frozen=True)
class SignedBox(Continuum):
    """Vectors m·u with u uniform in [0, 1]^dimension and one sign m for all entries, −1 with probability 1/3."""

    kind: ClassVar[str] = "signed-box"

    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Uniform draws, each with a sign of its own."""
        sign_key, box_key = jax.random.split(key)
        negative = jax.random.uniform(sign_key, (rows, 1)) < 1 / 3
        return jnp.where(negative, -1.0, 1.0) * jax.random.uniform(box_key, (rows, self.dimension))


@dataclass(frozen=True)
class NoSkill(SkillSpace):
    """For objectives without skills: one skill of width zero."""

    kind: ClassVar[str] = "none"

    @property
    def width(self) -> int:
        """Skills have no entries."""
        return 0

    @property
    def count(self) -> int:
        """One: the policy itself."""
        return 1

    def sample(self, key: RandomKey, rows: int) -> Float[Array, "n z"]:
        """Rows of width zero."""
        del key
        return jnp.zeros((rows, 0))

    def all(self) -> Float[Array, "k z"]:
        """One row of width zero."""
        return jnp.zeros((1, 0))


SkillKind = Literal["discrete", "sphere", "box", "signed-box", "none"]
"""What the spaces are called in a configuration."""


def skill_space(kind: SkillKind, width: int) -> SkillSpace:
    """The space of this kind and width."""
    if kind == "none":
        return NoSkill()
    spaces: dict[str, type[Discrete | Sphere | Box | SignedBox]] = {
        space.kind: space for space in (Discrete, Sphere, Box, SignedBox)
    }
    return spaces[kind](width)
