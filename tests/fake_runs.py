"""Run folders that look finished and were never trained: what a report reads, in milliseconds."""

import base64
import csv
import json
from dataclasses import replace

import numpy as np

from skillscape.configure import finetuning, from_scratch, pretraining

MEASURES = ("coverage", "reach", "mutual_information", "skill_accuracy")
STEPS = (0, 800, 1600, 2400)
"""When a pre-training in a maze was evaluated."""

# Three grey frames of 16 × 16 pixels, H.264.
CLIP = base64.b64decode(
    "AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZjMW1wNDEAAAAIZnJlZQAAAtttZGF0AAACoQYF//+d3EXpvebZSLeWLNgg2SPu73gyNjQgLSBjb3"
    "JlIDE2NSAtIEguMjY0L01QRUctNCBBVkMgY29kZWMgLSBDb3B5bGVmdCAyMDAzLTIwMjUgLSBodHRwOi8vd3d3LnZpZGVvbGFuLm9yZy94MjY0"
    "Lmh0bWwgLSBvcHRpb25zOiBjYWJhYz0xIHJlZj0xNiBkZWJsb2NrPTE6MDowIGFuYWx5c2U9MHgzOjB4MTMzIG1lPXVtaCBzdWJtZT0xMCBwc3"
    "k9MSBwc3lfcmQ9MS4wMDowLjAwIG1peGVkX3JlZj0xIG1lX3JhbmdlPTI0IGNocm9tYV9tZT0xIHRyZWxsaXM9MiA4eDhkY3Q9MSBjcW09MCBk"
    "ZWFkem9uZT0yMSwxMSBmYXN0X3Bza2lwPTEgY2hyb21hX3FwX29mZnNldD0tMiB0aHJlYWRzPTEgbG9va2FoZWFkX3RocmVhZHM9MSBzbGljZW"
    "RfdGhyZWFkcz0wIG5yPTAgZGVjaW1hdGU9MSBpbnRlcmxhY2VkPTAgYmx1cmF5X2NvbXBhdD0wIGNvbnN0cmFpbmVkX2ludHJhPTAgYmZyYW1l"
    "cz04IGJfcHlyYW1pZD0yIGJfYWRhcHQ9MiBiX2JpYXM9MCBkaXJlY3Q9MyB3ZWlnaHRiPTEgb3Blbl9nb3A9MCB3ZWlnaHRwPTIga2V5aW50PT"
    "I1MCBrZXlpbnRfbWluPTUgc2NlbmVjdXQ9NDAgaW50cmFfcmVmcmVzaD0wIHJjX2xvb2thaGVhZD02MCByYz1jcmYgbWJ0cmVlPTEgY3JmPTQw"
    "LjAgcWNvbXA9MC42MCBxcG1pbj0wIHFwbWF4PTY5IHFwc3RlcD00IGlwX3JhdGlvPTEuNDAgYXE9MToxLjAwAIAAAAANZYiBAAIf/tSnmWOeRw"
    "AAAA1BmghNiH///H63hK+AAAAACAGeECch/+KBAAADT21vb3YAAABsbXZoZAAAAAAAAAAAAAAAAAAAA+gAAAJYAAEAAAEAAAAAAAAAAAAAAAAB"
    "AAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIAAAJ5dHJhawAAAFx0a2hkAAAAAw"
    "AAAAAAAAAAAAAAAQAAAAAAAAJYAAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAQAAAAAAQAAAAEAAAAAAA"
    "JGVkdHMAAAAcZWxzdAAAAAAAAAABAAACWAAAEAAAAQAAAAAB8W1kaWEAAAAgbWRoZAAAAAAAAAAAAAAAAAAAKAAAACAAVcQAAAAAAC1oZGxyAA"
    "AAAAAAAAB2aWRlAAAAAAAAAAAAAAAAVmlkZW9IYW5kbGVyAAAAAZxtaW5mAAAAFHZtaGQAAAABAAAAAAAAAAAAAAAkZGluZgAAABxkcmVmAAAA"
    "AAAAAAEAAAAMdXJsIAAAAAEAAAFcc3RibAAAALBzdHNkAAAAAAAAAAEAAACgYXZjMQAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAAAQABAASAAAAE"
    "gAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABj//wAAADZhdmNDAWQACv/hABhnZAAKrHIEXoQAAAMABAAAAwAoPEiW"
    "EYABAAdo6EODksiw/fj4AAAAABRidHJ0AAAAAAAAJagAAAAAAAAAGHN0dHMAAAAAAAAAAQAAAAMAAAgAAAAAFHN0c3MAAAAAAAAAAQAAAAEAAA"
    "AoY3R0cwAAAAAAAAADAAAAAQAAEAAAAAABAAAYAAAAAAEAAAgAAAAAHHN0c2MAAAAAAAAAAQAAAAEAAAADAAAAAQAAACBzdHN6AAAAAAAAAAAA"
    "AAADAAACtgAAABEAAAAMAAAAFHN0Y28AAAAAAAAAAQAAADAAAABidWR0YQAAAFptZXRhAAAAAAAAACFoZGxyAAAAAAAAAABtZGlyYXBwbAAAAA"
    "AAAAAAAAAAAC1pbHN0AAAAJal0b28AAAAdZGF0YQAAAAEAAAAATGF2ZjYyLjEyLjEwMg=="
)


