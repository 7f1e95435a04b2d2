"""Running moments, unit vectors, nearest neighbours, and balanced assignments."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Moments(NamedTuple):
    """Running mean and variance, and the number of rows so far. mean, variance: [...]; count: []."""

    mean: Float[Array, "*d"]
    variance: Float[Array, "*d"]
    count: Float[Array, ""]

    @staticmethod
    def create(shape: tuple[int, ...] = ()) -> "Moments":
        """Mean 0, variance 1, next to no weight."""
        return Moments(jnp.zeros(shape), jnp.ones(shape), jnp.asarray(1e-4, jnp.float32))

    def include(self, values: Float[Array, "rows ..."]) -> "Moments":
        """Fold in n rows (Chan et al.'s parallel update, unbiased batch variance; one row has none)."""
        size = jnp.asarray(values.shape[0], jnp.float32)
        delta = jnp.mean(values, axis=0) - self.mean
        total = self.count + size
        variance = jnp.var(values, axis=0, ddof=min(1, values.shape[0] - 1))
        spread = self.variance * self.count + variance * size + delta**2 * self.count * size / total
        return Moments(self.mean + delta * size / total, spread / total, total)

    def include_where(self, values: Float[Array, "*n"], where: Bool[Array, "*n"]) -> "Moments":
        """Fold in the values of a scalar that ``where`` marks, as ``include`` does; without any, nothing changes."""
        size = jnp.sum(where.astype(jnp.float32))
        mean = jnp.sum(values, where=where) / jnp.maximum(size, 1.0)
        squares = jnp.sum((jnp.where(where, values, mean) - mean) ** 2)
        delta = mean - self.mean
        total = self.count + size
        variance = squares / jnp.maximum(size - 1, 1.0)
        spread = self.variance * self.count + variance * size + delta**2 * self.count * size / total
        return Moments(self.mean + delta * size / total, spread / total, total)

    def normalise(self, values: Float[Array, "*n d"], clip: float = 5.0) -> Float[Array, "*n d"]:
        """(values − mean) / deviation with the variance floored at 0.01, clipped to ±clip."""
        shape = (1,) * (values.ndim - self.mean.ndim) + self.mean.shape
        std = jnp.sqrt(jnp.maximum(self.variance, 0.01))
        return jnp.clip((values - self.mean.reshape(shape)) / std.reshape(shape), -clip, clip)


def variance_share(term: Float[Array, " n"], total: Float[Array, " n"]) -> Float[Array, ""]:
    """Cov(term, total) / Var(total): the shares of all terms of a sum are one together."""
    return jnp.mean((term - jnp.mean(term)) * (total - jnp.mean(total))) / jnp.maximum(jnp.var(total), 1e-12)


def safe_sqrt(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """√x with gradient 0 at x = 0, where the true one is infinite: a point has a gradient to itself."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def unit_rows(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    """Each row divided by its length; a row of zeros stays zero."""
    return rows / jnp.sqrt(jnp.sum(rows**2, axis=-1, keepdims=True) + 1e-12)


def nearest_distances(
    queries: Float[Array, "n d"],
    references: Float[Array, "m d"],
    neighbours: int,
    chunk: int = 512,
    groups: tuple[Int[Array, " n"], Int[Array, " m"]] | None = None,
) -> Float[Array, "n k"]:
    """Euclidean distances from each query to its ``neighbours`` nearest references, ascending.

    With ``groups``, those of queries and of references, a query has neighbours in its own group only; the distances
    that it has too few of them for are infinite.

    Works through the queries in chunks, so memory is chunk × m, not n × m. Needs m ≥ ``neighbours``.
    """
    if references.shape[0] < neighbours:
        raise ValueError(f"{neighbours} neighbours asked of {references.shape[0]} references")
    rows = queries.shape[0]
    chunk = min(chunk, rows)
    padding = -rows % chunk
    padded = jnp.pad(queries, ((0, padding), (0, 0))).reshape(-1, chunk, queries.shape[1])
    middle = jnp.mean(references, axis=0, keepdims=True)
    centred = references - middle

    def one_chunk(block: Float[Array, "c d"], group: Int[Array, " c"] | None = None) -> Float[Array, "c k"]:
        # Which references are near is decided by the expanded square (one matmul), around their mean so that an offset
        # that all share costs no digits; the distances are then computed again by subtraction, since the expansion
        # loses all digits for near points.
        squares = jnp.sum(centred**2, axis=1)[None, :] - 2 * (block - middle) @ centred.T
        if group is not None and groups is not None:
            squares = jnp.where(group[:, None] == groups[1][None, :], squares, jnp.inf)
        _, index = jax.lax.top_k(-jax.lax.stop_gradient(squares), neighbours)
        nearest = safe_sqrt(jnp.sum((block[:, None, :] - references[index]) ** 2, axis=-1))
        if group is None or groups is None:
            return nearest
        return jnp.where(group[:, None] == groups[1][index], nearest, jnp.inf)

    if groups is None:
        chunks = jax.lax.map(one_chunk, padded)
    else:
        chunks = jax.lax.map(
            lambda part: one_chunk(*part), (padded, jnp.pad(groups[0], (0, padding)).reshape(-1, chunk))
        )
    distances = chunks.reshape(-1, neighbours)[:rows]
    return jnp.sort(distances, axis=-1)


def particle_entropy(
    queries: Float[Array, "n d"],
    references: Float[Array, "m d"],
    moments: Moments,
    neighbours: int,
    *,
    scale: Literal["none", "mean", "variance"] = "none",
    floor: float = 0.0,
    centred: bool = False,
) -> tuple[Moments, Float[Array, " n"]]:
    """log(1 + meanₖ max(dₖ / scale − floor, 0)) over the k nearest references, and the moments with these distances.

    moments: of all distances so far; ``scale`` is their mean, their variance, or one; with ``centred`` their mean is
    subtracted from dₖ first. A query that is among the references counts itself, at distance zero. Fewer references
    than ``neighbours`` are all taken.

    Reference: Liu and Abbeel, Behavior From the Void: Unsupervised Active Pre-Training, NeurIPS 2021.
    """
    distances = nearest_distances(queries, references, min(neighbours, references.shape[0]))
    moments = moments.include(jax.lax.stop_gradient(distances).reshape(-1))
    unit = {"none": jnp.ones(()), "mean": moments.mean, "variance": moments.variance}[scale]
    if centred:
        distances = distances - moments.mean
    # Identical states would otherwise drive the unit to zero and the result to 0/0.
    scaled = distances / jnp.maximum(unit, 1e-8)
    return moments, jnp.log1p(jnp.mean(jnp.maximum(scaled - floor, 0.0), axis=-1))


def sinkhorn(scores: Float[Array, "n k"], iterations: int = 3) -> Float[Array, "n k"]:
    """Soft assignments of n rows to k columns that fill every column about equally; each row sums to one.

    exp(scores), rescaled in turn to equal column sums and to equal row sums ``iterations`` times; in log space, so that
    no column whose scores are all low can underflow. Columns are only as even as that many turns make them; without
    any turn it is a softmax.

    Reference: Cuturi, Sinkhorn Distances, NeurIPS 2013; as used by Caron et al., Unsupervised Learning of Visual
    Features by Contrasting Cluster Assignments, NeurIPS 2020.
    """
    log_assignment = scores
    for _ in range(iterations):
        log_assignment = jax.nn.log_softmax(log_assignment, axis=0)
        log_assignment = jax.nn.log_softmax(log_assignment, axis=1)
    return jax.nn.softmax(log_assignment, axis=1)
