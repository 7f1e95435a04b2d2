"""The settings of Dreamer: world model, behaviour, what objectives see, and replay."""

from dataclasses import dataclass
from typing import Annotated, Literal

import optax

from skillscape.nets import Activation
from skillscape.optim import decaying_adam
from skillscape.ranges import FRACTION, NON_NEGATIVE, POSITIVE, Range
from skillscape.types import EnvSpec

MOST_LAYERS = Range("at most 100", high=100)
PAIRS = Range("at least 2 (objectives learn from pairs of neighbouring states)", 2)
TWO_STEPS = Range(
    "at least 2 (an action is judged by the return from the state it leads to, which takes one more step)", 2
)


class Optimized:
    """Mixin for settings with an optimiser, one for each of the networks that they are of."""

    learning_rate: float
    epsilon: float
    clip_norm: float
    weight_decay: float

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """The optimiser of a network."""
        return decaying_adam(
            self.learning_rate, epsilon=self.epsilon, clip_norm=self.clip_norm, decay=self.weight_decay
        )


@dataclass(frozen=True)
class WorldConfig(Optimized):
    """The world model: encoder, recurrent state-space model (RSSM), decoder, heads, loss and optimiser."""

    encoder: Literal["convolutions", "patches"] = "convolutions"
    """Image encoder and decoder: convolutions for 64 × 64 pixels, or linear layers on patches. States use an MLP."""
    depth: Annotated[int, POSITIVE] = 48
    """Channels of the encoder's first convolution; later ones have 2, 4 and 8 times as many (DreamerV2's cnn_depth)."""
    patch: Annotated[int, POSITIVE] = 8
    """Side of an image patch in pixels, for encoder=patches."""
    patch_width: Annotated[int, POSITIVE] = 32
    """Features computed per image patch, for encoder=patches."""
    embedding: Annotated[int, POSITIVE] = 256
    """Width of the observation embedding with patches and with states; with convolutions it is 32 times depth."""
    normalize_images: bool = False
    """Subtract the running mean image and divide by one running standard deviation before encoding."""
    deter: Annotated[int, POSITIVE] = 200
    """Width of the deterministic recurrent state h of the RSSM."""
    hidden: Annotated[int, POSITIVE] = 200
    """Width of the hidden layers inside the RSSM."""
    stoch: Annotated[int, POSITIVE] = 32
    """Categorical latents in the stochastic state z of the RSSM."""
    classes: Annotated[int, POSITIVE] = 32
    """Classes per categorical latent of the RSSM."""
    unimix: Annotated[float, FRACTION] = 0.0
    """Fraction of the uniform distribution mixed into every categorical latent (DreamerV3 uses 0.01)."""
    units: Annotated[int, POSITIVE] = 400
    """Width of the hidden layers of the world model's heads, and of the MLPs that encode and decode states."""
    layers: Annotated[int, POSITIVE, MOST_LAYERS] = 4
    """Hidden layers of each of the world model's heads (reward, continue)."""
    activation: Activation = "elu"
    """Activation function of the world model's networks."""
    kl_scale: Annotated[float, NON_NEGATIVE] = 1.0
    """Weight β of the KL divergence between posterior and prior in the world model's loss."""
    kl_balance: Annotated[float, FRACTION] = 0.8
    """Fraction α of the KL gradient that trains the prior; the rest regularises the posterior."""
    free_nats: Annotated[float, NON_NEGATIVE] = 1.0
    """Mean KL divergence in nats below which the KL loss has no gradient."""
    continue_head: bool = False
    """Predict whether the task continues; without it, imagined trajectories never terminate."""
    reward_head_gradient: bool = False
    """Let the gradient of the task-reward head train the RSSM; fine-tuning switches it on."""
    learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's learning rate for the world model and the intrinsic-reward head."""
    epsilon: Annotated[float, POSITIVE] = 1e-5
    """Adam's ε for the world model."""
    clip_norm: Annotated[float, POSITIVE] = 100.0
    """Largest global gradient norm of the world model; larger gradients are scaled down."""
    weight_decay: Annotated[float, FRACTION] = 1e-6
    """Fraction of each of the world model's parameters that decays per update."""

    @property
    def feature_width(self) -> int:
        """Entries of the feature [z, h] that heads, actor and critic read."""
        return self.stoch * self.classes + self.deter

    def embedding_width(self, env_spec: EnvSpec) -> int:
        """Entries of the embedding of an observation."""
        return 32 * self.depth if env_spec.is_image and self.encoder == "convolutions" else self.embedding