def write_log(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def configuration(method, env, task=None, *, objective=None, **changes):
    """A pre-training without a task, a fine-tuning with one, training from scratch without a method; all tiny."""
    if method is None:
        return replace(from_scratch(env, task, preset="smoke"), **changes)
    config = pretraining(method, env, preset="smoke", objective=objective)
    if task is not None:
        config = finetuning(config, task, source="source", snapshot=4_000)
    return replace(config, **changes)


def fake_run(
    folder, method="diayn", env="maze/square_a", task=None, seed=0, value=0.5, *, skills=4, clips=0, **changes
):
    """A finished run, see ``configuration``; ``value``: its return, or in a maze without a task its coverage and more.

    skills: how many were played in a maze; skill k of evaluation f wanders in the cell k + f along. clips: videos.
    """
    config = configuration(method, env, task, seed=seed, **changes)
    in_maze = config.layout is not None and config.task is None
    if in_maze:
        config = replace(config, steps=changes.get("steps", STEPS[-1]))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    (folder / "versions.json").write_text(json.dumps({"python": "3.11.0", "git": "0123456789abcdef"}))
    log = _maze_log(folder, config.layout, seed, value, skills) if in_maze else _return_log(config.steps, value)
    write_log(folder / "evaluation.csv", list(log[0]), [list(row.values()) for row in log])
    results = {
        "images": config.env.partition("/")[0].endswith("-pixels"),
        "measures": {name: number for name, number in log[-1].items() if name != "step"},
    }
    (folder / "results.json").write_text(json.dumps(results))
    if clips:
        (folder / "videos").mkdir()
        for skill in range(clips):
            (folder / "videos" / f"skill_{skill:02d}.mp4").write_bytes(CLIP)
    return folder


def _maze_log(folder, layout, seed, value, skills):
    (folder / "rollouts").mkdir()
    generator = np.random.default_rng(seed)
    cells = np.asarray(layout.cells)
    for frame, step in enumerate(STEPS):
        home = cells[(np.arange(skills) + frame) % len(cells)]
        positions = home[:, None, None, :] + generator.uniform(-0.4, 0.4, size=(skills, 3, 6, 2))
        positions[:, :, 0] = layout.evaluation_start
        np.savez(folder / "rollouts" / f"{step:012d}.npz", positions=positions.astype(np.float32))
    values = {name: value + 0.01 * seed + 0.02 * place for place, name in enumerate(MEASURES)}
    return [
        {"step": step, **{name: share * number for name, number in values.items()}}
        for step, share in zip(STEPS, (0.1, 0.3, 0.6, 1), strict=True)
    ]


def with_positions(folder, value=12.0):
    """The finished pre-training of a body in a folder, with positions measured at its last step; returns them."""
    positions = np.cumsum(np.random.default_rng(0).normal(size=(3, 2, 6, 2)), axis=2).astype(np.float32)
    (folder / "rollouts").mkdir()
    results = json.loads((folder / "results.json").read_text())
    results["measures"] |= {"policy_coverage": value, "distance": 2.5, "speed": 0.001234}
    (folder / "results.json").write_text(json.dumps(results))
    steps = json.loads((folder / "config.json").read_text())["steps"]
    np.savez(folder / "rollouts" / f"{steps:012d}.npz", positions=positions)
    rows = [[step, share * value, share * 2.5, share * 0.001234] for step, share in ((0, 0.1), (steps, 1.0))]
    write_log(folder / "evaluation.csv", ["step", "policy_coverage", "distance", "speed"], rows)
    return positions


def _return_log(steps, value):
    returns = {0: 5.0, steps // 2: value / 2, steps: value}
    return [{"step": step, "return": number, "skill": 0.0} for step, number in returns.items()]


def mazes(root):
    """Two methods, two seeds each."""
    for method, value in (("diayn", 0.5), ("cic", 0.7)):
        for seed in range(2):
            fake_run(root / method / f"seed_{seed}", method, seed=seed, value=value)
    return root


def benchmark(root, tasks=("walker_walk", "walker_run")):
    """Three rows on some tasks with two seeds each, as `skillscape reproduce urlb` leaves them; one has videos."""
    for seed in range(2):
        for place, task in enumerate(tasks):
            for method, score in ((None, 300.0 + 10 * seed), ("diayn", 450.0), ("sd3", 600.0)):
                folder = root / f"{method or 'ddpg'}-{task}" / f"seed_{seed}"
                fake_run(folder, method, "walker", task, seed, score + 30 * seed - 60 * place)
        for method in ("diayn", "sd3"):
            clips = 2 if (method, seed) == ("sd3", 1) else 0
            fake_run(root / f"{method}-walker" / f"seed_{seed}", method, "walker", seed=seed, clips=clips)
    return root
