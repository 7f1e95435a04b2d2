"""The table of scores from images."""

from dataclasses import dataclass
from typing import final

from skillscape.experiments.benchmark import IMAGES, Benchmark


@final
@dataclass(frozen=True)
class Pixels(Benchmark):
    """URLB from images, with Dreamer: six methods pre-trained, fine-tuned on every task, against from scratch."""

    name = "pixels"
    paper_methods = ("dreamer", "apt", "cic", "becl", "csd", "metra", "sd3")
    paper_domains = IMAGES
