"""The world model: a recurrent state-space model with discrete latents, an observation model and a reward model.

Hafner et al., Mastering Atari with Discrete World Models, ICLR 2021. Skills do not enter it: what the world does is the
same whoever acts.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from skillscape.backbones.dreamer.config import WorldConfig
from skillscape.backbones.dreamer.encoders import Decoder, Encoder
from skillscape.dists import OneHot
from skillscape.nets import ACTIVATIONS, GRU, MLP, Activation, Linear
from skillscape.types import Metrics, RandomKey, Sequences


class Latent(NamedTuple):
    """A state of the model. deter: [..., d], h, recurrent; stoch: [..., s, c], z, one-hot, drawn with ``logits``."""

    deter: Float[Array, "*n d"]
    stoch: Float[Array, "*n s c"]
    logits: Float[Array, "*n s c"]

    @property
    def feature(self) -> Float[Array, "*n f"]:
        """Stochastic and deterministic state side by side: what heads, actor and critic read."""
        return jnp.concatenate([flat(self.stoch), self.deter], axis=-1)


def flat(group: Float[Array, "*n s c"]) -> Float[Array, "*n sc"]:
    """The last two axes as one."""
    return group.reshape(*group.shape[:-2], -1)


class RSSM(eqx.Module):
    """h' = GRU(h, act(W [z, a])); prior p(z'|h'); posterior q(z'|h', embedding). Methods map one example."""

    input: Linear
    cell: GRU
    prior: MLP
    posterior: Linear
    """Reads (h, embedding) side by side."""
    posterior_logits: Linear
    stoch: int = eqx.field(static=True)
    unimix: float = eqx.field(static=True)
    activation: Activation = eqx.field(static=True)

    @staticmethod
    def create(
        key: RandomKey,
        *,
        actions: int,
        embedding: int,
        deter: int,
        hidden: int,
        stoch: int,
        classes: int,
        unimix: float,
        activation: Activation,
    ) -> "RSSM":
        """``stoch`` categorical latents of ``classes`` each."""
        keys = jax.random.split(key, 5)
        latents = stoch * classes
        return RSSM(
            input=Linear.create(keys[0], latents + actions, hidden),
            cell=GRU.create(keys[1], hidden, deter),
            prior=MLP.create(keys[2], deter, (hidden,), latents, activation),
            posterior=Linear.create(keys[3], deter + embedding, hidden),
            posterior_logits=Linear.create(keys[4], hidden, latents),
            stoch=stoch,
            unimix=unimix,
            activation=activation,
        )

    @property
    def width(self) -> int:
        """Entries of the deterministic state h."""
        return self.prior.layers[0].weight.shape[1]

    def initial(self, rows: int) -> tuple[Float[Array, "n d"], Float[Array, "n s c"]]:
        """Deterministic and stochastic state before anything was seen: zeros."""
        classes = self.posterior_logits.bias.shape[0] // self.stoch
        return jnp.zeros((rows, self.width)), jnp.zeros((rows, self.stoch, classes))

    def transition(
        self, deter: Float[Array, " d"], stoch: Float[Array, "s c"], action: Float[Array, " a"]
    ) -> Float[Array, " d"]:
        """The deterministic state after an action."""
        inputs = self.input(jnp.concatenate([stoch.reshape(-1), action]))
        return self.cell(ACTIVATIONS[self.activation](inputs), deter)

    def infer_prior(self, deter: Float[Array, " d"]) -> Float[Array, "s c"]:
        """Logits of the prior."""
        return self._grouped(self.prior(deter))

    def project_embedding(self, embedding: Float[Array, " e"]) -> Float[Array, " u"]:
        """The embedding's part of the posterior's first layer: it needs no state, so all times are computed at once."""
        return self.posterior.weight[:, self.width :] @ embedding + self.posterior.bias

    def infer_posterior(self, deter: Float[Array, " d"], projected: Float[Array, " u"]) -> Float[Array, "s c"]:
        """Logits of the posterior, from the deterministic state and the projected embedding."""
        hidden = ACTIVATIONS[self.activation](self.posterior.weight[:, : self.width] @ deter + projected)
        return self._grouped(self.posterior_logits(hidden))

    def _grouped(self, logits: Float[Array, " sc"]) -> Float[Array, "s c"]:
        return OneHot.mixed(logits.reshape(self.stoch, -1), self.unimix).logits

    def observe(
        self,
        embedding: Float[Array, "b t e"],
        action: Float[Array, "b t a"],
        first: Float[Array, "b t"],
        key: RandomKey,
    ) -> tuple[Latent, Float[Array, "b t s c"]]:
        """Posterior states along b sequences, and the prior's logits at each; they begin anew where ``first``."""
        rows, times = first.shape
        projected = jax.vmap(jax.vmap(self.project_embedding))(embedding)
        uniform = jax.random.uniform(key, (times, rows, self.stoch))

        def step(
            before: tuple[Float[Array, "b d"], Float[Array, "b s c"]],
            now: tuple[Float[Array, "b u"], Float[Array, "b a"], Float[Array, " b"], Float[Array, "b s"]],
        ) -> tuple[tuple[Float[Array, "b d"], Float[Array, "b s c"]], Latent]:
            projected, action, first, uniform = now
            kept = 1 - first[:, None]
            deter, stoch = before[0] * kept, before[1] * kept[:, :, None]
            deter = jax.vmap(self.transition)(deter, stoch, action * kept)
            logits = jax.vmap(self.infer_posterior)(deter, projected)
            stoch = OneHot(logits).sample(uniform)
            return (deter, stoch), Latent(deter, stoch, logits)

        by_time = (_swapped(projected), _swapped(action), first.T, uniform)
        _, states = jax.lax.scan(step, self.initial(rows), by_time)
        states = Latent(*(_swapped(part) for part in states))
        return states, jax.vmap(jax.vmap(self.infer_prior))(states.deter)

    def imagine_step(self, state: Latent, action: Float[Array, "n a"], uniform: Float[Array, "n s"]) -> Latent:
        """Where n states go by n actions, as the prior has it."""
        deter = jax.vmap(self.transition)(state.deter, state.stoch, action)
        logits = jax.vmap(self.infer_prior)(deter)
        return Latent(deter, OneHot(logits).sample(uniform), logits)


