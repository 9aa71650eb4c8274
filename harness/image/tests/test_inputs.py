"""Input files: matching arrays are accepted; others are refused with the expected and the found form."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.lowering.formats.pte_model import Tensor

IMAGE = Tensor("FLOAT", (1, 3, 4, 4), (0, 1, 2, 3), 0, 0, None)
FLAGS = Tensor("CHAR", (2,), (0,), 0, 64, None)
IMAGE_VALUE = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
FLAGS_VALUE = np.array([1, -1], np.int8)


def save(path: Path, *arrays: np.ndarray) -> Path:
    np.savez(path, *arrays)
    return path


def test_arrays_of_the_inputs_own_shapes_are_one_input_set(tmp_path: Path) -> None:
    (values,) = InputFile.read(save(tmp_path / "x.npz", IMAGE_VALUE, FLAGS_VALUE)).input_sets((IMAGE, FLAGS))
    assert np.array_equal(values[0], IMAGE_VALUE)
    assert np.array_equal(values[1], FLAGS_VALUE)


def test_a_leading_axis_makes_several_input_sets(tmp_path: Path) -> None:
    path = save(tmp_path / "x.npz", np.stack([IMAGE_VALUE, IMAGE_VALUE + 1]), np.stack([FLAGS_VALUE, -FLAGS_VALUE]))
    sets = InputFile.read(path).input_sets((IMAGE, FLAGS))
    assert len(sets) == 2
    assert np.array_equal(sets[1][0], IMAGE_VALUE + 1)
    assert np.array_equal(sets[1][1], -FLAGS_VALUE)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([IMAGE_VALUE], r"expected 2 arrays \(float32\[1, 3, 4, 4\], int8\[2\]\), found 1 \(arr_0 float32"),
        ([IMAGE_VALUE[..., :3], FLAGS_VALUE], r"'arr_0': expected float32\[1, 3, 4, 4\].*found float32\[1, 3, 4, 3\]"),
        ([IMAGE_VALUE.astype(np.float64), FLAGS_VALUE], r"expected float32.*found float64\[1, 3, 4, 4\]"),
        ([IMAGE_VALUE, FLAGS_VALUE.astype(np.uint8)], r"'arr_1': expected int8\[2\].*found uint8\[2\]"),
        ([np.stack([IMAGE_VALUE] * 2), FLAGS_VALUE], r"different numbers of sets.*arr_0: 2, arr_1: 1"),
        ([IMAGE_VALUE[None][:0], FLAGS_VALUE[None][:0]], r"or none"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, arrays: list[np.ndarray], message: str) -> None:
    file = InputFile.read(save(tmp_path / "x.npz", *arrays))
    with pytest.raises(UsageError, match=message):
        file.input_sets((IMAGE, FLAGS))


ANY = Tensor("FLOAT", (1,), (0,), 0, 0, None)
NAMES = ("left", "right")


def first_values(path: Path, *names: str, of: tuple[str, ...] = NAMES) -> list[float]:
    """Return what each tensor gets of a file whose arrays have these names and are 0, 1, ... in the file's order."""
    np.savez(path, **{name: np.full(1, number, np.float32) for number, name in enumerate(names)})
    (values,) = InputFile.read(path).input_sets((ANY,) * len(names), of)
    return [float(value[0]) for value in values]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("left", "right"), [0, 1]),
        (("right", "left"), [1, 0]),
        (("arr_0", "arr_1"), [0, 1]),
        (("arr_1", "arr_0"), [1, 0]),
        (("input_1", "input_0"), [1, 0]),
        (("output_2", "output_1"), [1, 0]),
        (("b", "a"), [0, 1]),
        (("input_1", "arr_0"), [0, 1]),
    ],
)
def test_arrays_are_taken_by_name_or_number_or_in_the_order_of_the_file(
    tmp_path: Path, names: tuple[str, ...], order: list[float]
) -> None:
    assert first_values(tmp_path / "x.npz", *names) == order


def test_a_single_array_may_have_any_name_and_numbers_count_beyond_nine(tmp_path: Path) -> None:
    assert first_values(tmp_path / "x.npz", "Image", of=("image",)) == [0]
    assert first_values(tmp_path / "x.npz", *(f"arr_{n}" for n in (0, 10, 2)), of=()) == [0, 2, 1]
    assert first_values(tmp_path / "x.npz", "right", "left", of=("left",)) == [0, 1], "not as many names as tensors"


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (("right", "lef"), "lef: not a name of the program's, where right does", "did you mean left?"),
        (("left", "x"), "x: not a name of the program's, where left does", "The names are left, right"),
        (("Right", "Left"), "Right, Left: .*upper and lower case differ", "did you mean right, left?"),
        (("Left", "right"), "Left: not a name", "did you mean left?"),
        (("rigth", "lefft"), "rigth, lefft: .*order in the file is another", "did you mean right, left?"),
    ],
)
def test_names_of_which_only_some_fit_are_refused(
    tmp_path: Path, names: tuple[str, ...], message: str, hint: str
) -> None:
    """Else a slip of the pen swaps two inputs, and the reference gets them swapped too."""
    with pytest.raises(UsageError, match=message) as refused:
        first_values(tmp_path / "x.npz", *names)
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 truncated", b"\x93NUMPY", b"hello" * 100])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"x\.npz is not a readable \.npz"):
        InputFile.read(path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(UsageError, match="not a readable"):
        InputFile.read(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such inputs file"):
        InputFile.read(tmp_path / "x.npz")


def header_only(path: Path, shape: tuple[int, ...]) -> Path:
    """Write an .npz whose one array declares a shape and has no elements."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", stream.getvalue())
    return path


def test_what_an_array_declares_is_compared_with_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"declares float32\[4398046511104\], 17,592,186,044,416 bytes, and has 0"):
        InputFile.read(header_only(tmp_path / "x.npz", (4 << 40,)))


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        for _ in range(80):
            member.write(bytes(1 << 20))
    with pytest.raises(UsageError, match=r"it has [\d,]+ bytes and unpacks to 83,886,080; at most 100 times"):
        InputFile.read(path)


def test_an_array_that_does_not_fit_is_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = InputFile.read(save(tmp_path / "x.npz", IMAGE_VALUE, np.zeros((1, 9), np.float32)))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(UsageError, match="found float32"):
        file.input_sets((IMAGE, FLAGS))


def test_a_file_that_changes_before_it_is_loaded_is_refused(tmp_path: Path) -> None:
    file = InputFile.read(save(tmp_path / "x.npz", IMAGE_VALUE, FLAGS_VALUE))
    save(tmp_path / "x.npz", np.stack([IMAGE_VALUE] * 9), FLAGS_VALUE)
    with pytest.raises(UsageError, match="changed after it was first read"):
        file.input_sets((IMAGE, FLAGS))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npz")
    with pytest.raises(UsageError, match="it is a named pipe, not a file"):
        InputFile.read(tmp_path / "x.npz")
