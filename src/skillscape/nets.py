"""Networks. Each maps one example, batches are the caller's ``vmap``; every leaf is an array, so ``jax.jit`` works."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from skillscape.types import RandomKey


def uniform(key: RandomKey, shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    """Uniform in ±1/√fan_in. Needs no LAPACK call, so it is safe inside jit (see docs/performance.md)."""
    limit = 1 / math.sqrt(max(fan_in, 1))
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def orthogonal(key: RandomKey, rows: int, columns: int) -> Float[Array, "rows columns"]:
    """A matrix with orthonormal rows or columns, whichever are fewer.

    Never call it inside jit: LAPACK calls in a compiled program can lock up on two cores (docs/performance.md).
    """
    tall, narrow = max(rows, columns), min(rows, columns)
    basis, triangle = jnp.linalg.qr(jax.random.normal(key, (tall, narrow)))
    # The signs make the draw uniform over all such matrices.
    signed = basis * jnp.where(jnp.diagonal(triangle) < 0, -1.0, 1.0)[None, :]
    return signed if rows >= columns else signed.T


class Linear(eqx.Module):
    """x ↦ W x + b. weight: [out, in]; bias: [out]."""

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"]

    @staticmethod
    def create(key: RandomKey, inputs: int, outputs: int) -> "Linear":
        """Weights and biases uniform in ±1/√inputs."""
        weight_key, bias_key = jax.random.split(key)
        return Linear(uniform(weight_key, (outputs, inputs), inputs), uniform(bias_key, (outputs,), inputs))

    @staticmethod
    def orthogonal(key: RandomKey, inputs: int, outputs: int) -> "Linear":
        """Orthogonal weights of gain one, biases zero; outside jit only."""
        return Linear(orthogonal(key, outputs, inputs), jnp.zeros(outputs))

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        """W x + b."""
        # x first: under a vmap inside another, W first would leave its result transposed, at eight times the cost.
        return x @ self.weight.T + self.bias

    def target(self, y: Float[Array, " out"]) -> Float[Array, " t"]:
        """y in the form of ``squared_error``, shared by many x: y itself, or (Wᵀ(y − b), |y − b|²) if shorter."""
        if not self._is_wide:
            return y
        centred = y - self.bias
        return jnp.append(centred @ self.weight, centred @ centred)

    def squared_error(self, x: Float[Array, " in"], target: Float[Array, " t"]) -> Float[Array, ""]:
        """|y − W x − b|², from y's ``target``; where there are more outputs than inputs, without the outputs.

        Then it is |y − b|² − 2 x·Wᵀ(y − b) + x·WᵀW x, whose matrix is the same for all x.
        """
        if not self._is_wide:
            return jnp.sum((target - self(x)) ** 2)
        return target[-1] + x @ (x @ (self.weight.T @ self.weight) - 2 * target[:-1])

    @property
    def _is_wide(self) -> bool:
        outputs, inputs = self.weight.shape
        return outputs > inputs


class LayerNorm(eqx.Module):
    """x ↦ (x − mean) / √(variance + 10⁻⁵) · scale + shift, the moments being those of the one vector x."""

    scale: Float[Array, " d"]
    shift: Float[Array, " d"]

    @staticmethod
    def create(width: int) -> "LayerNorm":
        """Scale one, shift zero."""
        return LayerNorm(jnp.ones(width), jnp.zeros(width))

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """Normalise one vector."""
        centred = x - jnp.mean(x)
        return centred * jax.lax.rsqrt(jnp.mean(centred**2) + 1e-5) * self.scale + self.shift


Activation: TypeAlias = Literal["relu", "elu", "silu"]
ACTIVATIONS: dict[str, Callable[[Float[Array, "*n"]], Float[Array, "*n"]]] = {
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "silu": jax.nn.silu,
}


class MLP(eqx.Module):
    """Linear layers with ReLU, or another activation, between them, none after the last."""

    layers: tuple[Linear, ...]
    activation: Activation = eqx.field(static=True, default="relu")

    @staticmethod
    def create(
        key: RandomKey, inputs: int, hidden: Sequence[int], outputs: int, activation: Activation = "relu"
    ) -> "MLP":
        """One linear layer per entry of ``hidden`` and one for the output."""
        sizes = [inputs, *hidden, outputs]
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = pairwise(sizes)
        return MLP(tuple(Linear.create(k, i, o) for k, (i, o) in zip(keys, pairs, strict=True)), activation)

    def hidden(self, x: Float[Array, " in"]) -> Float[Array, " w"]:
        """What the last layer reads."""
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return x

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        """All layers in turn."""
        return self.layers[-1](self.hidden(x))


class GRU(eqx.Module):
    """A gated recurrent step with one linear map for all three gates and a layer norm on its output.

    (r, c, u) = norm(W [x, h] + b); new h = σ(u − 1) · tanh(σ(r) · c) + (1 − σ(u − 1)) · h: the reset gate acts after
    the linear map, and the −1 makes an untrained cell keep its state.

    Reference: Hafner et al., Mastering Atari with Discrete World Models, ICLR 2021.
    """

    gates: Linear
    norm: LayerNorm

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int) -> "GRU":
        """A state of ``width`` numbers."""
        return GRU(Linear.create(key, inputs + width, 3 * width), LayerNorm.create(3 * width))

    def __call__(self, x: Float[Array, " in"], state: Float[Array, " d"]) -> Float[Array, " d"]:
        """The next state."""
        reset, candidate, update = jnp.split(self.norm(self.gates(jnp.concatenate([x, state]))), 3)
        proposal = jnp.tanh(jax.nn.sigmoid(reset) * candidate)
        share = jax.nn.sigmoid(update - 1)
        return share * proposal + (1 - share) * state


class Conditional(eqx.Module):
    """A network of an input and a skill embedding, split in two so that the skill-free part is computed once per input.

    ``net.conditioned(net.shared(x), skill)`` is the network; scoring n skills is one ``shared`` and n ``conditioned``.
    """

    @abstractmethod
    def shared(self, x: Float[Array, " in"]) -> PyTree:
        """All that does not depend on the skill."""

    @abstractmethod
    def hidden(self, shared: PyTree, skill: Float[Array, " d"]) -> Float[Array, " w"]:
        """What the last layer reads. skill: [d], an embedding."""

    @property
    @abstractmethod
    def last(self) -> Linear:
        """The last layer."""

    def hidden_of_each(self, shared: PyTree, skills: Float[Array, "k d"]) -> Float[Array, "k w"]:
        """``hidden`` under each of k skills; a network may find work that all of them have in common."""
        return jax.vmap(self.hidden, (None, 0))(shared, skills)

    def conditioned(self, shared: PyTree, skill: Float[Array, " d"]) -> Float[Array, " out"]:
        """All that does. skill: [d], an embedding."""
        return self.last(self.hidden(shared, skill))

    def conditioned_on_each(self, shared: PyTree, skills: Float[Array, "k d"]) -> Float[Array, "k out"]:
        """``conditioned`` under each of k skills."""
        return jax.vmap(self.last)(self.hidden_of_each(shared, skills))


class ConditionalMLP(Conditional):
    """An MLP on (x, skill) whose first layer is W x + b + skill: the skill arrives embedded to the layer's width."""

    first: Linear
    rest: MLP

    @staticmethod
    def create(key: RandomKey, inputs: int, width: int, layers: int, outputs: int) -> "ConditionalMLP":
        """``layers`` hidden layers of ``width`` units."""
        first_key, rest_key = jax.random.split(key)
        hidden = [width] * (layers - 1)
        return ConditionalMLP(Linear.create(first_key, inputs, width), MLP.create(rest_key, width, hidden, outputs))

    def shared(self, x: Float[Array, " in"]) -> Float[Array, " d"]:
        """The input's share of the first layer, before its ReLU."""
        return self.first(x)

    def hidden(self, shared: Float[Array, " d"], skill: Float[Array, " d"]) -> Float[Array, " w"]:
        """Add the skill's share, then the remaining layers but the last."""
        return self.rest.hidden(jax.nn.relu(shared + skill))

    @property
    def last(self) -> Linear:
        """The last of the remaining layers."""
        return self.rest.layers[-1]