def _swapped(x: Shaped[Array, "p q ..."]) -> Shaped[Array, "q p ..."]:
    return jnp.swapaxes(x, 0, 1)


def _as_rows(x: Shaped[Array, "p q ..."]) -> Shaped[Array, "n ..."]:
    return x.reshape(-1, *x.shape[2:])


def balanced_kl(
    posterior: Float[Array, "*n s c"], prior: Float[Array, "*n s c"], balance: float, free_nats: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """α KL(sg(q)‖p) + (1 − α) KL(q‖sg(p)), each mean over the batch not pressed below ``free_nats``; and the mean KL.

    posterior, prior: logits. α: ``balance``. With α above a half the prior learns faster than the posterior gives way.
    """
    held = jax.lax.stop_gradient
    to_prior = jnp.mean(OneHot(held(posterior)).kl(OneHot(prior)))
    to_posterior = jnp.mean(OneHot(posterior).kl(OneHot(held(prior))))
    value = balance * jnp.maximum(to_prior, free_nats) + (1 - balance) * jnp.maximum(to_posterior, free_nats)
    return value, to_prior


class Posterior(NamedTuple):
    """What the world model infers from a batch of sequences: posterior states, and the embeddings behind them."""

    states: Latent
    embedding: Float[Array, "b t e"]


class WorldModel(eqx.Module):
    """Encoder, dynamics, decoder, and heads for the task's reward and (optionally) for its continuation.

    Observations are preprocessed here: vectors, or images of floats (see ``image_norm.normalize_obs``).
    """

    encoder: Encoder
    dynamics: RSSM
    decoder: Decoder
    reward: MLP
    continue_head: MLP | None
    """Its output is the logit of termination: p(continue) = σ(−x)."""

    def embed(self, obs: Float[Array, "b ..."]) -> Float[Array, "b e"]:
        """Embeddings of a batch of observations."""
        return self.encoder.of_each(obs)

    def infer(self, batch: Sequences, key: RandomKey) -> tuple[Posterior, Float[Array, "b t s c"]]:
        """Posterior states of a batch, and the prior's logits."""
        embedding = self.embed(_as_rows(batch.obs)).reshape(*batch.first.shape, -1)
        states, prior = self.dynamics.observe(embedding, batch.action, batch.first, key)
        return Posterior(states, embedding), prior

    def loss(
        self,
        batch: Sequences,
        key: RandomKey,
        *,
        unit: Float[Array, ""],
        config: WorldConfig,
    ) -> tuple[Float[Array, ""], tuple[Posterior, Metrics]]:
        """−log p(obs) − log p(reward) + KL, all of unit variance, constants left out; means over batch and time.

        ``unit``: what one of an observation is worth, in numbers of unit variance.
        """
        posterior, prior = self.infer(batch, key)
        feature = posterior.states.feature
        errors = self.decoder.squared_errors(_as_rows(feature), _as_rows(batch.obs))
        image = 0.5 * unit**2 * jnp.mean(errors)
        read = feature if config.reward_head_gradient else jax.lax.stop_gradient(feature)
        reward = 0.5 * jnp.mean((self.expected_reward(read) - batch.reward) ** 2)
        divergence, nats = balanced_kl(posterior.states.logits, prior, config.kl_balance, config.free_nats)
        value = image + reward + config.kl_scale * divergence
        metrics = {"observation_loss": image, "task_reward_loss": reward, "world_divergence": nats}
        if self.continue_head is not None:
            logits = jax.vmap(jax.vmap(self.continue_head))(feature)[:, :, 0]
            error = jnp.mean(jax.nn.softplus(logits) - (1 - batch.discount) * logits)
            value, metrics = value + error, {**metrics, "continue_loss": error}
        entropy = -jnp.sum(jax.nn.softmax(prior) * jax.nn.log_softmax(prior), axis=(-2, -1))
        metrics = {**metrics, "world_loss": value, "prior_entropy": jnp.mean(entropy)}
        return value, (jax.lax.stop_gradient(posterior), metrics)

    def expected_reward(self, feature: Float[Array, "p q f"]) -> Float[Array, "p q"]:
        """The task's reward on arriving in each state."""
        return jax.vmap(jax.vmap(self.reward))(feature)[:, :, 0]

    def continue_prob(self, feature: Float[Array, "p q f"]) -> Float[Array, "p q"]:
        """The probability that the task does not end in each state; one where no head says otherwise."""
        if self.continue_head is None:
            return jnp.ones(feature.shape[:2])
        return jax.nn.sigmoid(-jax.vmap(jax.vmap(self.continue_head))(feature)[:, :, 0])

    def predict(self, batch: Sequences, context: int, key: RandomKey) -> Float[Array, "b t ..."]:
        """Means of observations: the first ``context`` by the posterior, then by the prior, from actions alone."""
        observe_key, imagine_key = jax.random.split(key)
        known = Sequences(*(part[:, :context] for part in batch))
        posterior, _ = self.infer(known, observe_key)
        decode = jax.vmap(jax.vmap(self.decoder))
        if context == batch.action.shape[1]:
            return decode(posterior.states.feature)
        last = Latent(*(part[:, -1] for part in posterior.states))
        actions = _swapped(batch.action[:, context:])
        uniform = jax.random.uniform(imagine_key, (*actions.shape[:2], self.dynamics.stoch))

        def step(state: Latent, now: tuple[Float[Array, "b a"], Float[Array, "b s"]]) -> tuple[Latent, Latent]:
            state = self.dynamics.imagine_step(state, *now)
            return state, state

        _, states = jax.lax.scan(step, last, (actions, uniform))
        return decode(jnp.concatenate([posterior.states.feature, _swapped(states.feature)], axis=1))
