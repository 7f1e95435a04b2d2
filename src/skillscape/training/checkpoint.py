"""Checkpoints: a pytree as safetensors, with metadata as JSON. Reading one executes no code.

A checkpoint is a folder named after its step. It is written under a temporary name and renamed when complete, so that
an interrupted process never leaves a partial checkpoint.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialise_arrays

from skillscape.errors import UserError
from skillscape.training.files import link_error, read_bytes, read_json

FORMAT = "skillscape-checkpoint-2"
EARLIER = ("skillscape-checkpoint-1",)
LARGEST_METADATA = 256_000_000
"""Bytes of arrays.json: a replay buffer of a million rows may hold half as many episodes, each with four numbers."""
Tree = TypeVar("Tree")
Value = TypeVar("Value")


def save_tree(
    folder: Path,
    tree: PyTree,
    *,
    without: str | None = None,
    left_out: Collection[str] = (),
    metadata: dict[str, Any] | None = None,
) -> None:
    """Write ``tree`` as ``folder``/arrays.safetensors and arrays.json, replacing the folder only when all is on disk.

    Leaves whose path contains ``without`` are omitted. So are those whose path is in ``left_out``, which is written
    down, so that ``load_tree`` need not be told. ``metadata``: additional JSON values.
    """
    kept = [(name, leaf) for name, leaf in named_leaves(tree) if without is None or without not in name]
    arrays = {name: _to_numpy(leaf) for name, leaf in kept if name not in left_out}
    content = serialise_arrays(arrays)
    description: dict[str, Any] = {"format": FORMAT, "arrays": len(arrays)}
    if left_out:
        description["left_out"] = sorted(left_out)
    if metadata is not None:
        description["metadata"] = metadata
    description["sha256"] = _checksum(content, description)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    replaced = temporary.with_suffix(".replaced")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        _write(temporary / "arrays.safetensors", content)
        _write(temporary / "arrays.json", json.dumps(description, indent=1).encode())
        if folder.is_symlink():
            folder.unlink()
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if replaced.exists():
            replaced.rename(folder)
        raise UserError(
            f"Cannot write {folder}: {error.strerror}; free space or fix permissions; earlier checkpoints are intact."
        ) from error


def load_tree(folder: Path, like: Tree, *, without: str | None = None) -> Tree:
    """Read a tree with the structure, shapes and types of ``like``; leaves left out when saving come back as zeros."""
    arrays, description = _read(folder)
    left_out = description.get("left_out", [])
    if not isinstance(left_out, list):
        raise UserError(f"{folder} is damaged: it does not say what was left out of it.")
    return _restored(folder, arrays, like, without, {str(name) for name in left_out})


def load_tree_and_metadata(folder: Path, like: Tree) -> tuple[Tree, dict[str, Any]]:
    """Read a tree and its metadata."""
    arrays, description = _read(folder)
    return _restored(folder, arrays, like, None), _metadata(folder, description)


def load_metadata(folder: Path) -> dict[str, Any]:
    """The metadata of a saved tree."""
    return _metadata(folder, _read(folder)[1])


def _metadata(folder: Path, description: dict[str, Any]) -> dict[str, Any]:
    metadata = description.get("metadata")
    if not isinstance(metadata, dict):
        raise UserError(f"{folder} is damaged: it has no metadata.")
    return metadata


def _restored(
    folder: Path, arrays: dict[str, np.ndarray], like: Tree, without: str | None, left_out: Collection[str] = ()
) -> Tree:
    kept = [(name, leaf) for name, leaf in named_leaves(like) if without is None or without not in name]
    named = [(name, leaf) for name, leaf in kept if name not in left_out]
    expected = {name for name, _ in named}
    if missing := sorted(expected ^ set(arrays)):
        raise UserError(f"{folder} belongs to another configuration: {missing[0]} is in only one of the two.")
    for name, leaf in named:
        array, expected_shape = arrays[name], _to_shape(leaf)
        if (array.shape, array.dtype) != (expected_shape.shape, expected_shape.dtype):
            raise UserError(
                f"{folder} belongs to another configuration: {name} is {array.dtype}{list(array.shape)}, "
                f"expected {expected_shape.dtype}{list(expected_shape.shape)}."
            )
    leaves = [_from_numpy(arrays.get(name), leaf) for name, leaf in named_leaves(like)]
    restored: Tree = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return restored


def checkpoint_folder(folder: Path, step: int) -> Path:
    """The folder of the checkpoint of a step."""
    return folder / f"{step:012d}"


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """Steps and folders of all complete checkpoints, oldest first."""
    if folder.is_symlink():
        raise link_error(folder)
    if not folder.is_dir():
        return []
    return sorted((int(path.name), path) for path in folder.iterdir() if re.fullmatch("[0-9]+", path.name))


def read_newest(folder: Path, read: Callable[[Path], Value]) -> tuple[int, Value] | None:
    """The step and ``read`` of the newest checkpoint, or None. A damaged one is refused with advice on earlier ones."""
    complete = checkpoints(folder)
    if not complete:
        return None
    step, path = complete[-1]
    try:
        return step, read(path)
    except UserError as error:
        earlier = next((other for _, other in reversed(complete[:-1]) if _is_whole(other)), None)
        none = "none before it can be read either" if complete[:-1] else "there is no earlier one"
        advice = f"delete it to continue from {earlier}" if earlier else f"{none}: start again with --force"
        raise UserError(f"{str(error).rstrip('.')}; {advice}.") from error


def keep_newest(folder: Path, number: int) -> None:
    """Delete all but the newest ``number`` checkpoints, and the remains of interrupted writes."""
    superfluous = [path for _, path in checkpoints(folder)[:-number]]
    unfinished = [path for ending in ("partial", "replaced") for path in folder.glob(f".*.{ending}")]
    for path in [*unfinished, *superfluous]:
        shutil.rmtree(path, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    try:
        _read(folder)
    except UserError:
        return False
    return True


def _read(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and their description, after checking the checksum of both."""
    if folder.is_symlink():
        raise UserError(f"{folder} is not a checkpoint: it is a symbolic link.")
    for name in ("arrays.json", "arrays.safetensors"):
        if not (folder / name).exists():
            raise UserError(f"{folder} is not a checkpoint: {name} is missing.")
    try:
        description = read_json(folder / "arrays.json", advice="", largest=LARGEST_METADATA)
        content = read_bytes(folder / "arrays.safetensors")
    except UserError as error:
        raise UserError(f"{folder} is damaged: its files cannot be read.") from error
    version = description.get("format")
    if version in EARLIER:
        raise UserError(f"{folder} was written by an earlier version of skillscape; read it with that version.")
    if version != FORMAT:
        raise UserError(f"{folder} is not a checkpoint: its format is {version!r}, not {FORMAT!r}.")
    if _checksum(content, description) != description.get("sha256"):
        raise UserError(f"{folder} is damaged: its contents do not match their checksum.")
    try:
        return parse_arrays(content), description
    except SafetensorError as error:
        raise UserError(f"{folder} is damaged: {error}.") from error


