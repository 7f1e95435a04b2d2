"""Checkpoints come back bit for bit, or are refused in one sentence that offers the one before."""

import errno
import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from skillscape.errors import UserError
from skillscape.training import checkpoint
from skillscape.training.checkpoint import (
    checkpoint_folder,
    checkpoints,
    keep_newest,
    load_metadata,
    load_tree,
    load_tree_and_metadata,
    read_newest,
    save_tree,
)


def tree(seed=0):
    return {
        "key": jax.random.key(seed),
        "keys": jax.random.split(jax.random.key(seed), 3),
        "weights": (jax.random.normal(jax.random.key(seed), (3, 2)), jnp.array([jnp.nan, -0.0, jnp.inf, 1e-40])),
        "count": jnp.int32(7 + seed),
        "bytes": jnp.arange(4, dtype=jnp.uint8),
        "flags": jnp.array([True, False]),
        "empty": jnp.zeros((0, 3)),
        "opt_state": {"moment": jnp.ones((2, 2)), "count": jnp.int32(5)},
        "nothing": None,
    }


def load_newest(folder):
    return read_newest(folder, lambda path: load_tree(path, tree()))


def bits(tree):
    """Each leaf as its kind and bytes."""

    def one(leaf):
        kind = (leaf.shape, str(leaf.dtype))
        data = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        return kind, np.asarray(data).tobytes()

    return jax.tree.map(one, tree)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_bit_comes_back(tmp_path):
    save_tree(tmp_path / "saved", tree())
    assert bits(load_tree(tmp_path / "saved", tree(seed=1))) == bits(tree())


def test_shapes_alone_are_enough_to_load(tmp_path):
    save_tree(tmp_path / "saved", tree())
    assert bits(load_tree(tmp_path / "saved", jax.eval_shape(tree))) == bits(tree())


def test_restored_keys_draw_the_same_numbers(tmp_path):
    save_tree(tmp_path / "saved", tree())
    restored = load_tree(tmp_path / "saved", jax.eval_shape(tree))
    assert jax.random.normal(restored["key"]) == jax.random.normal(tree()["key"])


def test_arrays_that_are_not_contiguous_come_back(tmp_path):
    turned = {"turned": np.arange(6.0, dtype=np.float32).reshape(2, 3).T}
    save_tree(tmp_path / "saved", turned)
    np.testing.assert_array_equal(load_tree(tmp_path / "saved", turned)["turned"], turned["turned"])


def test_leaves_left_out_come_back_as_zeros(tmp_path):
    save_tree(tmp_path / "saved", tree(), without="opt_state")
    restored = load_tree(tmp_path / "saved", jax.eval_shape(tree), without="opt_state")
    assert bits(restored["opt_state"]) == bits({"moment": jnp.zeros((2, 2)), "count": jnp.int32(0)})
    assert bits(restored["weights"]) == bits(tree()["weights"])


def test_leaves_left_out_are_not_on_disk(tmp_path):
    save_tree(tmp_path / "saved", tree(), without="opt_state")
    with pytest.raises(UserError, match=r"another configuration: .*opt_state"):
        load_tree(tmp_path / "saved", tree())


def test_saving_again_replaces(tmp_path):
    save_tree(tmp_path / "saved", tree())
    save_tree(tmp_path / "saved", tree(seed=2))
    assert load_tree(tmp_path / "saved", tree())["count"] == 9
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


# Writes that fail


def full_disk(*_arguments, **_options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_to_sync(monkeypatch):
    monkeypatch.setattr(checkpoint.os, "fsync", full_disk)


def fail_at_the_second_file(monkeypatch):
    write = checkpoint._write
    monkeypatch.setattr(
        checkpoint, "_write", lambda path, content: (full_disk if path.suffix == ".json" else write)(path, content)
    )


def fail_to_rename(monkeypatch):
    monkeypatch.setattr(Path, "rename", full_disk)


def fail_to_rename_the_new(monkeypatch):
    rename = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda path, target: (full_disk if path.suffix == ".partial" else rename)(path, target)
    )


