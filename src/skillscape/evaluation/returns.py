"""Episodes of a policy in host environments: several in parallel, so that the policy acts on one batch."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree, Shaped

from skillscape.backbones.base import Backbone
from skillscape.envs.base import HostEnv
from skillscape.training.policy import compiled_act

SAMPLED_STATES = 50
"""States stored per episode, evenly spaced over the environment's horizon."""


class Recorded(NamedTuple):
    """One whole episode: its observations, the first included, and the actions between them."""

    obs: Shaped[np.ndarray, "t ..."]
    action: Float[np.ndarray, "s a"]


class Episodes(NamedTuple):
    """Returns and lengths of e episodes, a sample of the states each visited, and all positions of the body."""

    returns: Float[np.ndarray, " e"]
    lengths: Float[np.ndarray, " e"]
    states: list[Shaped[np.ndarray, "m ..."]]
    positions: list[Float[np.ndarray, "t p"]] | None
    """Of every state, the first included; None where the environment does not tell them."""
    recorded: tuple[Recorded, ...] = ()
    """The episodes that were asked for, whole."""


class EpisodeRunner:
    """Runs deterministic episodes of a policy, each with a fixed skill."""

    def __init__(self, envs: Sequence[HostEnv], backbone: Backbone[Any, Any], unread: int = 0) -> None:
        """``envs``: one environment per parallel episode; ``unread``: last entries that the policy does not read."""
        self._envs = list(envs)
        self._backbone = backbone
        self._unread = unread
        self._act = compiled_act(backbone, False)

    def run(
        self,
        params: PyTree,
        skills: Float[np.ndarray, "e z"],
        seeds: Sequence[int],
        on_step: Callable[[int, bool], None] = lambda _step, _done: None,
        *,
        record: Collection[int] = (),
    ) -> Episodes:
        """One episode for each row of ``skills`` and its seed, at most as many as there are environments.

        ``on_step``: called with (0, False) after the reset, and with (step, done) after every step of an environment.
        ``record``: the rows whose episodes are returned whole.
        """
        rows = len(skills)
        envs = self._envs[:rows]
        obs = np.stack([env.reset(seed) for env, seed in zip(envs, seeds, strict=True)])
        positions = [[] if (start := env.position) is None else [start] for env in envs]
        on_step(0, False)
        stride = max(1, self._envs[0].spec.horizon // SAMPLED_STATES)
        observed = {row: [np.array(obs[row])] for row in record}
        done: dict[int, list[Float[np.ndarray, " a"]]] = {row: [] for row in record}
        skill = jnp.asarray(skills)
        carry = self._backbone.initial_carry(rows)
        key = jax.random.key(0)
        returns, lengths, running = np.zeros(rows), np.zeros(rows), np.ones(rows, bool)
        states: list[list[Shaped[np.ndarray, "..."]]] = [[] for _ in range(rows)]
        while running.any():
            read = obs[:, : obs.shape[1] - self._unread] if self._unread else obs
            actions, carry = self._act(params, carry, read, skill, key)
            actions = np.asarray(actions)
            for row in np.flatnonzero(running).tolist():
                step = envs[row].step(actions[row])
                if positions[row] and (position := envs[row].position) is not None:
                    positions[row].append(position)
                obs[row] = step.obs
                returns[row] += step.reward
                lengths[row] += 1
                if row in observed:
                    observed[row].append(np.array(step.obs))
                    done[row].append(actions[row])
                running[row] = not (step.terminated or step.truncated)
                if lengths[row] % stride == 0 or not running[row]:
                    states[row].append(np.array(step.obs))
                on_step(int(lengths[row]), not running[row])
        located = [np.stack(path) for path in positions] if positions[0] else None
        recorded = tuple(Recorded(np.stack(observed[row]), np.stack(done[row])) for row in observed)
        return Episodes(returns, lengths, [np.stack(episode) for episode in states], located, recorded)

    def random_walk(self, seed: int) -> Recorded:
        """An episode with uniformly random actions, determined by its seed."""
        env, random = self._envs[0], np.random.default_rng(seed)
        observed, actions, running = [np.array(env.reset(seed))], [], True
        while running:
            actions.append(random.uniform(-1, 1, env.spec.action_dim).astype(np.float32))
            step = env.step(actions[-1])
            observed.append(np.array(step.obs))
            running = not (step.terminated or step.truncated)
        return Recorded(np.stack(observed), np.stack(actions))

    @property
    def size(self) -> int:
        """Number of environments."""
        return len(self._envs)

    def close(self) -> None:
        """Close the environments."""
        for env in self._envs:
            env.close()
