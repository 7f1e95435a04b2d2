"""Runs as Ray tasks, on any number of machines that share the folder of all runs."""

import os
import socket
import uuid
from pathlib import Path
from typing import Any, final

from skillscape.errors import Interrupted, UserError
from skillscape.experiments.engine import Executor, Load, Resources, make_job
from skillscape.experiments.grid import RunSpec
from skillscape.experiments.worker import Outcome, perform_values, sees

SAVING = 120.0
"""Seconds that runs have to save when they are stopped."""
ANSWER = 10.0
"""Seconds that a cluster has to accept a connection."""
PROBE = 120.0
"""Seconds that a node has to say whether it sees the folder of all runs."""


def _ray() -> Any:  # noqa: ANN401  an optional package
    try:
        import ray
    except ImportError as error:
        raise UserError('Ray is not installed; run `pip install "skillscape[ray]"`, or use --on local.') from error
    return ray


def _answers(address: str) -> bool:
    """Whether a machine listens at HOST:PORT, since Ray would try for minutes; True for other kinds of addresses."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return True
    try:
        socket.create_connection((host, int(port)), ANSWER).close()
    except (OSError, OverflowError):
        return False
    return True


@final
class RayExecutor(Executor):
    """One Ray task per run; Ray restarts a task that was lost, and the run resumes from its checkpoint."""

    def __init__(self, resources: Resources, workers: int | None, address: str | None, runs: Path) -> None:
        """Connect to the cluster at ``address``, or start one here, and check that every node sees ``runs``.

        ``workers``: tasks at the same time; as many as Ray has room for if None.
        """
        self._ray = ray = _ray()
        self._resources, self._workers, self._runs = resources, workers, runs
        self._needs = {"CPU": float(resources.cpus), "GPU": resources.gpus}
        self._pending: dict[Any, RunSpec] = {}
        self._own = not ray.is_initialized()
        if self._own:
            self._connect(address)
        try:
            self._check_nodes(runs)
        except BaseException:
            self._leave()
            raise
        self._task = ray.remote(
            num_cpus=resources.cpus,
            num_gpus=resources.gpus,
            max_retries=resources.retries,
            # The runs of a machine that is shut down with SIGTERM are saved, and continue elsewhere.
            retry_exceptions=[Interrupted],
            # A process per run: JAX gives back neither memory nor threads.
            max_calls=1,
        )(perform_values)

    def _connect(self, address: str | None) -> None:
        where = f"the Ray cluster {address}" if address else "a Ray cluster on this machine"
        if address and not _answers(address):
            raise UserError(f"Cannot reach {where}: nothing answers there; start it with `ray start --head`.")
        workers = None if self._workers is None else self._workers * self._resources.cpus
        # No usage statistics are sent.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers, "include_dashboard": False}
        try:
            self._ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except Exception as error:
            reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
            raise UserError(f"Cannot reach {where}: {reason}; start it with `ray start --head`.") from error

    def _check_nodes(self, runs: Path) -> None:
        ray = self._ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in ray.nodes() if node["Alive"]]
        if not nodes:
            raise UserError("The Ray cluster has no node; add one with `ray start --address …`.")
        self._check_room(nodes)
        token = runs / f".token-{uuid.uuid4().hex}"
        token.write_text(token.name)
        try:
            looks = [
                ray.remote(sees)
                .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
                .remote(str(token), token.name)
                for node in nodes
            ]
            for node, look in zip(nodes, looks, strict=True):
                if not self._shares_folder(node["NodeManagerAddress"], look):
                    raise UserError(
                        f"The node {node['NodeManagerAddress']} does not see {runs}; give --runs on a file system that "
                        "all nodes share."
                    )
        finally:
            token.unlink()

    def _check_room(self, nodes: list[Any]) -> None:
        needs = self._needs.items()
        if not any(all(node["Resources"].get(kind, 0) >= number for kind, number in needs) for node in nodes):
            raise UserError(
                f"No node of the Ray cluster has {self._resources.cpus} cores and {self._resources.gpus:g} GPUs, which "
                "resources asks for a run; ask for less."
            )

    def _shares_folder(self, address: str, look: Any) -> bool:  # noqa: ANN401
        try:
            return bool(self._ray.get(look, timeout=PROBE))
        except self._ray.exceptions.RayError as error:
            reason = " ".join(str(error).strip().split("\n")[-1].split()).rstrip(".")
            raise UserError(
                f"The node {address} cannot run skillscape ({reason}); install the same version on every node."
            ) from error

    @property
    def load(self) -> Load:
        """The load if all tasks that fit are running; twice as many may be submitted, so that a cluster can grow."""
        available = self._ray.cluster_resources()
        capacity = max(1, int(min(available.get(kind, 0) / number for kind, number in self._needs.items() if number)))
        room = (2 * capacity if self._workers is None else self._workers) - len(self._pending)
        parallel = capacity if self._workers is None else min(capacity, self._workers)
        return Load(room, min(capacity, len(self._pending)), float(parallel * self._resources.cpus))

    def submit(self, spec: RunSpec, log: Path) -> None:
        """Submit a task to Ray."""
        job = make_job(spec, self._runs, log, self._resources)
        self._pending[self._task.remote(job._asdict())] = spec

    def wait(self, seconds: float) -> list[tuple[RunSpec, Outcome]]:
        """The tasks that have ended; a lost one ends when Ray has used up its retries."""
        ready, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=seconds)
        return [(self._pending.pop(task), self._outcome(task)) for task in ready]

    def _outcome(self, task: Any) -> Outcome:  # noqa: ANN401
        try:
            return Outcome(**self._ray.get(task))
        except (self._ray.exceptions.RayError, Interrupted) as error:
            reason = " ".join(str(error).strip().split("\n")[0].split()).rstrip(".")
            return Outcome(None, f"Ray lost it {self._resources.retries + 1} times ({type(error).__name__}: {reason})")

    def stop(self) -> None:
        """Let all tasks save, wait for those in progress, and leave the cluster."""
        for task in self._pending:
            self._ray.cancel(task, force=False)
        try:
            if self._pending:
                self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=SAVING)
        except KeyboardInterrupt:
            pass
        self._pending = {}
        self._leave()

    def _leave(self) -> None:
        if self._own:
            self._ray.shutdown()
