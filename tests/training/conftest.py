"""What tests of training share."""

import threading
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from counting import Compass, Counter, contents, iterate, maze_config, measure, train

from skillscape import backbones
from skillscape.replay import Replay
from skillscape.training import host_collector, trainer
from skillscape.training import run as run_module
from skillscape.training.callbacks import Callback
from skillscape.training.run import Run
from skillscape.training.trainer import stop_requested


@pytest.fixture
def _counting(monkeypatch):
    """The learners that count are known."""
    known = {**backbones.registry(), Counter.name: Counter, Compass.name: Compass}
    monkeypatch.setattr(backbones.registry, "_kinds", known)


@pytest.fixture
def _toy_loop(_counting, monkeypatch):
    """On the host a row is due every twenty steps."""
    monkeypatch.setattr(host_collector, "LOG_EVERY", 20)


@pytest.fixture(scope="module")
def _quick_compilation():
    """Runs of a few steps: compiling them well would take longer."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def iterations(monkeypatch):
    """Has every run in a maze trained by an iteration."""
    return lambda iteration: monkeypatch.setattr(trainer, "compiled_iteration", lambda run, env: iteration)


@pytest.fixture
def run(tmp_path, iterations, _counting):
    """A run in a maze whose iterations only count."""
    iterations(iterate)
    return Run.create(tmp_path / "run", maze_config())


@pytest.fixture
def stopping(monkeypatch):
    """Makes a callback that asks training to stop once a step is reached, as Ctrl-C does."""

    class Stopping(Callback):
        def __init__(self, at):
            self._at = at
            self._stop = threading.Event()
            monkeypatch.setattr(trainer, "stop_requested", lambda: nullcontext(self._stop))

        def on_start(self, run, step):
            self._check(step)

        def on_progress(self, run, step, pace, row):
            self._check(step)

        def _check(self, step):
            if step == self._at:
                monkeypatch.setattr(trainer, "stop_requested", stop_requested)
                self._stop.set()

    return Stopping


@pytest.fixture(scope="session")
def _finished(tmp_path_factory):
    """Folder of runs of the toy that nothing disturbed, and what each computed."""
    return tmp_path_factory.mktemp("undisturbed"), {}


@pytest.fixture
def undisturbed(_toy_loop, _finished):
    """What a run of a configuration computes that nothing disturbs; trained once."""

    def computed(config):
        folder, known = _finished
        if repr(config) not in known:
            known[repr(config)] = contents(train(folder / str(len(known)), config).folder)
        return known[repr(config)]

    return computed


class Step(NamedTuple):
    action: Any
    skill: Any
    reward: float
    obs: Any
    """The state it led to."""


class Seen(NamedTuple):
    """What went through the buffer, and what was evaluated."""

    episodes: list[list[Step]]
    first: list
    """The state that each episode began with."""
    draws: list
    """Rows written when a batch was drawn."""
    measured: list
    """Steps and updates of the evaluations."""

    @property
    def steps(self):
        """Every step, one episode after the other."""
        return [step for episode in self.episodes for step in episode]


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """Trains a configuration and tells what happened."""

    def watch(config):
        seen = Seen([], [], [], [])

        class Watched(Replay):
            def begin(self, obs):
                seen.episodes.append([])
                seen.first.append(np.array(obs))
                super().begin(obs)

            def add(self, action, skill, reward, discount, next_obs):
                seen.episodes[-1].append(Step(np.array(action), np.array(skill), reward, np.array(next_obs)))
                super().add(action, skill, reward, discount, next_obs)

            def sample(self, size, episode_index):
                seen.draws.append(self.snapshot().written)
                return super().sample(size, episode_index)

        def evaluate(run, state, skill, step):
            seen.measured.append((step, int(state.agent.updates)))
            return measure(run, state, skill, step)

        monkeypatch.setattr(run_module, "Replay", Watched)
        run = train(tmp_path / f"run{len(list(tmp_path.iterdir()))}", config, evaluate)
        return run, seen

    return watch
