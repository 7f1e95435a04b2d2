"""Golden numbers: short runs of every family and phase, as logged metrics and checksums of the final parameters.

tests/golden/numbers.json holds those of several machines, each to the bit. `python tests/golden_runs.py` adds this
machine's, or replaces them; `test_golden.py` holds today's code against the file. A redesign must not move them; one
that moves on purpose changes the file in a commit of its own.
"""

import csv
import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.numpy import load_file

from skillscape.api import finetune, pretrain, train

FILE = Path(__file__).parent / "golden" / "numbers.json"
WALKER = "walker-sd3"
"""The pre-training that the fine-tunings begin with."""
DDPG = {"warmup_steps": 200, "batch_size": 32, "width": 16}
DREAMER = {"replay": {"warmup_steps": 200, "task_warmup_steps": 200}}


def _maze(method: str) -> Callable[[Path, Path], Any]:
    return lambda out, _: pretrain(method, "maze/square_a", preset="smoke", steps=2_000, out=out, progress=False)


def _host(
    method: str, env: str, steps: int, backbone: Mapping[str, Any], **objective: Any
) -> Callable[[Path, Path], Any]:
    options = {"preset": "smoke", "steps": steps, "backbone": backbone, "objective": objective}
    return lambda out, _: pretrain(method, env, out=out, progress=False, **options)


def _finetuning(skill: str) -> Callable[[Path, Path], Any]:
    options = {"skill": skill, "steps": 1_200, "progress": False}
    return lambda out, others: finetune(others / WALKER, "walker_walk", out=out, **options)


def _scratch(out: Path, _: Path) -> Any:
    return train("walker", "walker_walk", preset="smoke", steps=1_200, out=out, progress=False)


CASES: dict[str, Callable[[Path, Path], Any]] = {
    "maze-sd3": _maze("sd3"),
    "maze-diayn": _maze("diayn"),
    "maze-cic": _maze("cic"),
    "gym-diayn": _host("diayn", "gym/Pendulum-v1", 600, DDPG),
    WALKER: _host("sd3", "walker", 1_200, {"warmup_steps": 1_000, "batch_size": 32, "width": 16}),
    "walker-random": _finetuning("random"),
    "walker-regress": _finetuning("regress"),
    "walker-controller": _finetuning("controller"),
    "walker-scratch": _scratch,
    "maze-pixels-sd3": _host("sd3", "maze-pixels/square_a", 600, DREAMER),
    # Two skills: every evaluation draws an episode of each, without a graphics card.
    "walker-pixels-diayn": _host(
        "diayn",
        "walker-pixels",
        1_100,
        {"replay": {"warmup_steps": 1_000, "task_warmup_steps": 200}},
        number_of_skills=2,
    ),
}
"""What is trained, in an order in which each comes after what it needs: out folder, folder of the others."""
QUICK = ("maze-diayn", "gym-diayn")
"""Cases that the fast suite runs too."""


def numbers(folder: Path) -> dict[str, Any]:
    """All that a run logged, and a checksum of what it learned."""
    logs = {}
    for name in ("metrics", "evaluation"):
        path = folder / f"{name}.csv"
        with path.open(newline="") as file:
            logs[name] = list(csv.reader(file)) if path.exists() else []
    return {**logs, "parameters": _checksum(folder)}


def _checksum(folder: Path) -> str:
    """Of the arrays that act and of the objective's model, whatever they are called: names may change, numbers not."""
    newest = max((folder / "checkpoints").iterdir(), key=lambda path: path.name)
    arrays = load_file(newest / "arrays.safetensors").values()
    digests = sorted(hashlib.sha256(f"{one.shape}".encode() + one.tobytes()).hexdigest() for one in arrays)
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def machine() -> str:
    """A digest of the processor, on which the last digits of floating-point results depend."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = [platform.processor()]
    kept = sorted({line for line in lines if line.startswith(("model name", "flags"))})
    return hashlib.sha256("\n".join([platform.machine(), *kept]).encode()).hexdigest()[:16]


def write(machines: Mapping[str, Any]) -> None:
    """Write the file, a row of a log to a line."""
    text = json.dumps({"machines": machines}, indent=1)
    rows = re.compile(r"\[[^\[\]]*\]")
    FILE.write_text(rows.sub(lambda row: json.dumps(json.loads(row[0])), text) + "\n")


def main() -> None:
    """Train every case, or those named, and write them to this machine's entry."""
    machines = json.loads(FILE.read_text())["machines"] if FILE.exists() else {}
    cases = machines.setdefault(machine(), {"cases": {}})["cases"]
    FILE.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in sys.argv[1:] or CASES:
            CASES[name](folder / name, folder)
            cases[name] = numbers(folder / name)
            write(machines)
            print(name, cases[name]["parameters"][:12], flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
