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


@dataclass(frozen=True)
class DreamerConfig:
    """All hyper-parameters, with the sizes and optimisers that follow from them."""

    encoder: Literal["convolutions", "patches"] = "convolutions"
    """Encoder and decoder of images; convolutions are for 64 by 64 pixels. Vectors have an MLP."""
    depth: Annotated[int, POSITIVE] = 48
    """Channels of the first convolution of the encoder."""
    patch: Annotated[int, POSITIVE] = 8
    """Side of an image patch in pixels, for the encoder of patches."""
    patch_width: Annotated[int, POSITIVE] = 32
    """Features of each image patch, for the encoder of patches."""
    embedding: Annotated[int, POSITIVE] = 256
    """Width of the embedding of patches and of vectors; that of convolutions is 32 times ``depth``."""
    standardise_frames: bool = False
    """Show the model how images differ from the mean image so far, in units of how much they do."""
    memory: Annotated[int, POSITIVE] = 200
    """Width of the deterministic recurrent state (deter)."""
    hidden: Annotated[int, POSITIVE] = 200
    """Width of the hidden layers inside the recurrent model."""
    groups: Annotated[int, POSITIVE] = 32
    """Categorical variables of the stochastic state (stoch)."""
    classes: Annotated[int, POSITIVE] = 32
    """Classes per categorical variable of the stochastic state."""
    units: Annotated[int, POSITIVE] = 400
    """Width of every hidden layer of the heads, actor and critic."""
    layers: Annotated[int, POSITIVE, MOST_LAYERS] = 4
    """Hidden layers of the heads, actor and critic."""
    skill_scale: Annotated[float, POSITIVE] = 1.0
    """What the skill is multiplied by where it enters actor and critic, beside features of hundreds of entries."""
    activation: Activation = "elu"
    """Activation of every network."""
    uniform_mix: Annotated[float, FRACTION] = 0.0
    """Share of every categorical that is spread evenly (DreamerV3: 0.01)."""

    divergence_scale: Annotated[float, NON_NEGATIVE] = 1.0
    """Weight of the KL divergence in the world model's loss (kl_scale)."""
    balance: Annotated[float, FRACTION] = 0.8
    """Share of the KL divergence that trains the prior (kl_balance)."""
    free_nats: Annotated[float, NON_NEGATIVE] = 1.0
    """Mean KL divergence below which neither prior nor posterior is pressed further."""
    predict_ends: bool = False
    """Learn where the task ends; without it every imagined trajectory goes on, which is right where tasks never end."""
    reward_shapes_model: bool = False
    """Whether the gradient of the task's reward reaches the recurrent state; on in fine-tuning."""

    batch_size: Annotated[int, POSITIVE] = 50
    """Sequences of a learning step."""
    sequence_length: Annotated[int, PAIRS] = 50
    """States of each replayed sequence."""
    imagined_starts: Annotated[int, NON_NEGATIVE] = 0
    """Replayed states to imagine from, drawn at each update; 0 takes all."""
    horizon: Annotated[int, TWO_STEPS] = 15
    """Imagined steps."""
    discount: Annotated[float, FRACTION] = 0.99
    """Discount factor γ."""
    trace_decay: Annotated[float, FRACTION] = 0.95
    """λ of the imagined returns."""
    entropy: Annotated[float, NON_NEGATIVE] = 0.0
    """Weight η of the policy's entropy."""
    restraint: Annotated[float, NON_NEGATIVE] = 0.0
    """Weight of ½ |x|² of the actor's outputs x before the tanh, which prevents saturation."""
    normalise: Literal["rewards", "returns", "none"] = "rewards"
    """Divide rewards by their running size, or the actor's returns by their running range (DreamerV3), or nothing."""
    reward_rate: Annotated[float, FRACTION] = 0.95
    """μ: how slowly the running size of rewards changes."""
    range_rate: Annotated[float, FRACTION] = 0.01
    """How fast the running range of returns changes."""
    centred: bool = False
    """Subtract a running mean from rewards where tasks do not end, which leaves the best policy the best.

    Otherwise values grow to 1 / (1 − γ) mean rewards, the same everywhere, and for thousands of updates that is what
    the critic learns, not where it is better. Naik et al., Reward Centering, 2024.
    """
    centre_rate: Annotated[float, FRACTION] = 0.99
    """How slowly the running mean of rewards changes."""
    critic: Literal["normal", "two-hot"] = "normal"
    """What the critic predicts: a mean, or a distribution over bins (DreamerV3)."""
    target_every: Annotated[int, POSITIVE] = 100
    """Updates between two copies of the critic into the target."""

    lent: Literal["memory", "memory and probabilities"] = "memory"
    """World-model features that objectives see of an imagined or replayed state."""
    standardise: bool = True
    """Give objectives features of mean zero and variance one over their entries: the same scale at any time."""
    reward_on: Literal["imagined", "replayed", "embedded"] = "imagined"
    """What objectives score: imagined states, or replayed observations, whose scores a head for all skills learns.

    Replayed images are scored as they are, and seen through convolutions that learn with the objective, or as the world
    model's embeddings of them. Vectors are scored as they are in both.
    """
    reward_gradient: bool = True
    """Whether the actor climbs the objective's reward itself; otherwise it learns of it by the critic alone."""
    scored: Literal["slice", "all"] = "slice"
    """Imagined states that are scored as one batch: those of one time, or all of them."""
    imagined_skills: Literal["fresh", "replayed"] = "fresh"
    """Imagine under skills drawn anew, or under those that acted; the latter in fine-tuning."""

    model_learning_rate: Annotated[float, POSITIVE] = 3e-4
    """Adam's step size for the world model."""
    learning_rate: Annotated[float, POSITIVE] = 8e-5
    """Adam's step size for actor and critic."""
    epsilon: Annotated[float, POSITIVE] = 1e-5
    """Adam's ε."""
    clip_norm: Annotated[float, POSITIVE] = 100.0
    """Largest global norm of a gradient."""
    decay: Annotated[float, FRACTION] = 1e-6
    """Weight decay: the share of every parameter that vanishes at each update."""

    update_every: Annotated[int, POSITIVE] = 5
    """Environment steps for each learning step."""
    warmup_steps: Annotated[int, NON_NEGATIVE] = 2_000
    """Environment steps at the start of pre-training, before learning begins."""
    policy_steps: Annotated[int, NON_NEGATIVE] = 2_000
    """Environment steps before learning of a task begins: by the pre-trained policy, or at random from scratch."""
    warmup_policy: bool = False
    """Whether the policy takes the steps before learning begins; on in fine-tuning. Otherwise they are random."""
    replay_capacity: Annotated[int, POSITIVE] = 1_000_000
    """Environment steps that the replay buffer holds."""

    @property
    def model_transform(self) -> optax.GradientTransformation:
        """The optimiser of the world model and of the reward head."""
        return self._adam(self.model_learning_rate)

    @property
    def transform(self) -> optax.GradientTransformation:
        """The optimiser of actor and critic."""
        return self._adam(self.learning_rate)

    def _adam(self, learning_rate: float) -> optax.GradientTransformation:
        return decaying_adam(learning_rate, epsilon=self.epsilon, clip_norm=self.clip_norm, decay=self.decay)

    @property
    def feature_width(self) -> int:
        """Entries of the feature that heads, actor and critic read."""
        return self.groups * self.classes + self.memory

    def embedding_width(self, env_spec: EnvSpec) -> int:
        """Entries of the embedding of an observation."""
        return 32 * self.depth if env_spec.is_image and self.encoder == "convolutions" else self.embedding
