"""Logs: exact numbers, clean resumption, and the words of a progress line."""

import pytest
from full_disk import fill

from skillscape.errors import Notice, Unwritable, UserError
from skillscape.training import log
from skillscape.training.log import CsvLog, Pace, common_curve, read_metrics

TENTH, HUGE = 0.1, 1.2345678901234567e300


def write_rows(folder, steps, resume_at=0):
    folder.mkdir(exist_ok=True)
    with CsvLog(folder / "metrics.csv", resume_at) as metrics:
        for step in steps:
            metrics.write(step, {"loss": step / 3, "reward": -step / 7})


def test_every_digit_is_kept(tmp_path):
    with CsvLog(tmp_path / "metrics.csv", 0) as metrics:
        metrics.write(5, {"small": TENTH, "huge": HUGE})
    assert read_metrics(tmp_path / "metrics.csv") == {"step": [5.0], "small": [TENTH], "huge": [HUGE]}


def test_a_row_is_on_disk_as_soon_as_it_is_written(tmp_path):
    with CsvLog(tmp_path / "metrics.csv", 0) as metrics:
        metrics.write(5, {"small": TENTH})
        assert (tmp_path / "metrics.csv").read_bytes() == b"step,small\r\n5,0.1\r\n"


def test_a_run_that_begins_keeps_not_even_a_row_of_step_0(tmp_path):
    write_rows(tmp_path, [0, 10])
    write_rows(tmp_path, [0], resume_at=-1)
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [0]
    write_rows(tmp_path, [10], resume_at=0)
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [0, 10]


@pytest.mark.parametrize("stopped_after", [0, 10, 30, 40])
def test_a_resumed_table_equals_an_uninterrupted_one(tmp_path, stopped_after):
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    steps = [10, 20, 30, 40]
    write_rows(whole, steps)
    write_rows(resumed, steps)
    write_rows(resumed, [step for step in steps if step > stopped_after], resume_at=stopped_after)
    assert (resumed / "metrics.csv").read_bytes() == (whole / "metrics.csv").read_bytes()


@pytest.mark.parametrize("cut", range(1, 18))
def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path, cut):
    write_rows(tmp_path, [10, 20])
    path = tmp_path / "metrics.csv"
    whole = path.read_bytes()
    write_rows(tmp_path, [30], resume_at=20)
    path.write_bytes(path.read_bytes()[: len(whole) + cut])
    write_rows(tmp_path, [], resume_at=20)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("content", [b"", b"ste", b"step,loss,reward\r\n"])
def test_a_table_without_rows_starts_again(tmp_path, content):
    (tmp_path / "metrics.csv").write_bytes(content)
    write_rows(tmp_path, [10])
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [10.0]


def test_columns_cannot_change(tmp_path):
    write_rows(tmp_path, [10])
    with CsvLog(tmp_path / "metrics.csv", 10) as metrics, pytest.raises(UserError, match="other columns than this run"):
        metrics.write(20, {"loss": 1.0})


def test_a_file_keeps_its_columns_when_later_rows_have_more(tmp_path):
    write_rows(tmp_path, [10])
    before = read_metrics(tmp_path / "metrics.csv")
    with CsvLog(tmp_path / "metrics.csv", 10) as metrics:
        metrics.write(20, {"added": 5.0} | {name: 7.0 for name in before if name != "step"})
    after = read_metrics(tmp_path / "metrics.csv")
    assert list(after) == list(before)
    assert {values[-1] for name, values in after.items() if name != "step"} == {7.0}


def test_missing_metrics_are_a_users_error(tmp_path):
    with pytest.raises(UserError, match=r"metrics\.csv is missing"):
        read_metrics(tmp_path / "metrics.csv")


def test_an_empty_table_has_no_columns(tmp_path):
    (tmp_path / "metrics.csv").touch()
    assert read_metrics(tmp_path / "metrics.csv") == {}


def test_a_table_with_a_header_only_has_columns_without_rows(tmp_path):
    (tmp_path / "metrics.csv").write_bytes(b"step,loss\r\n")
    assert read_metrics(tmp_path / "metrics.csv") == {"step": [], "loss": []}


# Tables that are damaged

ROWS = [b"step,loss,reward\r\n", b"10,1.5,2.5\r\n", b"20,3.5,4.5\r\n"]


