"""SD3's density deviation r_sd3, of discrete skills and of a continuum."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def deviation_reward(log_density: Float[Array, "n k"], skill: Float[Array, "n k"], weight: float) -> Float[Array, " n"]:
    """r_sd3 of Eq. 7, all in log space: log n + log λ + ℓ_z − logsumexpₖ(ℓₖ + [k = z] log λ).

    log_density: ℓ, the log density of each state under each skill; skill: one-hot rows; ``weight``: λ.
    At most log n; log(λn / (λ + n − 1)) where all densities tie; no lower bound.
    """
    number = log_density.shape[-1]
    weighted = log_density + skill * math.log(weight)
    return math.log(number) + jnp.sum(jax.nn.log_softmax(weighted, axis=-1) * skill, axis=-1)


def deviation_under_each(log_density: Float[Array, "n k"], weight: float) -> Float[Array, "n k"]:
    """``deviation_reward`` of every state under every skill."""
    skills = jnp.eye(log_density.shape[-1])
    return jax.vmap(lambda row: deviation_reward(jnp.broadcast_to(row, skills.shape), skills, weight))(log_density)


def posterior(deviation: Float[Array, "*n"], number: int) -> Float[Array, "*n"]:
    """p(z|s) = d_z / Σₖ dₖ from r_sd3 with λ = 1; of a continuum, that of the own share 1/n of the prior."""
    return jnp.exp(deviation) / number


def continuous_deviation_reward(
    own: Float[Array, " n"], others: Float[Array, "n k"], number: int, weight: float
) -> Float[Array, " n"]:
    """r_sd3 where skills are a continuum: log λ + ℓ_z − log(λ d_z / n + (1 − 1/n) meanₖ dₖ), dₖ of K draws from p(z).

    own: ℓ_z, the log density of each state under its skill; others: under each of the K draws; ``number``: n, so that
    1/n is the share of the prior that counts as the own skill; ``weight``: λ. With the n − 1 other skills of a discrete
    space in place of the draws it is ``deviation_reward``; like that it is at most log n.

    The draws stand inside a logarithm, so that a finite K biases the reward. The bias is bounded. Let λ = 1, p(s) the
    mean density, I_n = E log[d_z / (d_z / n + (1 − 1/n) p)], and E r the mean reward over draws too. By Jensen's
    inequality I_n ≤ E r, and E r falls as K grows: a mean over K draws is a mean over its subsets. At K = n − 1, E r is
    the InfoNCE bound with the true density ratio (van den Oord et al., 2018), which I(S;Z) bounds. So for K ≥ n − 1

        I(S;Z) − log(1 + χ²/n) ≤ I_n ≤ E r ≤ I(S;Z),    χ² = E[d_z(s) / p(s)] − 1,

    the first since I − I_n = E log(1 + (d_z / p − 1) / n). λ > 1 adds between 0 and log λ, as in Theorem 1.
    """
    mean = jax.nn.logsumexp(others, axis=-1) - math.log(others.shape[-1])
    near = own + math.log(weight / number)
    return own + math.log(weight) - jnp.logaddexp(near, mean + math.log1p(-1 / number))
