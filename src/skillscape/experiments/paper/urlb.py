"""The table of scores from states."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.benchmark import Benchmark

WITHOUT_SKILLS = ("icm", "disagreement", "rnd", "apt", "protorl")
WITH_SKILLS = ("smm", "diayn", "aps", "cic", "becl", "csd", "metra", "sd3")


@final
@dataclass(frozen=True)
class Urlb(Benchmark):
    """URLB from states: thirteen methods pre-trained, fine-tuned on every task, against DDPG from scratch."""

    name = "urlb"
    paper_methods = ("ddpg", *WITHOUT_SKILLS, *WITH_SKILLS)
