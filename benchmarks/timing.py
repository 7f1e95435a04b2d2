"""How the benchmarks take times and count arithmetic."""

import inspect
import math
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from skillscape.training.callbacks import Callback
from skillscape.training.run import Run


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """The fastest of ``repeats`` calls: noise from other processes only ever adds."""
    return side_by_side({"only": function}, repeats)["only"]


def side_by_side(
    functions: dict[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The fastest call of each, taken in turns, so that a busy moment of the machine falls on all alike."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            began = clock()
            jax.block_until_ready(function())
            best[name] = min(best[name], clock() - began)
    return best


class Marks(Callback):
    """What a clock showed when a run reported steps."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.found: list[tuple[int, float]] = []

    def on_progress(self, run: Run, step: int, pace: str, row: Mapping[str, float]) -> None:
        """Keep the step and the time."""
        del run, pace, row
        self.found.append((step, self._clock()))


def operations(function: Callable[..., Any], *arguments: Any) -> float:  # noqa: ANN401
    """Floating-point operations of all products in a function, the steps of a scan each counted.

    XLA's own count takes the body of a loop once. What is computed again for a gradient does not count.
    """
    # A compiled function may have been traced already, with checkpoints.
    plain = inspect.unwrap(function) if isinstance(function, jax.stages.Wrapped) else function
    with patch.object(jax, "checkpoint", lambda function, **_: function):
        return _operations(jax.make_jaxpr(lambda *arguments: plain(*arguments))(*arguments).jaxpr)


def _operations(program: Jaxpr) -> float:
    total = 0.0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            summed = math.prod(left[axis] for axis in contracted)
            total += 2.0 * summed * math.prod(equation.outvars[0].aval.shape)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                if isinstance(part, ClosedJaxpr):
                    total += times * _operations(part.jaxpr)
                elif isinstance(part, Jaxpr):
                    total += times * _operations(part)
    return total