class SoftModular(Conditional):
    """L layers of m modules; a routing network on (input ⊙ skill) mixes the modules between layers (SD3 Eq. 4).

    With u = f₁(x) and the skill embedding v, the routing logits are p¹ = W⁰ ReLU(u ⊙ v) and
    pˡ⁺¹ = Wˡ ReLU(g(p̂ˡ) ⊙ (u ⊙ v)), where p̂ is p after a softmax over the *sending* modules (its rows sum to one).
    Module i of layer l+1 receives gᵢˡ⁺¹ = Σⱼ p̂ᵢⱼˡ ReLU(Wⱼˡ gⱼˡ + bⱼˡ). The last routing is a vector: it joins the
    m modules into the output.

    The first layer's modules all read ReLU(u), so together they are one skill-free product [m·w, d].

    Reference: Yang et al., Multi-Task Reinforcement Learning with Soft Modularization, NeurIPS 2020; SD3, section III.
    """

    embed: Linear
    """f₁: in → d. Its bias starts at one: where u = 0 the product u ⊙ v would hide the skill from the routing."""
    first: Linear
    """d → m·w, the modules of layer 1 side by side."""
    weights: Float[Array, "later m w w"]
    """Modules of layers 2 … L."""
    biases: Float[Array, "later m w"]
    routes: Float[Array, "later mm d"]
    """Wˡ for the matrices between layers."""
    route_biases: Float[Array, "later mm"]
    gates: Float[Array, "later d mm"]
    """g: the flattened previous routing → d."""
    gate_biases: Float[Array, "later d"]
    last_route: Linear
    """d → m, the routing that joins the last layer."""
    output: Linear
    temperature: float = eqx.field(static=True)
    """Temperature of the routing softmax; a low one amplifies small differences between skills."""

    @staticmethod
    def create(
        key: RandomKey,
        inputs: int,
        width: int,
        layers: int,
        modules: int,
        module_width: int,
        outputs: int,
        temperature: float,
    ) -> "SoftModular":
        """d = ``width``, L = ``layers``, m = ``modules``, w = ``module_width``."""
        keys = jax.random.split(key, 8)
        later, routing = layers - 1, modules * modules
        embed = Linear.create(keys[0], inputs, width)
        return SoftModular(
            embed=eqx.tree_at(lambda linear: linear.bias, embed, jnp.ones(width)),
            first=Linear.create(keys[1], width, modules * module_width),
            weights=uniform(keys[2], (later, modules, module_width, module_width), module_width),
            biases=uniform(keys[3], (later, modules, module_width), module_width),
            routes=uniform(keys[4], (later, routing, width), width),
            route_biases=jnp.zeros((later, routing)),
            gates=uniform(keys[5], (later, width, routing), routing),
            # g(p̂) ⊙ (u ⊙ v) starts near u ⊙ v: a gate near zero would hide the skill from all routings but the first.
            gate_biases=jnp.ones((later, width)),
            last_route=Linear.create(keys[6], width, modules),
            output=Linear.create(keys[7], module_width, outputs),
            temperature=temperature,
        )

    def shared(self, x: Float[Array, " in"]) -> tuple[Float[Array, " d"], Float[Array, "m w"]]:
        """u = f₁(x), and what the first layer's modules send: ReLU(Wⱼ¹ ReLU(u) + bⱼ¹)."""
        embedded = self.embed(x)
        sent = jax.nn.relu(self.first(jax.nn.relu(embedded)))
        return embedded, sent.reshape(self.last_route.bias.shape[0], -1)

    def routing(
        self, embedded: Float[Array, " d"], skill: Float[Array, " d"]
    ) -> tuple[list[Float[Array, "m m"]], Float[Array, " m"]]:
        """The normalised routings p̂ between the layers (receiving × sending modules) and the joining vector."""
        modules = self.last_route.bias.shape[0]
        joint = embedded * skill
        feature = joint
        between = []
        for layer in range(self.weights.shape[0]):
            logits = jax.nn.relu(feature) @ self.routes[layer].T + self.route_biases[layer]
            mixing = jax.nn.softmax(logits.reshape(modules, modules) / self.temperature, axis=-1)
            between.append(mixing)
            feature = joint * (mixing.reshape(-1) @ self.gates[layer].T + self.gate_biases[layer])
        return between, jax.nn.softmax(self.last_route(jax.nn.relu(feature)) / self.temperature)

    def hidden(
        self, shared: tuple[Float[Array, " d"], Float[Array, "m w"]], skill: Float[Array, " d"]
    ) -> Float[Array, " w"]:
        """Route, mix, apply the later layers, and join their modules."""
        embedded, first = shared
        between, joining = self.routing(embedded, skill)
        return self._joined(0, list(first), between, joining)

    def hidden_of_each(
        self, shared: tuple[Float[Array, " d"], Float[Array, "m w"]], skills: Float[Array, "k d"]
    ) -> Float[Array, "k w"]:
        """``hidden`` under each of k skills; with more skills than modules, layer 2 multiplies before it mixes.

        Wᵢ Σⱼ p̂ᵢⱼ sⱼ = Σⱼ p̂ᵢⱼ Wᵢ sⱼ, and what the first layer sends, s, does not depend on the skill: m² products for a
        state instead of m k.
        """
        embedded, first = shared
        modules, width = first.shape
        between, joining = jax.vmap(self.routing, (None, 0))(embedded, skills)
        if not between or skills.shape[0] <= modules:
            return jax.vmap(lambda *routing: self._joined(0, list(first), *routing))(between, joining)
        products = (first @ self.weights[0].reshape(modules * width, width).T).reshape(modules, modules, width)

        def under_one(between: list[Float[Array, "m m"]], joining: Float[Array, " m"]) -> Float[Array, " w"]:
            sent = [
                jax.nn.relu(_weighted(between[0][module], list(products[:, module])) + self.biases[0, module])
                for module in range(modules)
            ]
            return self._joined(1, sent, between, joining)

        return jax.vmap(under_one)(between, joining)

    def _joined(
        self,
        done: int,
        sent: list[Float[Array, " w"]],
        between: list[Float[Array, "m m"]],
        joining: Float[Array, " m"],
    ) -> Float[Array, " w"]:
        """The later layers from number ``done`` on, and their modules joined. sent: of each module, what it sends."""
        # One product per module: under vmap each is a large plain one, and the mixing melts into what feeds it. Batched
        # over modules, scoring 256 states under 16 skills took twice as long on a CPU.
        modules = range(len(sent))
        for layer in range(done, len(between)):
            received = [_weighted(between[layer][module], sent) for module in modules]
            sent = [
                jax.nn.relu(received[module] @ self.weights[layer, module].T + self.biases[layer, module])
                for module in modules
            ]
        return _weighted(joining, sent)

    @property
    def last(self) -> Linear:
        """The map from the joined modules to the output."""
        return self.output


def _weighted(shares: Float[Array, " m"], vectors: Sequence[Float[Array, " w"]]) -> Float[Array, " w"]:
    """Σⱼ shareⱼ vectorⱼ."""
    terms = [shares[index] * vector for index, vector in enumerate(vectors)]
    return sum(terms[1:], terms[0])
