"""Values on the command line, as people write them."""

import pytest

from skillscape.cli.parsing import keyword_arguments, whole_number
from skillscape.errors import UserError


@pytest.mark.parametrize(
    ("text", "number"),
    [("20000", 20_000), ("2e4", 20_000), ("250_000", 250_000), ("250,000", 250_000), ("2.5E5", 250_000), ("-5", -5)],
)
def test_numbers_are_read_as_people_write_them(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["many", "1.5", "nan", "inf", "1e400", "", "1e30"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a whole number"):
        whole_number(text)


def test_arguments_are_read_as_python_writes_them_and_text_needs_no_quotes():
    pairs = ["a=1", "b=-2.5", "c=False", "d=None", "e=[1, 'x']", "f=plain text", "g='quoted'", "h=x=y", "i="]
    assert keyword_arguments(pairs) == {
        "a": 1,
        "b": -2.5,
        "c": False,
        "d": None,
        "e": [1, "x"],
        "f": "plain text",
        "g": "quoted",
        "h": "x=y",
        "i": "",
    }
    assert keyword_arguments([]) == {}


@pytest.mark.parametrize("pair", ["a", "=1", "1a=2", "a-b=1", "a b=1", ""])
def test_what_is_no_pair_is_one_sentence(pair):
    with pytest.raises(UserError, match=r"--env\.kwargs cannot be .*; give KEY=VALUE pairs"):
        keyword_arguments([pair])
