"""Numbers and times in words."""

import pytest

from skillscape.formatting import counted, duration


def test_things_are_counted():
    assert [counted(number, "seed") for number in (0, 1, 2)] == ["0 seeds", "1 seed", "2 seeds"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min"),
        (150.0, "2 min 30 s"),
        (600.0, "10 min"),
        (7_260.0, "2 h 01 min"),
        (302_400.0, "3.5 days"),
    ],
)
def test_times_are_told_in_the_units_that_matter(seconds, text):
    assert duration(seconds) == text
