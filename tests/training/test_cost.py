"""What a run costs: files that are read, and values that are refused."""

import json

import pytest

from skillscape.errors import UserError
from skillscape.training.cost import Parameters, Stopwatch, read_parameters, read_timing, seconds_of, write_timing


def test_a_timing_is_read_as_it_was_written(tmp_path):
    assert read_timing(tmp_path, "") is None
    write_timing(tmp_path, 8.0, 400)
    assert read_timing(tmp_path, "") == (8.0, 400, 50.0)


@pytest.mark.parametrize(
    "change", [{"seconds": None}, {"seconds": -1.0}, {"seconds": True}, {"steps": "400"}, {"steps_per_second": 1e400}]
)
def test_a_timing_that_is_none_is_refused(tmp_path, change):
    write_timing(tmp_path, 8.0, 400)
    values = json.loads((tmp_path / "timing.json").read_text())
    (tmp_path / "timing.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(UserError, match=r"timing\.json is damaged"):
        read_timing(tmp_path, "delete it")


@pytest.mark.parametrize("metadata", [{}, {"seconds": "12"}, {"seconds": -1}, {"seconds": float("nan")}])
def test_a_checkpoint_without_a_time_leaves_it_unknown(metadata):
    assert seconds_of(metadata) is None
    assert Stopwatch(metadata).metadata() == {}


def test_a_stopwatch_goes_on_from_a_checkpoint():
    assert 0 <= Stopwatch(None).metadata()["seconds"] < Stopwatch({"seconds": 1e6}).metadata()["seconds"]


def test_parameters_are_read_where_they_were_recorded():
    assert read_parameters({"parameters": {"backbone": 5, "objective": 0}}) == Parameters(5, 0)
    assert read_parameters({}) is None
    for values in (5, {"backbone": 5}, {"backbone": 5, "objective": "none"}):
        assert read_parameters({"parameters": values}) is None