@pytest.mark.parametrize("fail", [fail_to_sync, fail_at_the_second_file, fail_to_rename, fail_to_rename_the_new])
@pytest.mark.parametrize("name", ["saved", "next"])
def test_a_full_disk_leaves_the_previous_checkpoint_and_no_debris(tmp_path, monkeypatch, fail, name):
    save_tree(tmp_path / "saved", tree())
    before = files(tmp_path)
    fail(monkeypatch)
    with pytest.raises(UserError, match="No space left on device") as caught:
        save_tree(tmp_path / name, tree(seed=2))
    assert is_a_sentence(caught.value)
    assert files(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_file_in_the_way_is_a_users_error(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(UserError, match="Cannot write"):
        save_tree(tmp_path / "checkpoints" / "1", tree())


def test_what_a_killed_write_left_behind_is_no_checkpoint_and_is_cleared(tmp_path):
    save_tree(checkpoint_folder(tmp_path, 100), tree())
    (tmp_path / ".000000000200.4711.partial").mkdir()
    assert [step for step, _ in checkpoints(tmp_path)] == [100]
    keep_newest(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["000000000100"]


# Damage


def truncate(folder):
    path = folder / "arrays.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


def flip_a_bit(folder):
    path = folder / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def empty_the_arrays(folder):
    (folder / "arrays.safetensors").write_bytes(b"")


def break_the_description(folder):
    (folder / "arrays.json").write_text('{"format": "skillsc')


def garble_the_description(folder):
    (folder / "arrays.json").write_bytes(b"\xff\xfe\x00")


def list_as_description(folder):
    (folder / "arrays.json").write_text("[1, 2]")


def foreign_format(folder):
    description = json.loads((folder / "arrays.json").read_text())
    (folder / "arrays.json").write_text(json.dumps({**description, "format": "other-checkpoint-9"}))


def change_a_note(folder):
    path = folder / "arrays.json"
    path.write_text(path.read_text().replace('"episode": 41', '"episode": 42'))


def drop_the_notes(folder):
    description = json.loads((folder / "arrays.json").read_text())
    del description["metadata"]
    (folder / "arrays.json").write_text(json.dumps(description))


def nest_the_description(folder):
    (folder / "arrays.json").write_text('{"notes": ' + "[" * 100_000 + "]" * 100_000 + "}")


def count_too_far(folder):
    (folder / "arrays.json").write_text('{"arrays": ' + "9" * 5_000 + "}")


def link_the_arrays(folder):
    (folder / "arrays.safetensors").rename(folder / "elsewhere")
    (folder / "arrays.safetensors").symlink_to(folder / "elsewhere")


def drop_the_arrays(folder):
    (folder / "arrays.safetensors").unlink()


def folder_for_a_file(folder):
    (folder / "arrays.json").unlink()
    (folder / "arrays.json").mkdir()


NOTES = {"collector": {"episode": 41, "return": -1.5e-300, "skill": [0.1, -0.0]}, "replay": {"state": 2**127 + 1}}
DAMAGES = [
    (truncate, "damaged"),
    (flip_a_bit, "damaged"),
    (empty_the_arrays, "damaged"),
    (break_the_description, "damaged"),
    (garble_the_description, "damaged"),
    (list_as_description, "damaged"),
    (foreign_format, "not a checkpoint"),
    (change_a_note, "damaged"),
    (drop_the_notes, "damaged"),
    (nest_the_description, "damaged"),
    (count_too_far, "damaged"),
    (link_the_arrays, "damaged"),
    (drop_the_arrays, "missing"),
    (folder_for_a_file, "damaged"),
]


@pytest.mark.parametrize(("damage", "word"), DAMAGES)
def test_damage_is_told_in_one_sentence(tmp_path, damage, word):
    save_tree(tmp_path / "saved", tree(), metadata=NOTES)
    damage(tmp_path / "saved")
    with pytest.raises(UserError, match=word) as caught:
        load_tree(tmp_path / "saved", tree())
    assert is_a_sentence(caught.value)
    assert str(tmp_path / "saved") in str(caught.value)


@pytest.mark.parametrize(("damage", "word"), DAMAGES)
def test_the_previous_good_checkpoint_is_offered(tmp_path, damage, word):
    for step in (100, 200, 300):
        save_tree(checkpoint_folder(tmp_path, step), tree(step), metadata=NOTES)
    damage(checkpoint_folder(tmp_path, 200))
    damage(checkpoint_folder(tmp_path, 300))
    with pytest.raises(UserError, match=f"{word}.*delete it to continue from .*000000000100") as caught:
        load_newest(tmp_path)
    assert is_a_sentence(caught.value)


def test_notes_come_back_with_their_tree(tmp_path):
    save_tree(tmp_path / "saved", tree(), metadata=NOTES)
    restored, metadata = load_tree_and_metadata(tmp_path / "saved", tree(seed=1))
    assert bits(restored) == bits(tree())
    assert metadata == load_metadata(tmp_path / "saved") == NOTES


def test_notes_that_were_not_given_are_missed(tmp_path):
    save_tree(tmp_path / "saved", tree())
    with pytest.raises(UserError, match="has no metadata"):
        load_metadata(tmp_path / "saved")


def test_a_checkpoint_of_an_earlier_version_is_called_that(tmp_path):
    for step in (100, 200):
        save_tree(checkpoint_folder(tmp_path, step), tree())
        path = checkpoint_folder(tmp_path, step) / "arrays.json"
        path.write_text(path.read_text().replace("skillscape-checkpoint-2", "skillscape-checkpoint-1"))
    with pytest.raises(UserError, match=r"earlier version of skillscape.*none before it can be read either.*--force"):
        load_newest(tmp_path)


def test_a_folder_of_checkpoints_that_is_a_link_is_neither_read_nor_cleared(tmp_path):
    for step in (100, 200, 300):
        save_tree(checkpoint_folder(tmp_path / "elsewhere", step), tree())
    (tmp_path / "checkpoints").symlink_to(tmp_path / "elsewhere")
    for use in (load_newest, lambda folder: keep_newest(folder, 1)):
        with pytest.raises(UserError, match="symbolic link"):
            use(tmp_path / "checkpoints")
    assert len(checkpoints(tmp_path / "elsewhere")) == 3


def test_a_lone_damaged_checkpoint_says_to_start_again(tmp_path):
    save_tree(checkpoint_folder(tmp_path, 100), tree())
    flip_a_bit(checkpoint_folder(tmp_path, 100))
    with pytest.raises(UserError, match="there is no earlier one: start again with --force"):
        load_newest(tmp_path)


def is_a_sentence(error):
    text = str(error)
    return text.endswith(".") and "\n" not in text


@pytest.mark.parametrize(
    "other",
    [
        {**tree(), "empty": jnp.zeros((1, 3))},
        {**tree(), "count": jnp.float32(7)},
        {**tree(), "keys": jax.random.key(0)},
        {**tree(), "more": jnp.zeros(2)},
        {name: leaf for name, leaf in tree().items() if name != "flags"},
    ],
    ids=["shape", "type", "keys", "more", "fewer"],
)
def test_a_tree_of_another_kind_is_refused(tmp_path, other):
    save_tree(tmp_path / "saved", tree())
    with pytest.raises(UserError, match="belongs to another configuration") as caught:
        load_tree(tmp_path / "saved", other)
    assert is_a_sentence(caught.value)


# Many checkpoints


def test_the_newest_is_loaded_by_step_not_by_time(tmp_path):
    for step in (900, 1000, 200):
        save_tree(checkpoint_folder(tmp_path, step), tree(step))
    step, loaded = load_newest(tmp_path)
    assert (step, int(loaded["count"])) == (1000, 1007)


@pytest.mark.parametrize("made", [True, False])
def test_no_checkpoint_is_none(tmp_path, made):
    folder = tmp_path / "checkpoints"
    if made:
        folder.mkdir()
    assert load_newest(folder) is None


def test_only_the_newest_are_kept(tmp_path):
    for step in (100, 200, 300, 1000):
        save_tree(checkpoint_folder(tmp_path, step), tree())
    keep_newest(tmp_path, 2)
    assert [step for step, _ in checkpoints(tmp_path)] == [300, 1000]
