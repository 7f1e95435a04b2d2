"""Point mazes after Campos et al. (2020), as pure functions: walk through cells, slide along walls.

The state, and the observation, is the position. A step moves by ``max_step`` times the action; there is no inertia, and
an episode ends at the time limit only. The geometry comes from ``layouts``.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from skillscape.envs.base import JaxEnv, Timestep
from skillscape.envs.mazes.layouts import Cell, Layout, load_layout
from skillscape.types import EnvSpec, RandomKey

WALL_MARGIN = 1e-4
"""Smallest distance to a wall: far above float32 rounding in any maze, far below anything a policy could notice."""

MAX_BACK_OFF = 0.01
START_MARGIN = 0.05
TIE_BREAK = 1e-6
"""How much nearer a wall ahead counts, in cells, so that it wins the tie with an open edge at a corner."""


@final
@dataclass(frozen=True)
class Maze(JaxEnv):
    """A point that walks through the cells of ``layout``.

    ``back_off``: distance from a wall at which a point that hit it comes to rest; None samples it uniformly below
    0.01, the only randomness of a step. ``goal``: the cell with reward 1; None for no reward.
    """

    layout: Layout
    back_off: float | None = None
    goal: Cell | None = None

    @property
    def spec(self) -> EnvSpec:
        """Two coordinates, two action components, and the layout's horizon."""
        return EnvSpec(obs_shape=(2,), action_dim=2, horizon=self.layout.horizon)

    def reset(self, key: RandomKey) -> Float[Array, "2"]:
        """A uniform sample from the start cell, 0.05 away from its walls and up to the edge of its open sides.

        The reference rejects samples until a point 0.05 further out is free, which gives this range except where a
        wall ends in a corner of the cell.
        """
        low_walls, high_walls = self.layout.sides[tuple(np.subtract(self.layout.start, self.layout.origin))]
        low = np.subtract(self.layout.start, 0.5) + START_MARGIN * low_walls
        high = np.add(self.layout.start, 0.5) - START_MARGIN * high_walls
        return jax.random.uniform(key, (2,), minval=jnp.float32(low), maxval=jnp.float32(high))

    def reset_for_evaluation(self, key: RandomKey) -> Float[Array, "2"]:
        """The fixed start of plotted and measured trajectories."""
        del key
        return jnp.asarray(self.layout.evaluation_start, dtype=jnp.float32)

    def observe(self, state: Float[Array, "2"]) -> Float[Array, "2"]:
        """The position itself."""
        return state

    def position(self, state: Float[Array, "2"]) -> Float[Array, "2"]:
        """The state itself."""
        return state

    def with_position(self, obs: Float[Array, "2"], position: Float[Array, "2"]) -> Float[Array, "2"]:
        """The position."""
        del obs
        return position

    def step(
        self, state: Float[Array, "2"], action: Float[Array, "2"], key: RandomKey
    ) -> tuple[Float[Array, "2"], Timestep]:
        """Move by ``max_step`` times the action, clipped to [-1, 1]; r = 1 in the goal cell, else 0; no termination."""
        position = self.move(state, self.layout.max_step * jnp.clip(action, -1.0, 1.0), key)
        reward = jnp.float32(0) if self.goal is None else self._in_cell(position, self.goal)
        return position, Timestep(obs=position, reward=reward, terminated=jnp.float32(0))

    def _in_cell(self, position: Float[Array, "2"], cell: Cell) -> Float[Array, ""]:
        """1 in a cell, by the rule of ``Layout.cell_index``, and 0 elsewhere."""
        owner, _, _ = self._lookup(_slot(position))
        return jnp.all(owner == jnp.asarray(cell, jnp.float32)).astype(jnp.float32)

    def move(self, position: Float[Array, "2"], displacement: Float[Array, "2"], key: RandomKey) -> Float[Array, "2"]:
        """Walk a straight line, and slide along the walls in the way.

        At a wall the step loses its component into the wall, the point backs off a little, and the rest of the step
        continues along the wall. Of two edges met at once a wall comes before an opening and x before y, which closes
        the corners that a step of the reference slips through. The walk passes from cell to cell through open edges
        only and ends held inside the last one, so no rounding carries it through a wall; a displacement above 1 would
        be cut short there.
        """
        cell, low_wall, high_wall = self._lookup(_slot(position))

        forward = displacement > 0
        direction = jnp.where(forward, 1.0, -1.0)
        speed = jnp.abs(displacement)
        gap = 0.5 - direction * (position - cell)
        # A step of at most 1 meets one edge per axis, so two turns settle it, the nearer edge first.
        meets = gap <= speed
        blocked = jnp.where(forward, high_wall, low_wall) > 0
        x_delay, y_delay = (gap - jnp.where(blocked, TIE_BREAK, 0.0)) * speed[::-1]
        x_first = x_delay <= y_delay
        turn = jnp.stack([x_first, ~x_first])

        hit = meets & turn & blocked
        through = meets & turn & ~blocked
        cell, low_wall, high_wall = self._lookup(2 * (cell + jnp.where(through, direction, 0.0)))
        blocked = jnp.where(forward, high_wall, low_wall) > 0
        hit |= meets & ~turn & blocked
        through = meets & ~turn & ~blocked
        cell, low_wall, high_wall = self._lookup(2 * (cell + jnp.where(through, direction, 0.0)))

        rest = cell + direction * (0.5 - self._sample_back_off(key))
        low, high = cell - 0.5 + WALL_MARGIN * low_wall, cell + 0.5 - WALL_MARGIN * high_wall
        position = jnp.clip(jnp.where(hit, rest, position + displacement), low, high)
        # Four cells meet in a corner, where walls may end and a position does not tell which cell it came from.
        offset = position - cell
        near_corner = (jnp.abs(offset) > 0.5 - WALL_MARGIN).all()
        return position - jnp.where(near_corner, 2 * WALL_MARGIN, 0.0) * offset

    def _sample_back_off(self, key: RandomKey) -> Float[Array, "2"] | float:
        if self.back_off is not None:
            return self.back_off
        return jax.random.uniform(key, (2,), minval=WALL_MARGIN, maxval=MAX_BACK_OFF)

    def _lookup(self, slot: Float[Array, "2"]) -> tuple[Float[Array, "2"], Float[Array, "2"], Float[Array, "2"]]:
        """The cell that owns a slot, and 1 where its left and lower, or its right and upper, sides are walls."""
        lowest = 2 * self.layout.origin - 1
        column, row = (slot - lowest.astype(np.float32)).astype(jnp.int32)
        entry = jnp.asarray(self._table).at[column, row].get(mode="clip", wrap_negative_indices=False)
        return entry[:2], entry[2:4], entry[4:]

    @cached_property
    def _table(self) -> Float[np.ndarray, "columns rows 6"]:
        """The results of ``_lookup`` for every interior, edge and corner of the grid.

        Solid places are not states of the maze; they refer to a free cell nearby, so that even they lead back into it.
        """
        owners = self.layout.owners
        while (owners < 0).any():
            padded = np.pad(owners, 1, constant_values=-1)
            for neighbour in (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]):
                owners = np.where(owners < 0, neighbour, owners)
        cells = np.asarray(self.layout.cells)
        columns, rows = (cells - self.layout.origin).T
        entries = np.concatenate([cells, self.layout.sides[columns, rows].reshape(-1, 4)], axis=1)
        table: Float[np.ndarray, "columns rows 6"] = entries[owners].astype(np.float32)
        return table


def make_maze(name: str) -> Maze:
    """The maze of a built-in name or of the path of a ``.txt`` drawing, without a task."""
    return Maze(load_layout(name))


@partial(jax.jit, static_argnums=0)
def settle(maze: Maze, position: Float[Array, "2"], seed: Int[Array, ""]) -> Float[Array, "2"]:
    """A position moved off the walls, with the randomness of an episode's seed."""
    return maze.move(position, jnp.zeros(2), jax.random.key(seed))


def _slot(position: Float[Array, "2"]) -> Float[Array, "2"]:
    """Twice the position, with the interior of a cell collapsed to its centre: exact, also on half-integers."""
    nearest = jnp.round(position)
    return 2 * nearest + jnp.trunc(2 * (position - nearest))
