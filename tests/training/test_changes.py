"""Settings in place of others, and settings that differ."""

import pytest

from skillscape.errors import UserError
from skillscape.objectives.diayn import DIAYN
from skillscape.training.changes import differences, overridden


def test_some_fields_are_replaced_and_the_others_kept():
    assert overridden(DIAYN(7, (8,)), {"hidden": [16, 4]}, "objective") == DIAYN(7, (16, 4))


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"number_of_skils": 5}, "objective.number_of_skils is no setting of diayn; did you mean 'number_of_skills'?"),
        ({"Hidden": 5}, "did you mean 'hidden'?"),
        ({"xyzzy": 5}, "objective.xyzzy is no setting of diayn; known are number_of_skills"),
        ({"number_of_skills": "five"}, "DIAYN.number_of_skills cannot be 'five'"),
        ({"number_of_skills": True}, "DIAYN.number_of_skills cannot be True"),
    ],
)
def test_what_does_not_fit_is_one_sentence(values, answer):
    with pytest.raises(UserError) as caught:
        overridden(DIAYN(), values, "objective")
    assert answer in str(caught.value)


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        ({"steps": 1}, {"steps": 1}, []),
        ({"steps": 100_000}, {"steps": 250_000}, ["steps: 100,000 in the run, 250,000 asked for"]),
        # The snapshots follow from the steps.
        ({"steps": 1, "snapshots": [1]}, {"steps": 2, "snapshots": []}, ["steps: 1 in the run, 2 asked for"]),
        (
            {"objective": {"name": "sd3", "width": 8, "floor": None}},
            {"objective": {"name": "sd3", "width": 16, "floor": -1.0}},
            ["objective.width: 8 in the run, 16 asked for", "objective.floor: none in the run, -1.0 asked for"],
        ),
        (
            {"objective": {"name": "sd3", "width": 8}},
            {"objective": {"name": "cic", "hidden": [8]}},
            ["objective.name: sd3 in the run, cic asked for"],
        ),
        ({"objective": None}, {"objective": {"name": "cic"}}, ["objective: none in the run, cic asked for"]),
        ({"phase": "a", "task": None}, {"phase": "b", "task": "c"}, ["phase: a in the run, b asked for"]),
        (
            {"env": "x", "layout": {"walls": []}},
            {"env": "x", "layout": {"walls": [1]}},
            ["the maze has been drawn"],
        ),
    ],
)
def test_differences_are_named_with_both_values(theirs, ours, words):
    found = differences(theirs, ours)
    assert len(found) == len(words)
    assert all(one.startswith(word) for one, word in zip(found, words, strict=True))
