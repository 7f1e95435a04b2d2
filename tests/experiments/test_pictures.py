"""Which numbers are drawn of a run."""

import pytest

from skillscape.evaluation.mazes import MazeMeasures
from skillscape.experiments import pictures


@pytest.mark.parametrize(
    ("skills", "information", "line"),
    [(2, 0.25, "coverage 0.50 · reach 0.50 · I(S;Z) 0.25"), (1, 0.25, "coverage 0.50 · reach 0.50")],
)
def test_a_caption_says_what_is_known(skills, information, line):
    values = {**dict.fromkeys(MazeMeasures._fields, 0.5), "distinguishability": information}
    assert pictures.caption(MazeMeasures(**values), skills=skills) == line
    assert pictures.caption(MazeMeasures(**values)._replace(distinguishability=None), skills=skills).endswith(
        "reach 0.50"
    )