@dataclass(frozen=True)
class BehaviourConfig(Optimized):
    """Actor and critic, the imagined trajectories they learn from, and their optimisers."""

    units: Annotated[int, POSITIVE] = 400
    """Width of the hidden layers of actor, critic and controller."""
    layers: Annotated[int, POSITIVE, MOST_LAYERS] = 4
    """Hidden layers of actor, critic and controller."""
    activation: Activation = "elu"
    """Activation function of actor, critic and controller."""
    skill_scale: Annotated[float, POSITIVE] = 1.0
    """Factor on the skill vector at the input of actor and critic."""
    imagined_starts: Annotated[int, NON_NEGATIVE] = 0
    """Replayed states per update from which trajectories are imagined; 0 takes all of the batch."""
    horizon: Annotated[int, TWO_STEPS] = 15
    """Imagination horizon H in environment steps."""
    discount: Annotated[float, FRACTION] = 0.99
    """Discount factor γ of the imagined returns."""
    discount_lambda: Annotated[float, FRACTION] = 0.95
    """Mixing parameter λ of the imagined λ-returns."""
    entropy: Annotated[float, NON_NEGATIVE] = 0.0
    """Weight η of the policy's entropy in the actor loss."""
    actor_output_l2: Annotated[float, NON_NEGATIVE] = 0.0
    """L2 penalty on the actor's pre-tanh outputs x: weight of ½|x|²; prevents saturation."""
    normalize: Literal["rewards", "returns", "none"] = "rewards"
    """Divide rewards by their running magnitude, or returns by their running range (DreamerV3), or neither."""
    reward_norm_momentum: Annotated[float, FRACTION] = 0.95
    """Momentum μ of the running reward magnitude, for normalize=rewards; 1 never changes it."""
    return_norm_rate: Annotated[float, FRACTION] = 0.01
    """Update rate of the running return range, for normalize=returns; 0 never changes it."""
    center_rewards: bool = False
    """Subtract a running mean from rewards (Naik et al., Reward Centering, 2024); ignored with a continue head.

    Policy-invariant for tasks that never terminate. Without it, the critic first spends thousands of updates on the
    constant 1 / (1 − γ) mean reward.
    """
    center_momentum: Annotated[float, FRACTION] = 0.99
    """Momentum of the running reward mean, for center_rewards; 1 never changes it."""
    critic: Literal["normal", "two-hot"] = "normal"
    """Critic output: the mean of a normal, or a two-hot distribution over bins (DreamerV3)."""
    target_every: Annotated[int, POSITIVE] = 100
    """Updates between two copies of the critic into the target critic."""
    learning_rate: Annotated[float, POSITIVE] = 8e-5
    """Adam's learning rate for actor and critic."""
    epsilon: Annotated[float, POSITIVE] = 1e-5
    """Adam's ε for actor and critic."""
    clip_norm: Annotated[float, POSITIVE] = 100.0
    """Largest global gradient norm of actor and critic; larger gradients are scaled down."""
    weight_decay: Annotated[float, FRACTION] = 1e-6
    """Fraction of each of the actor's and critic's parameters that decays per update."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """What objectives see of the world model, and how their rewards reach the actor."""

    features: Literal["deter", "deter+stoch"] = "deter"
    """World-model features passed to the objective: h, or h with the class probabilities of z."""
    standardize: bool = True
    """Standardise each feature vector to mean zero and variance one over its entries before objectives see it."""
    reward_on: Literal["imagined", "replayed", "embedded"] = "imagined"
    """States that objectives score: imagined features, replayed observations, or embeddings of replayed images.

    A skill-conditioned reward head learns the scores of replayed states and rewards imagined ones. Replayed images pass
    through the objective's own CNN. Vectors are scored unchanged by ``replayed`` and by ``embedded``.
    """
    reward_gradient: bool = True
    """Backpropagate the objective's reward through imagined states to the actor; otherwise only the critic's value."""
    reward_batch: Literal["per_step", "all"] = "per_step"
    """Imagined states that the objective scores as one batch: those of one time step, or all of them."""
    imagined_skills: Literal["fresh", "replayed"] = "fresh"
    """Skills of imagined trajectories: sampled anew, or those that acted in the replay; the latter in fine-tuning."""


@dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer, what is sampled from it, and when learning begins."""

    batch_size: Annotated[int, POSITIVE] = 50
    """Replayed sequences in the batch of an update."""
    sequence_length: Annotated[int, PAIRS] = 50
    """Consecutive states in each replayed sequence."""
    update_every: Annotated[int, POSITIVE] = 5
    """Environment steps between two updates."""
    warmup_steps: Annotated[int, NON_NEGATIVE] = 2_000
    """Environment steps before the first update."""
    task_warmup_steps: Annotated[int, NON_NEGATIVE] = 2_000
    """Environment steps before the first update when a task is learned, in fine-tuning or from scratch."""
    warmup_policy: bool = False
    """Take the warm-up steps with the policy instead of uniformly random actions; fine-tuning switches it on."""
    capacity: Annotated[int, POSITIVE] = 1_000_000
    """Capacity of the replay buffer in environment steps."""


@dataclass(frozen=True)
class DreamerConfig:
    """All hyper-parameters of Dreamer in four groups."""

    world: WorldConfig = WorldConfig()
    """Settings of the world model."""
    behaviour: BehaviourConfig = BehaviourConfig()
    """Settings of actor, critic and imagination."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """Settings of what objectives see and how they reward."""
    replay: ReplayConfig = ReplayConfig()
    """Settings of the replay buffer and the update schedule."""
