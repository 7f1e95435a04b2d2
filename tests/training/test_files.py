"""Files of a run: JSON that is one object of plain values or one sentence, and nothing reached through a link."""

import json
import os

import pytest

from skillscape.errors import UserError
from skillscape.training.files import (
    DEEPEST,
    LARGEST,
    check_links,
    locked,
    read_bytes,
    read_json,
    read_results,
    write_json,
    writing_to,
)

GOOD = {"a": [1, 2.5, None, True], "state": 2**127, "text": "π", "deep": {"b": [[[0]]]}}


def test_what_is_written_is_read_back(tmp_path):
    write_json(tmp_path / "one.json", GOOD)
    assert read_json(tmp_path / "one.json", advice="restore it") == GOOD
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1}}', "not JSON"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"[1, 2]", "does not hold an object"),
        (b"3", "does not hold an object"),
        (b"null", "does not hold an object"),
        (b'{"a": ' + b"9" * 41 + b"}", "an integer of 41 digits"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "an integer of 5000 digits"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", f"deeper than {DEEPEST} levels"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", f"deeper than {DEEPEST} levels"),
        (b'{"a":' * 200_000 + b"0" + b"}" * 200_000, f"deeper than {DEEPEST} levels"),
        (b'{"a": "\\ud800"}', "invalid characters"),
        (b'{"a\\u0000": 1}', "invalid characters"),
    ],
)
def test_a_damaged_file_is_one_sentence_with_advice(tmp_path, content, reason):
    (tmp_path / "one.json").write_bytes(content)
    with pytest.raises(UserError, match=reason) as caught:
        read_json(tmp_path / "one.json", advice="restore it")
    assert str(caught.value).startswith(f"{tmp_path / 'one.json'} is damaged: ")
    assert str(caught.value).endswith("; restore it.")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    with (tmp_path / "one.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UserError, match="larger than 16 MB"):
        read_json(tmp_path / "one.json", advice="restore it")


def to_nothing(path):
    path.symlink_to(path.parent / "nothing")


def to_a_file(path):
    (path.parent / "other").write_text("{}")
    path.symlink_to(path.parent / "other")


@pytest.mark.parametrize("make", [to_nothing, to_a_file, os.mkfifo, lambda path: path.mkdir()])
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "one.json")
    with pytest.raises(UserError, match="cannot be read"):
        read_bytes(tmp_path / "one.json")


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(UserError, match=r"one\.json is missing"):
        read_json(tmp_path / "one.json", advice="restore it")


def test_writing_goes_through_no_link(tmp_path):
    other = tmp_path / "other"
    other.write_text("years of work")
    for name in ("one.json", "one.json.partial"):
        (tmp_path / name).symlink_to(other)
    write_json(tmp_path / "one.json", GOOD)
    assert other.read_text() == "years of work"
    assert not (tmp_path / "one.json").is_symlink()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError) as caught, writing_to(tmp_path / "file" / "plots"):
        (tmp_path / "file" / "plots").mkdir(parents=True)
    assert str(caught.value) == f"Cannot write to {tmp_path}/file/plots: Not a directory; choose another --out."


def test_a_lock_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "thesis.tex").write_text("years of work")
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "thesis.tex")
    with (
        pytest.raises(UserError, match=r"\.lock is not an ordinary file; delete it"),
        locked(tmp_path / "run"),
    ):
        pass
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("name", ["metrics.csv", "checkpoints", "checkpoints/000000000100/arrays.json"])
def test_a_link_anywhere_in_a_run_is_found(tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    check_links(tmp_path / "run")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a symbolic link, which is not allowed in a run") as caught:
        check_links(tmp_path / "run")
    assert str(path) in str(caught.value)


def test_the_folder_of_a_run_may_itself_be_a_link(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    check_links(tmp_path / "link")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"measures": null}', '{"measures": {"reach": "1"}}', '{"measures": {"a": true}}']
)
def test_damaged_results_say_how_to_get_them_again(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(UserError, match=r"results\.json is damaged: .*; delete it and .* --resume"):
        read_results(tmp_path)


def test_results_are_read_or_not_there_yet(tmp_path):
    assert read_results(tmp_path) is None
    results = {"measures": {"reach": 1, "coverage": 0.5}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert read_results(tmp_path) == results