def _checksum(content: bytes, description: dict[str, Any]) -> str:
    """SHA-256 of the arrays and of the description without the checksum itself."""
    rest = {name: value for name, value in description.items() if name != "sha256"}
    digest = hashlib.sha256(content)
    digest.update(json.dumps(rest, sort_keys=True).encode())
    return digest.hexdigest()


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """The leaves of a tree with their paths, by which checkpoints name them."""
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _is_key(leaf: Any) -> bool:  # noqa: ANN401
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _to_numpy(leaf: Any) -> np.ndarray:  # noqa: ANN401
    # safetensors writes the raw buffer, so it must be C-contiguous.
    return np.ascontiguousarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf).reshape(_to_shape(leaf).shape)


def _to_shape(leaf: Any) -> jax.ShapeDtypeStruct:  # noqa: ANN401
    shape: jax.ShapeDtypeStruct = jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    return jax.ShapeDtypeStruct(shape.shape, shape.dtype)


def _from_numpy(array: np.ndarray | None, leaf: Any) -> jax.Array:  # noqa: ANN401
    values = jax.numpy.zeros(leaf.shape, leaf.dtype) if array is None else jax.numpy.asarray(array)
    return jax.random.wrap_key_data(values) if _is_key(leaf) and array is not None else values


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
