"""Dreamer as the pixel version of the unsupervised RL benchmark runs it, with skills.

Hafner et al., Mastering Atari with Discrete World Models, ICLR 2021, with continuous actions; Rajeswar et al.,
Mastering the Unsupervised Reinforcement Learning Benchmark from Pixels, ICML 2023. Optional parts are from Hafner et
al., Mastering Diverse Domains through World Models, 2023. A skill enters actor and critic only.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree, Shaped

from skillscape.backbones.base import ReplayedBackbone
from skillscape.backbones.dreamer.frames import Frames, shown
from skillscape.backbones.dreamer.imagination import (
    BINS,
    Actor,
    Critic,
    Dream,
    cumulative_weights,
    imagine,
    lambda_returns,
    track_centre,
    track_magnitude,
    track_range,
)
from skillscape.backbones.dreamer.intrinsic import head_sizes, teach, told
from skillscape.backbones.dreamer.lending import Starts, pairs, replayed_starts, standardised
from skillscape.backbones.dreamer.observations import (
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
from skillscape.backbones.dreamer.world_model import RSSM, Latent, Understood, WorldModel, flat
from skillscape.dists import OneHot, TruncatedNormal
from skillscape.errors import UserError
from skillscape.nets import MLP, Activation
from skillscape.objectives.base import Objective
from skillscape.optim import Learner, decaying_adam, descend, learner
from skillscape.skills import SkillSpace
from skillscape.stats import Moments
from skillscape.types import EnvSpec, Experience, Metrics, RandomKey, Schedule, Sequences, Spec, View


class DreamerAgent(NamedTuple):
    """The world model, actor and critic with their optimisers, and what else changes in learning."""

    world: Learner[WorldModel]
    actor: Learner[Actor]
    critic: Learner[Critic]
    target: Critic
    """A copy of the critic as it was some updates ago."""
    intrinsic: Learner[MLP] | None
    """The skill-conditioned reward head, where replayed states are scored and not imagined ones."""
    frames: Frames | None
    """Running moments of the frames, where the model sees them standardised."""
    scale: Float[Array, ""]
    """Running size of the rewards, or range of the returns."""
    centre: Float[Array, ""]
    """Running mean of the rewards."""
    updates: Int[Array, ""]


class Policy(NamedTuple):
    """The part of an agent that acts."""

    frames: Frames | None
    encoder: Encoder
    dynamics: RSSM
    actor: Actor


class Belief(NamedTuple):
    """What acting carries: the memory after the newest action, and the steps since the episode began."""

    deter: Float[Array, "n d"]
    time: Int[Array, " n"]


@dataclass(frozen=True)
class Dreamer(ReplayedBackbone[DreamerAgent, Sequences]):
    """DreamerV2: discrete latents, KL balancing, and an actor that climbs the gradient of imagined returns."""

    view: ClassVar[View] = "sequences"
    name: ClassVar[str] = "dreamer"
    label: ClassVar[str] = "Dreamer"

    encoder: Literal["convolutions", "patches"] = "convolutions"
    """Of images; convolutions are for 64 by 64 pixels. Vectors have an MLP."""
    depth: int = 48
    """Channels of the first convolution."""
    patch: int = 8
    """Side of a patch."""
    patch_width: int = 32
    """Numbers kept of each patch."""
    embedding: int = 256
    """Of patches and of vectors; convolutions have 32 times ``depth``."""
    standardise_frames: bool = False
    """Show the model how images differ from the mean image so far, in units of how much they do."""
    memory: int = 200
    """Deterministic state."""
    hidden: int = 200
    """Layers inside the recurrent model."""
    groups: int = 32
    """Categorical variables of the stochastic state."""
    classes: int = 32
    """Of each of them."""
    units: int = 400
    """Of every layer of the heads, actor and critic."""
    layers: int = 4
    """Hidden layers of the heads, actor and critic."""
    skill_scale: float = 1.0
    """What the skill is multiplied by where it enters actor and critic, beside features of hundreds of entries."""
    activation: Activation = "elu"
    uniform_mix: float = 0.0
    """Share of every categorical that is spread evenly (DreamerV3: 0.01)."""

    divergence_scale: float = 1.0
    balance: float = 0.8
    """Share of the KL that trains the prior."""
    free_nats: float = 1.0
    """Below this mean KL neither side is pressed further."""
    predict_ends: bool = False
    """Learn where the task ends; without it every imagined trajectory goes on, which is right where tasks never end."""
    reward_shapes_model: bool = False
    """Whether the gradient of the task's reward reaches the recurrent state; on in fine-tuning."""

    batch_size: int = 50
    """Sequences."""
    sequence_length: int = 50
    imagined_starts: int = 0
    """Replayed states to imagine from, drawn at each update; 0 takes all."""
    horizon: int = 15
    """Imagined steps."""
    discount: float = 0.99
    """γ."""
    trace_decay: float = 0.95
    """λ of the returns."""
    entropy: float = 0.0
    """η: weight of the policy's entropy."""
    restraint: float = 0.0
    """Weight of ½ |x|² of the actor's outputs x: means far out on their tanh have no slope left to come back by."""
    normalise: Literal["rewards", "returns", "none"] = "rewards"
    """Divide rewards by their running size, or the actor's returns by their running range (DreamerV3), or nothing."""
    reward_rate: float = 0.95
    """μ: how slowly the running size of rewards changes."""
    range_rate: float = 0.01
    """How fast the running range of returns changes."""
    centred: bool = False
    """Take their running mean from the rewards where tasks do not end, which changes nothing that is worth doing.

    Otherwise values grow to 1 / (1 − γ) mean rewards, the same everywhere, and for thousands of updates that is what
    the critic learns, not where it is better. Naik et al., Reward Centering, 2024.
    """
    centre_rate: float = 0.99
    """How slowly that mean changes."""
    critic: Literal["normal", "two-hot"] = "normal"
    """What the critic predicts: a mean, or a distribution over bins (DreamerV3)."""
    target_every: int = 100
    """Updates between two copies of the critic into the target."""

    lent: Literal["memory", "memory and probabilities"] = "memory"
    """What objectives see of an imagined or replayed state."""
    standardise: bool = True
    """Lend it with mean zero and variance one over its entries, so that objectives meet the same scale at any time."""
    reward_on: Literal["imagined", "replayed", "embedded"] = "imagined"
    """What objectives score: imagined states, or replayed observations, whose scores a head for all skills learns.

    Replayed images are lent as they are, and seen through convolutions that learn with the objective, or as the world
    model's embeddings of them. Vectors are lent as they are in both.
    """
    reward_gradient: bool = True
    """Whether the actor climbs the objective's reward itself; otherwise it learns of it by the critic alone."""
    scored: Literal["slice", "all"] = "slice"
    """Imagined states that are scored as one batch: those of one time, or all of them."""
    imagined_skills: Literal["fresh", "replayed"] = "fresh"
    """Imagine under skills drawn anew, or under those that acted; the latter in fine-tuning."""

    model_learning_rate: float = 3e-4
    learning_rate: float = 8e-5
    """Of actor and critic."""
    epsilon: float = 1e-5
    """Adam's ε."""
    clip_norm: float = 100.0
    decay: float = 1e-6
    """Share of every parameter that vanishes at each update."""

    update_every: int = 5
    """Environment steps for each learning step."""
    random_steps: int = 2_000
    """Steps at the start that are not learned from yet."""
    policy_steps: int = 2_000
    """Likewise where a task is learned: by the pre-trained policy, or, so that both learn as often, from scratch."""
    policy_first: bool = False
    """Whether the policy takes these steps instead of chance; in such a fine-tuning."""
    replay_capacity: int = 1_000_000
    """Steps."""

    @property
    def schedule(self) -> Schedule:
        """When learning begins, how often, and from how much."""
        return Schedule(
            self.random_steps,
            self.update_every,
            self.batch_size,
            1,
            self.discount,
            self.replay_capacity,
            self.sequence_length,
            self.policy_first,
        )

    def for_task(self, *, pretrained: bool) -> "Dreamer":
        """A little entropy, plain rewards, whose gradient shapes the model; the skills that act are imagined too."""
        return replace(
            self,
            entropy=1e-4,
            normalise="none" if self.normalise == "rewards" else self.normalise,
            reward_shapes_model=True,
            reward_on="imagined",
            reward_gradient=True,
            imagined_skills="replayed",
            policy_first=pretrained,
            random_steps=self.policy_steps,
        )

    def _adam(self, learning_rate: float) -> optax.GradientTransformation:
        return decaying_adam(learning_rate, epsilon=self.epsilon, clip_norm=self.clip_norm, decay=self.decay)

    @property
    def _model_transform(self) -> optax.GradientTransformation:
        return self._adam(self.model_learning_rate)

    @property
    def _transform(self) -> optax.GradientTransformation:
        return self._adam(self.learning_rate)

    @property
    def _feature_width(self) -> int:
        return self.groups * self.classes + self.memory

    def _embedding_width(self, env_spec: EnvSpec) -> int:
        return 32 * self.depth if env_spec.is_image and self.encoder == "convolutions" else self.embedding

    def objective_spec(self, env_spec: EnvSpec) -> Spec:
        """The recurrent state; of replayed observations, they themselves or the embeddings of images."""
        if self.reward_on == "imagined":
            width = self.memory if self.lent == "memory" else self._feature_width
            return Spec((width,), env_spec.action_dim)
        embedded = env_spec.is_image and self.reward_on == "embedded"
        return Spec((self._embedding_width(env_spec),) if embedded else env_spec.obs_shape, env_spec.action_dim)

    # Networks

    def _head(self, key: RandomKey, inputs: int, outputs: int) -> MLP:
        return MLP.create(key, inputs, [self.units] * self.layers, outputs, self.activation)

    def _observation_model(self, key: RandomKey, env_spec: EnvSpec) -> tuple[Encoder, Decoder]:
        shape, feature = env_spec.obs_shape, self._feature_width
        encoder_key, decoder_key = jax.random.split(key)
        if not env_spec.is_image:
            hidden = [self.units] * 2
            return (
                VectorEncoder(MLP.create(encoder_key, shape[0], hidden, self.embedding, self.activation)),
                VectorDecoder(MLP.create(decoder_key, feature, hidden, shape[0], self.activation)),
            )
        if self.encoder == "patches":
            patches(shape, self.patch)
            return (
                PatchEncoder.create(encoder_key, shape, self.patch, self.patch_width, self.embedding, self.activation),
                PatchDecoder.create(decoder_key, feature, shape, self.patch, self.patch_width, self.activation),
            )
        if shape[:2] != (SIDE, SIDE):
            raise UserError(
                f"The convolutions are made for {SIDE} by {SIDE} pixels, not {shape[0]} by {shape[1]}; "
                "use --backbone.encoder patches."
            )
        return (
            ConvolutionalEncoder.create(encoder_key, shape[2], self.depth, self.activation),
            ConvolutionalDecoder.create(decoder_key, feature, shape[2], self.depth, self.activation),
        )

    def _critic(self, key: RandomKey, inputs: int, successor_width: int) -> Critic:
        """``successor_width``: of successor features, or 0 for a critic of one value."""
        if successor_width:
            if self.critic == "two-hot":
                raise UserError("Successor features are no single value; use --backbone.critic normal.")
            return Critic(self._head(key, inputs, successor_width), "successor", self.skill_scale)
        if self.critic == "normal":
            return Critic(self._head(key, inputs, 1), "normal", self.skill_scale)
        network = self._head(key, inputs, BINS)
        # A fresh critic says zero everywhere.
        silent = eqx.tree_at(
            lambda one: (one.layers[-1].weight, one.layers[-1].bias), network, replace_fn=jnp.zeros_like
        )
        return Critic(silent, "two-hot", self.skill_scale)

    def init(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DreamerAgent:
        """Fresh networks; the target is a copy of the critic."""
        if self.horizon < 2:
            raise UserError(f"--backbone.horizon must be at least 2, not {self.horizon}.")
        # One compiled program instead of a hundred small ones.
        created: DreamerAgent = jax.jit(lambda key: self._create(key, env_spec, objective))(key)
        return created

    def _create(self, key: RandomKey, env_spec: EnvSpec, objective: Objective[Any]) -> DreamerAgent:
        skills = objective.skills
        keys = jax.random.split(key, 7)
        encoder, decoder = self._observation_model(keys[0], env_spec)
        feature = self._feature_width
        world = WorldModel(
            encoder=encoder,
            dynamics=RSSM.create(
                keys[1],
                actions=env_spec.action_dim,
                embedding=self._embedding_width(env_spec),
                deter=self.memory,
                hidden=self.hidden,
                groups=self.groups,
                classes=self.classes,
                uniform_mix=self.uniform_mix,
                activation=self.activation,
            ),
            decoder=decoder,
            reward=self._head(keys[2], feature, 1),
            ends=self._head(keys[3], feature, 1) if self.predict_ends else None,
        )
        actor = Actor(self._head(keys[4], feature + skills.width, 2 * env_spec.action_dim), None, self.skill_scale)
        successor = skills.width if objective.critic_head == "skill" else 0
        intrinsic = None
        if self.reward_on != "imagined":
            width, outputs = head_sizes(feature, skills)
            intrinsic = learner(self._model_transform, self._head(keys[6], width, outputs))
        standardised = self.standardise_frames and env_spec.is_image
        frames = Frames(Moments.create(env_spec.obs_shape)) if standardised else None
        critic = self._critic(keys[5], feature + skills.width, successor)
        return self._fresh(world, actor, critic, intrinsic, frames)

    def _fresh(
        self, world: WorldModel, actor: Actor, critic: Critic, intrinsic: Learner[MLP] | None, frames: Frames | None
    ) -> DreamerAgent:
        """An agent that has learned nothing with these networks yet."""
        return DreamerAgent(
            world=learner(self._model_transform, world),
            actor=learner(self._transform, actor),
            critic=learner(self._transform, critic),
            target=critic,
            intrinsic=intrinsic,
            frames=frames,
            scale=jnp.ones(()),
            centre=jnp.zeros(()),
            updates=jnp.asarray(0, jnp.int32),
        )

    def adapt(self, agent: DreamerAgent, key: RandomKey, *, keep_critic: bool = False) -> DreamerAgent:
        """Keep the world model but for its heads, and the actor; fresh heads, critic (unless kept) and optimisers."""
        reward_key, ends_key, critic_key = jax.random.split(key, 3)
        old, critic = agent.world.params, agent.critic.params
        feature = self._feature_width
        world = WorldModel(
            encoder=old.encoder,
            dynamics=old.dynamics,
            decoder=old.decoder,
            reward=self._head(reward_key, feature, 1),
            ends=self._head(ends_key, feature, 1) if self.predict_ends else None,
        )
        inputs = critic.network.layers[0].weight.shape[1]
        successor = critic.outputs if critic.kind == "successor" else 0
        fresh = critic if keep_critic else self._critic(critic_key, inputs, successor)
        return self._fresh(world, agent.actor.params, fresh, None, agent.frames)

    def with_controller(self, agent: DreamerAgent, key: RandomKey, env_spec: EnvSpec, skills: int) -> DreamerAgent:
        """The agent with a fresh controller over its skills, at first indifferent between them."""
        del env_spec
        network = self._head(key, self._feature_width, skills)
        indifferent = eqx.tree_at(
            lambda one: (one.layers[-1].weight, one.layers[-1].bias), network, replace_fn=jnp.zeros_like
        )
        actor = Actor(agent.actor.params.network, indifferent, self.skill_scale)
        return agent._replace(actor=learner(self._transform, actor))

    # Acting

    def initial_carry(self, rows: int) -> Belief:
        """Nothing remembered."""
        return Belief(jnp.zeros((rows, self.memory)), jnp.zeros(rows, jnp.int32))

    def policy_params(self, agent: DreamerAgent) -> Policy:
        """Moments of frames, encoder, dynamics and actor."""
        world = agent.world.params
        return Policy(agent.frames, world.encoder, world.dynamics, agent.actor.params)

    def act(
        self,
        policy: Policy,
        carry: Belief,
        obs: Shaped[Array, "n ..."],
        skill: Float[Array, "n z"],
        key: RandomKey,
        explore: bool,
    ) -> tuple[Float[Array, "n a"], Belief]:
        """Update the belief by what is seen, draw a state from it, and act; the mean where ``explore`` is off.

        The state is drawn in either case, as in training; each step of an episode draws anew also from the same key.
        """
        dynamics, rows = policy.dynamics, skill.shape[0]
        actions = dynamics.enter.weight.shape[1] - self.groups * self.classes
        deter, sample = dynamics.nothing(rows)
        fresh = jax.vmap(dynamics.advance)(deter, sample, jnp.zeros((rows, actions)))
        deter = jnp.where(carry.time[:, None] == 0, fresh, carry.deter)
        shares = jax.vmap(dynamics.share)(jax.vmap(policy.encoder)(shown(policy.frames, obs)))
        logits = jax.vmap(dynamics.correct)(deter, shares)

        def draw(key: RandomKey, time: Int[Array, ""]) -> tuple[Float[Array, " s"], Float[Array, " a"]]:
            state_key, action_key = jax.random.split(jax.random.fold_in(key, time))
            return jax.random.uniform(state_key, (self.groups,)), jax.random.normal(action_key, (actions,))

        uniform, noise = jax.vmap(draw)(jax.random.split(key, rows), carry.time)
        state = Latent(deter, OneHot(logits).sample(uniform), logits)
        distribution = jax.vmap(policy.actor)(state.feature, skill)
        action = distribution.sample(noise) if explore else distribution.mean
        return action, Belief(jax.vmap(dynamics.advance)(deter, state.sample, action), carry.time + 1)

    def log_prob(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], skill: Float[Array, "t z"], action: Float[Array, "t a"]
    ) -> Float[Array, " t"]:
        """How likely the policy is to take these actions, one after the other, having seen what came before."""
        states = _understood(agent, obs, action)
        distribution: TruncatedNormal = jax.vmap(agent.actor.params)(states.feature[0], skill)
        return distribution.log_prob(action)

    def objective_obs(
        self, agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]
    ) -> Float[Array, "t x"]:
        """What imagined states are scored by: the model's memory of the states."""
        return self._lend(_understood(agent, obs, action))[0]

    def predict(self, agent: DreamerAgent, batch: Sequences, context: int) -> Float[Array, "b t ..."]:
        """Prepared observations as the world model understands the first ``context``, and expects the ones after."""
        known = batch._replace(obs=shown(agent.frames, batch.obs))
        expected = agent.world.params.predict(known, context, jax.random.key(0))
        return expected if agent.frames is None else agent.frames.restored(expected)

    # Learning

    def learn(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        batch: Sequences,
        key: RandomKey,
    ) -> tuple[DreamerAgent, PyTree, Metrics]:
        """World model → objective on replayed states → imagine with its skills → rewards → actor → critic."""
        world_key, model_key, head_key, start_key, dream_key = jax.random.split(key, 5)
        frames = None if agent.frames is None else agent.frames.include(batch.obs)
        world, (understood, metrics) = self._improve_world(agent.world, frames, batch, world_key)
        seen, feature = self._replayed(understood, batch)
        objective_state, model_metrics = _update(objective, objective_state, seen, model_key)
        metrics = {**metrics, **model_metrics}
        agent = agent._replace(world=world, frames=frames)
        if agent.intrinsic is not None:
            intrinsic, objective_state, head_metrics = teach(
                self._model_transform, agent.intrinsic, objective, objective_state, seen, feature, head_key
            )
            agent, metrics = agent._replace(intrinsic=intrinsic), {**metrics, **head_metrics}
        starts = self._starts(understood, batch, objective.skills, start_key)
        agent, objective_state, behaviour_metrics = self._improve_behaviour(
            agent, objective, objective_state, starts, dream_key
        )
        return agent, objective_state, {**metrics, **behaviour_metrics}

    def _improve_world(
        self, world: Learner[WorldModel], frames: Frames | None, batch: Sequences, key: RandomKey
    ) -> tuple[Learner[WorldModel], tuple[Understood, Metrics]]:
        def loss(world: WorldModel) -> tuple[Float[Array, ""], tuple[Understood, Metrics]]:
            return world.loss(
                batch._replace(obs=shown(frames, batch.obs)),
                key,
                unit=jnp.ones(()) if frames is None else frames.unit,
                divergence_scale=self.divergence_scale,
                balance=self.balance,
                free_nats=self.free_nats,
                reward_shapes_model=self.reward_shapes_model,
            )

        return descend(self._model_transform, loss, world)

    def _lend(self, states: Latent) -> Float[Array, "p q x"]:
        """What objectives see of states [p, q]."""
        whole = states.deter
        if self.lent == "memory and probabilities":
            whole = jnp.concatenate([whole, flat(OneHot(states.logits).probabilities)], axis=-1)
        return standardised(whole) if self.standardise else whole

    def _replayed(self, understood: Understood, batch: Sequences) -> tuple[Experience, Float[Array, "n f"]]:
        """Replayed pairs as objectives see them, and the model's feature of the later state of each."""
        if self.reward_on == "imagined":
            lent = self._lend(understood.posterior)
        elif self.reward_on == "embedded" and batch.obs.dtype == jnp.uint8:
            lent = standardised(understood.embedding) if self.standardise else understood.embedding
        else:
            lent = batch.obs
        return pairs(lent, understood.posterior.feature, batch)

    def _starts(self, understood: Understood, batch: Sequences, skills: SkillSpace, key: RandomKey) -> Starts:
        """Replayed states to imagine from, each with a skill of its own."""
        start_key, skill_key = jax.random.split(key)
        lent = self._lend(understood.posterior)
        starts = replayed_starts(understood.posterior, lent, batch, self.imagined_starts, start_key)
        if self.imagined_skills == "replayed":
            return starts
        return starts._replace(skill=skills.sample(skill_key, starts.skill.shape[0]))

    def _improve_behaviour(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        starts: Starts,
        key: RandomKey,
    ) -> tuple[DreamerAgent, PyTree, Metrics]:
        """One step of the actor up the imagined returns, one of the critic towards them."""
        world, target = agent.world.params, agent.target
        dream_key, reward_key = jax.random.split(key)
        skill = starts.skill

        def actor_loss(actor: Actor) -> tuple[Float[Array, ""], tuple[Any, ...]]:
            dream = imagine(world.dynamics, actor, starts.state, skill, self.horizon, dream_key)
            feature = dream.states.feature
            state, reward, metrics = self._reward(agent, objective, objective_state, starts, dream, feature, reward_key)
            scale, centre = agent.scale, agent.centre
            scaled = reward
            if self.centred and world.ends is None:
                centre = track_centre(centre, reward[1:], agent.updates, self.centre_rate)
                scaled = reward - centre
            if self.normalise == "rewards":
                scale = track_magnitude(scale, reward[1:], self.reward_rate)
                scaled = scaled / (scale + 1e-8)
            discount = self.discount * world.going_on(feature)
            value = target.values(feature, skill)
            returns = lambda_returns(scaled, value, discount, self.trace_decay)
            weight = cumulative_weights(discount)
            gain = returns[1:]
            if self.normalise == "returns":
                scale = track_range(scale, returns, self.range_rate)
                gain = gain / jnp.maximum(scale, 1.0)
            entropy = dream.entropy[:-1]
            strain = dream.strain[:-1]
            loss = -jnp.mean(weight[:-2] * (gain + self.entropy * entropy - self.restraint * strain))
            metrics = {
                **metrics,
                "actor_loss": loss,
                "entropy": jnp.mean(entropy),
                "strain": jnp.mean(strain),
                "reward": jnp.mean(reward[1:]),
                "imagined_return": jnp.mean(returns),
                "value": jnp.mean(value),
                "scale": scale,
                "centre": centre,
            }
            return loss, (feature, returns, weight, scale, centre, state, metrics)

        actor, (feature, returns, weight, scale, centre, objective_state, metrics) = descend(
            self._transform, actor_loss, agent.actor
        )
        # The reward of arriving at a start is not known where nothing came before it.
        weight = jnp.concatenate([weight[:1] * starts.known[None], weight[1:-1]])

        def critic_loss(critic: Critic) -> tuple[Float[Array, ""], Metrics]:
            misfit = jnp.mean(weight * critic.misfit(feature[:-1], skill, returns))
            return misfit, {"critic_loss": misfit}

        critic, critic_metrics = descend(self._transform, critic_loss, agent.critic)
        updates = agent.updates + 1
        renewed = updates % self.target_every == 0
        target = jax.tree.map(lambda old, new: jnp.where(renewed, new, old), target, critic.params)
        agent = agent._replace(actor=actor, critic=critic, target=target, scale=scale, centre=centre, updates=updates)
        return agent, objective_state, {**metrics, **critic_metrics}

    def _reward(
        self,
        agent: DreamerAgent,
        objective: Objective[Any],
        objective_state: PyTree,
        starts: Starts,
        dream: Dream,
        feature: Float[Array, "h1 n f"],
        key: RandomKey,
    ) -> tuple[PyTree, Float[Array, "h1 n"], Metrics]:
        """The reward of arriving in every imagined state, the start included."""
        if agent.intrinsic is not None:
            return objective_state, told(agent.intrinsic.params, feature, starts.skill, objective.skills), {}
        held = jax.lax.stop_gradient
        lent = self._lend(dream.states)
        if not self.reward_gradient:
            lent = held(lent)
        times = lent.shape[0]
        rows = Experience(
            obs=jnp.concatenate([starts.before[None], lent[:-1]]),
            action=held(jnp.concatenate([starts.action[None], dream.action])),
            next_obs=lent,
            skill=jnp.broadcast_to(starts.skill[None], (times, *starts.skill.shape)),
            reward=agent.world.params.expected_reward(feature),
        )
        if self.scored == "all":
            together = Experience(*(part.reshape(times * part.shape[1], *part.shape[2:]) for part in rows))
            state, reward, metrics = objective.reward(objective_state, together, key)
            return state, reward.reshape(times, -1), metrics

        def step(state: PyTree, now: tuple[Experience, RandomKey]) -> tuple[PyTree, tuple[Float[Array, " n"], Metrics]]:
            state, reward, metrics = objective.reward(state, *now)
            return state, (reward, metrics)

        state, (reward, metrics) = jax.lax.scan(step, objective_state, (rows, jax.random.split(key, times)))
        return state, reward, jax.tree.map(jnp.mean, metrics)


def _understood(agent: DreamerAgent, obs: Shaped[Array, "t ..."], action: Float[Array, "t a"]) -> Latent:
    """Posterior states [1, t] of an episode from its start; ``action``: taken in each state."""
    before = jnp.concatenate([jnp.zeros_like(action[:1]), action[:-1]])
    first = jnp.zeros(action.shape[:1]).at[0].set(1.0)
    world = agent.world.params
    embedding = world.embed(shown(agent.frames, obs))
    states, _ = world.dynamics.observe(embedding[None], before[None], first[None], jax.random.key(0))
    return states


def _update(objective: Objective[Any], state: PyTree, seen: Experience, key: RandomKey) -> tuple[PyTree, Metrics]:
    """The objective's own learning steps, however many it takes."""

    def step(state: PyTree, key: RandomKey) -> tuple[PyTree, Metrics]:
        return objective.update(state, seen, key)

    state, metrics = jax.lax.scan(step, state, jax.random.split(key, objective.updates_per_step))
    return state, jax.tree.map(lambda values: values[-1], metrics)