@pytest.mark.parametrize(
    "line",
    [
        b"15,1.0\r\n",
        b"15,1.0,2.0,3.0\r\n",
        b"15,one,2.0\r\n",
        b"15,,2.0\r\n",
        b"1.5,1.0,2.0\r\n",
        b"-15,1.0,2.0\r\n",
        b"99999999999999999999,1.0,2.0\r\n",
        "²,1.0,2.0\r\n".encode(),
        b"15,1.0,\xff\r\n",
        b"15,1.0,2\x00.0\r\n",
        b'15,"1.0,2.0\r\n',
        b"15,1.0," + b"2" * 200_000 + b"e\r\n",
        b"\r\n",
        b"\x00\x00\x00\n",
    ],
)
@pytest.mark.parametrize("place", [1, 3])
def test_a_line_that_cannot_be_read_is_left_out_and_told(tmp_path, line, place):
    (tmp_path / "metrics.csv").write_bytes(b"".join([*ROWS[:place], line, *ROWS[place:]]))
    with pytest.warns(Notice, match=r"metrics\.csv is damaged: 1 unreadable row\(s\)"):
        table = read_metrics(tmp_path / "metrics.csv")
    assert table == {"step": [10, 20], "loss": [1.5, 3.5], "reward": [2.5, 4.5]}
    with pytest.warns(Notice, match=r"1 unreadable row\(s\)"):
        write_rows(tmp_path, [30], resume_at=20)
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [10, 20, 30]


def test_a_line_that_is_cut_short_is_told_where_it_is_read(tmp_path):
    (tmp_path / "metrics.csv").write_bytes(b"".join([*ROWS, b"30,5.5,6."]))
    with pytest.warns(Notice, match=r"1 unreadable row\(s\)"):
        assert read_metrics(tmp_path / "metrics.csv")["step"] == [10, 20]


@pytest.mark.parametrize(
    "content",
    [
        b"stap,loss\r\n10,1.0\r\n",
        b"loss,step\r\n1.0,10\r\n",
        b"step,loss,loss\r\n10,1.0,2.0\r\n",
        b"10,1.0\r\n20,2.0\r\n",
        b"\x00\x01\x02",
        b"\xff\n",
        b"\n\n\n",
    ],
)
def test_a_file_that_is_no_table_is_a_users_error(tmp_path, content):
    (tmp_path / "metrics.csv").write_bytes(content)
    with pytest.raises(UserError, match="does not name the columns; restore it, or delete it"):
        read_metrics(tmp_path / "metrics.csv")
    with pytest.raises(UserError, match="does not name the columns; restore it, or delete it"):
        CsvLog(tmp_path / "metrics.csv", 10)
    assert (tmp_path / "metrics.csv").read_bytes() == content


def test_a_table_of_which_no_row_can_be_read_is_a_users_error(tmp_path):
    (tmp_path / "metrics.csv").write_bytes(b"step,loss\r\n10,x\r\n20,y\r\n")
    with pytest.raises(UserError, match="none of its rows can be read"):
        read_metrics(tmp_path / "metrics.csv")


def test_a_folder_for_a_table_is_a_users_error(tmp_path):
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(UserError, match=r"metrics\.csv cannot be read"):
        read_metrics(tmp_path / "metrics.csv")


def test_curves_of_several_runs_are_drawn_where_all_have_rows():
    logs = [{"step": [0, 10, 20], "reward": [1, 2, 3]}, {"step": [10, 20, 30], "reward": [4, 5, 6]}]
    steps, values = common_curve(logs, "reward")
    assert steps.tolist() == [10, 20]
    assert values.tolist() == [[2, 3], [4, 5]]


# A disk that is full


def test_a_table_on_a_full_disk_is_one_sentence(tmp_path):
    with CsvLog(tmp_path / "metrics.csv", 0) as metrics:
        metrics.write(10, {"loss": 0.5})
        fill("metrics.csv")
        with pytest.raises(Unwritable, match=r"metrics\.csv cannot be written \(No space left on device\).*--resume"):
            metrics.write(20, {"loss": 0.75})
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [10]


# The pace


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set."""
    now = [100.0]
    monkeypatch.setattr(log.time, "perf_counter", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (24.0, "125,000/250,000 steps · 5,208 steps/s · 24 s left"),
        (150.0, "125,000/250,000 steps · 833 steps/s · 2 min 30 s left"),
        (7260.0, "125,000/250,000 steps · 17 steps/s · 2 h 01 min left"),
    ],
)
def test_the_pace_is_told_in_words(clock, seconds, words):
    pace = Pace(0, 250_000)
    clock[0] += seconds
    assert pace.describe(125_000) == words


def test_the_pace_counts_from_where_it_resumed(clock):
    pace = Pace(1000, 3000)
    clock[0] += 10
    assert pace.rate(2000) == 100
    assert pace.describe(2000).endswith("10 s left")


def test_the_pace_knows_no_end_before_the_first_step(clock):
    assert Pace(0, 100).describe(0).endswith("– left")
