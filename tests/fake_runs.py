"""Run folders that look finished and were never trained: what a report reads, in milliseconds."""

import base64
import csv
import json
from dataclasses import replace

import numpy as np

from skillscape.envs.layouts import load_layout
from skillscape.presets import hosted_settings, settings
from skillscape.training.jobs import Job
from skillscape.training.runs import Pretraining

MEASURES = ("coverage", "reach", "distinguishability", "skill_accuracy")
STEPS = (800, 1600, 2400)

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


def maze_run(folder, method="diayn", seed=0, maze="square_a", value=0.5, skills=4, **changes):
    """A maze run of three evaluations; skill k of evaluation f wanders in the cell that is k + f along."""
    chosen = settings(method, "smoke")
    layout = load_layout(maze)
    config = Pretraining(
        env=f"maze/{maze}",
        layout=layout,
        objective=replace(chosen.objective, **changes),
        backbone=chosen.backbone,
        steps=STEPS[-1],
        seed=seed,
        evaluate_every=STEPS[0],
        rollouts_per_skill=3,
    )
    (folder / "rollouts").mkdir(parents=True)
    generator = np.random.default_rng(seed)
    cells = np.asarray(layout.cells)
    for frame, step in enumerate(STEPS):
        home = cells[(np.arange(skills) + frame) % len(cells)]
        positions = home[:, None, None, :] + generator.uniform(-0.4, 0.4, size=(skills, 3, 6, 2))
        positions[:, :, 0] = layout.evaluation_start
        np.savez(folder / "rollouts" / f"{step:012d}.npz", positions=positions.astype(np.float32))
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    (folder / "versions.json").write_text(json.dumps({"python": "3.11.0", "git": "0123456789abcdef"}))
    values = {name: value + 0.01 * seed + 0.02 * place for place, name in enumerate(MEASURES)}
    (folder / "results.json").write_text(json.dumps({"method": method, "measures": values}))
    rows = [[step, *(share * one for one in values.values())] for step, share in zip(STEPS, (0.3, 0.6, 1), strict=True)]
    write_log(folder / "evaluation.csv", ["step", *MEASURES], rows)
    return folder


def job_run(folder, method=None, task="walker_walk", seed=0, score=500.0, *, phase="finetune", clips=0, **changes):
    """A run on a host environment: training from scratch where there is no method."""
    env = task.partition("_")[0] if not task.startswith("gym/") else task
    chosen = hosted_settings(method, env, "smoke")
    job = Job(
        phase=phase,
        env=env,
        task=task if phase == "finetune" else None,
        noise=0.0,
        objective=chosen.objective,
        backbone=chosen.backbone,
        steps=2_000,
        seed=seed,
        evaluate_every=1_000,
        evaluation_episodes=2,
        snapshot=4_000 if method and phase == "finetune" else None,
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(replace(job, **changes).to_json()))
    (folder / "versions.json").write_text(json.dumps({"python": "3.11.0"}))
    (folder / "results.json").write_text(json.dumps({"measures": {"return": score, "skill": 0.0}}))
    write_log(folder / "evaluation.csv", ["step", "return"], [[0, 5.0], [1_000, score / 2], [2_000, score]])
    if clips:
        (folder / "videos").mkdir()
        for skill in range(clips):
            (folder / "videos" / f"skill_{skill:02d}.mp4").write_bytes(CLIP)
    return folder


def mazes(root):
    """Two methods, two seeds each."""
    for method, value in (("diayn", 0.5), ("cic", 0.7)):
        for seed in range(2):
            maze_run(root / method / f"seed_{seed}", method, seed, value=value)
    return root


def benchmark(root, tasks=("walker_walk", "walker_run")):
    """Three rows on some tasks with two seeds each, as `skillscape reproduce urlb` leaves them; one has videos."""
    for seed in range(2):
        for place, task in enumerate(tasks):
            job_run(root / f"ddpg-{task}" / f"seed_{seed}", None, task, seed, 300.0 + 40 * seed - 60 * place)
            for method, score in (("diayn", 450.0), ("sd3", 600.0)):
                job_run(root / f"{method}-{task}" / f"seed_{seed}", method, task, seed, score + 30 * seed - 60 * place)
        for method in ("diayn", "sd3"):
            clips = 2 if (method, seed) == ("sd3", 1) else 0
            job_run(root / f"{method}-walker" / f"seed_{seed}", method, seed=seed, phase="pretrain", clips=clips)
    return root
