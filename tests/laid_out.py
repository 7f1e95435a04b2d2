"""Runs that are created but not trained: folders and configurations only, in milliseconds."""

import toys  # noqa: F401  makes gym/toys:… known

from skillscape.configure import pretraining
from skillscape.training.run import Run


def lay_out_only(monkeypatch):
    """From now on, runs are only created: they count as trained to their last step and build no network."""
    monkeypatch.setattr("skillscape.launch.train", lambda *_arguments, **_options: None)
    monkeypatch.setattr("skillscape.launch.adapted_state", lambda *_: None)
    monkeypatch.setattr(Run, "snapshot_step", lambda run, step=None: step or run.config.steps)


def configuration(method="diayn", env="maze/square_a", **asked):
    """The configuration of a small pre-training."""
    return pretraining(method, env, **{"preset": "smoke", "seed": 3, **asked})
