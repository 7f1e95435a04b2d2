"""The networks of Dreamer: what an agent is made of at the start, what survives pre-training, and its controller."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from skillscape.backbones.controller import controlled, silenced
from skillscape.backbones.dreamer.config import BehaviourConfig, DreamerConfig, WorldConfig
from skillscape.backbones.dreamer.encoders import (
    SIDE,
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    Decoder,
    Encoder,
    PatchDecoder,
    PatchEncoder,
    VectorDecoder,
    VectorEncoder,
    patches,
)
from skillscape.backbones.dreamer.image_norm import ImageNorm
from skillscape.backbones.dreamer.imagination import BINS, Actor, Critic
from skillscape.backbones.dreamer.objective_interface import head_sizes
from skillscape.backbones.dreamer.world_model import RSSM, WorldModel
from skillscape.errors import UserError
from skillscape.nets import MLP
from skillscape.objectives.base import Objective
from skillscape.optim import TrainState
from skillscape.stats import Moments
from skillscape.types import EnvSpec, RandomKey


class DreamerAgent(NamedTuple):
    """The world model, actor and critic with their optimisers, and what else changes in learning."""

    world: TrainState[WorldModel]
    actor: TrainState[Actor]
    critic: TrainState[Critic]
    target: Critic
    """A copy of the critic as it was some updates ago."""
    reward_head: TrainState[MLP] | None
    """The skill-conditioned intrinsic-reward head, where replayed states are scored and not imagined ones."""
    image_norm: ImageNorm | None
    """Running moments of the images, where the model sees them normalised."""
    scale: Float[Array, ""]
    """Running magnitude of the rewards, or range of the returns."""
    reward_mean: Float[Array, ""]
    """Running mean of the rewards."""
    updates: Int[Array, ""]


def create(config: DreamerConfig, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DreamerAgent:
    """Fresh networks; the target is a copy of the critic."""
    skills, feature = objective.skills, config.world.feature_width
    keys = jax.random.split(key, 7)
    encoder, decoder = _observation_model(config.world, keys[0], env_spec)
    world = WorldModel(
        encoder=encoder,
        dynamics=RSSM.create(
            keys[1],
            actions=env_spec.action_dim,
            embedding=config.world.embedding_width(env_spec),
            deter=config.world.deter,
            hidden=config.world.hidden,
            stoch=config.world.stoch,
            classes=config.world.classes,
            unimix=config.world.unimix,
            activation=config.world.activation,
        ),
        decoder=decoder,
        reward=_head(config.world, keys[2], feature, 1),
        continue_head=_head(config.world, keys[3], feature, 1) if config.world.continue_head else None,
    )
    network = _head(config.behaviour, keys[4], feature + skills.width, 2 * env_spec.action_dim)
    actor = Actor(network, None, config.behaviour.skill_scale)
    successor = skills.width if objective.critic_head == "skill" else 0
    reward_head = None
    if config.objective.reward_on != "imagined":
        network = _head(config.world, keys[6], *head_sizes(feature, skills))
        reward_head = TrainState.create(config.world.optimizer, network)
    normalized = config.world.normalize_images and env_spec.is_image
    image_norm = ImageNorm(Moments.create(env_spec.obs_shape)) if normalized else None
    critic = create_critic(config.behaviour, keys[5], feature + skills.width, successor)
    return fresh_agent(config, world, actor, critic, reward_head, image_norm)


def adapted(config: DreamerConfig, agent: DreamerAgent, key: RandomKey, *, keep_critic: bool) -> DreamerAgent:
    """Keep the world model but for its heads, and the actor; fresh heads, critic (unless kept) and optimisers."""
    reward_key, continue_key, critic_key = jax.random.split(key, 3)
    old, critic = agent.world.params, agent.critic.params
    feature = config.world.feature_width
    world = WorldModel(
        encoder=old.encoder,
        dynamics=old.dynamics,
        decoder=old.decoder,
        reward=_head(config.world, reward_key, feature, 1),
        continue_head=_head(config.world, continue_key, feature, 1) if config.world.continue_head else None,
    )
    inputs = critic.network.layers[0].weight.shape[1]
    successor = critic.outputs if critic.kind == "successor" else 0
    fresh = critic if keep_critic else create_critic(config.behaviour, critic_key, inputs, successor)
    return fresh_agent(config, world, agent.actor.params, fresh, None, agent.image_norm)


def with_controller(config: DreamerConfig, agent: DreamerAgent, key: RandomKey, skills: int) -> DreamerAgent:
    """The agent with a fresh controller over its skills and a fresh optimiser of the actor."""
    network = _head(config.behaviour, key, config.world.feature_width, skills)
    actor = controlled(agent.actor.params, network)
    return agent._replace(actor=TrainState.create(config.behaviour.optimizer, actor))


def fresh_agent(
    config: DreamerConfig,
    world: WorldModel,
    actor: Actor,
    critic: Critic,
    reward_head: TrainState[MLP] | None,
    image_norm: ImageNorm | None,
) -> DreamerAgent:
    """An agent that has learned nothing with these networks yet."""
    return DreamerAgent(
        world=TrainState.create(config.world.optimizer, world),
        actor=TrainState.create(config.behaviour.optimizer, actor),
        critic=TrainState.create(config.behaviour.optimizer, critic),
        target=critic,
        reward_head=reward_head,
        image_norm=image_norm,
        scale=jnp.ones(()),
        reward_mean=jnp.zeros(()),
        updates=jnp.asarray(0, jnp.int32),
    )


def create_critic(config: BehaviourConfig, key: RandomKey, inputs: int, successor_width: int) -> Critic:
    """``successor_width``: of successor features, or 0 for a critic of one value."""
    if successor_width:
        if config.critic == "two-hot":
            raise UserError("Successor features are no single value; use --backbone.behaviour.critic normal.")
        return Critic(_head(config, key, inputs, successor_width), "successor", config.skill_scale)
    if config.critic == "normal":
        return Critic(_head(config, key, inputs, 1), "normal", config.skill_scale)
    return Critic(silenced(_head(config, key, inputs, BINS)), "two-hot", config.skill_scale)


def _head(config: WorldConfig | BehaviourConfig, key: RandomKey, inputs: int, outputs: int) -> MLP:
    return MLP.create(key, inputs, [config.units] * config.layers, outputs, config.activation)


def _observation_model(config: WorldConfig, key: RandomKey, env_spec: EnvSpec) -> tuple[Encoder, Decoder]:
    shape, feature, activation = env_spec.obs_shape, config.feature_width, config.activation
    encoder_key, decoder_key = jax.random.split(key)
    if not env_spec.is_image:
        hidden = [config.units] * 2
        return (
            VectorEncoder(MLP.create(encoder_key, shape[0], hidden, config.embedding, activation)),
            VectorDecoder(MLP.create(decoder_key, feature, hidden, shape[0], activation)),
        )
    if config.encoder == "patches":
        size, width = config.patch, config.patch_width
        patches(shape, size)
        return (
            PatchEncoder.create(encoder_key, shape, size, width, config.embedding, activation),
            PatchDecoder.create(decoder_key, feature, shape, size, width, activation),
        )
    if shape[:2] != (SIDE, SIDE):
        raise UserError(
            f"The convolutions are made for {SIDE} by {SIDE} pixels, not {shape[0]} by {shape[1]}; "
            "use --backbone.world.encoder patches."
        )
    return (
        ConvolutionalEncoder.create(encoder_key, shape[2], config.depth, activation),
        ConvolutionalDecoder.create(decoder_key, feature, shape[2], config.depth, activation),
    )
