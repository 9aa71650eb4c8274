"""Input files: matching arrays are accepted; others are refused with the expected and the found form."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.lowering.formats.pte_model import Tensor

IMAGE = Tensor("FLOAT", (1, 3, 4, 4), (0, 1, 2, 3), 0, 0, None)
FLAGS = Tensor("CHAR", (2,), (0,), 0, 64, None)
IMAGE_VALUE = np.arange(48, dtype=np.float32).reshape(1, 3, 4, 4)
FLAGS_VALUE = np.array([1, -1], np.int8)
VALUES = IMAGE_VALUE, FLAGS_VALUE


def save(path: Path, *arrays: np.ndarray) -> Path:
    np.savez(path, *arrays)
    return path


def test_a_leading_axis_makes_several_input_sets(tmp_path: Path) -> None:
    both = np.stack([IMAGE_VALUE, IMAGE_VALUE + 1]), np.stack([FLAGS_VALUE, -FLAGS_VALUE])
    for arrays, expected in (
        ((IMAGE_VALUE, FLAGS_VALUE), [(IMAGE_VALUE, FLAGS_VALUE)]),
        (both, zip(*both, strict=True)),
    ):
        sets = InputFile.read(save(tmp_path / "x.npz", *arrays)).input_sets((IMAGE, FLAGS))
        np.testing.assert_equal(sets, tuple(expected))


MISFITS = {
    "one of two": [IMAGE_VALUE],
    "another shape": [IMAGE_VALUE[..., :3], FLAGS_VALUE],
    "another axis too many": [IMAGE_VALUE[None, None], FLAGS_VALUE],
    "another type": [IMAGE_VALUE.astype(np.float64), FLAGS_VALUE],
    "another type in a batch": [IMAGE_VALUE[None], FLAGS_VALUE[None].astype(np.uint8)],
    "the second of another type": [IMAGE_VALUE, FLAGS_VALUE.astype(np.uint8)],
    "two sets and one": [np.stack([IMAGE_VALUE] * 2), FLAGS_VALUE],
    "no sets": [IMAGE_VALUE[None][:0], FLAGS_VALUE[None][:0]],
    "not even elements": [IMAGE_VALUE, np.zeros((1, 9), np.float32)],
}


@pytest.mark.parametrize("arrays", MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_is_named(
    tmp_path: Path, arrays: list[np.ndarray], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never loaded."""
    monkeypatch.chdir(tmp_path)
    file = InputFile.read(save(Path("x.npz"), *arrays))
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(UsageError) as refused:
        file.input_sets((IMAGE, FLAGS))
    recorded.check(refused.value.message)


def test_a_program_without_inputs_has_one_set_and_takes_no_array(tmp_path: Path) -> None:
    assert InputFile.read(save(tmp_path / "none.npz")).input_sets(()) == ((),)
    with pytest.raises(UsageError, match=r"expected 0 arrays \(none\), found 1 \(arr_0 int8\[2\]\)$"):
        InputFile.read(save(tmp_path / "x.npz", FLAGS_VALUE)).input_sets(())


ANY = Tensor("FLOAT", (1,), (0,), 0, 0, None)
NAMES = ("left", "right")


def first_values(path: Path, *names: str, of: tuple[str, ...] = NAMES) -> list[float]:
    """Return what each tensor gets of a file whose arrays have these names and are 0, 1, ... in the file's order."""
    np.savez(path, **{name: np.full(1, number, np.float32) for number, name in enumerate(names)})
    (values,) = InputFile.read(path).input_sets((ANY,) * len(names), of)
    return [float(value[0]) for value in values]


ORDERS = {
    "left right": [0, 1],
    "right left": [1, 0],
    "arr_0 arr_1": [0, 1],
    "arr_1 arr_0": [1, 0],
    "input_1 input_0": [1, 0],
    "output_2 output_1": [1, 0],
    "b a": [0, 1],
    "input_1 arr_0": [0, 1],
}


def test_arrays_are_taken_by_name_or_number_or_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert {names: first_values(tmp_path / "x.npz", *names.split()) for names in ORDERS} == ORDERS
    assert first_values(tmp_path / "x.npz", "Image", of=("image",)) == [0]
    assert first_values(tmp_path / "x.npz", *(f"arr_{n}" for n in (0, 10, 2)), of=()) == [0, 2, 1]
    assert first_values(tmp_path / "x.npz", "right", "left", of=("left",)) == [0, 1], "not as many names as tensors"


@pytest.mark.parametrize(
    "names",
    [("right", "lef"), ("left", "x"), ("Right", "Left"), ("Left", "right"), ("rigth", "lefft"), ("a", "b", "depth"),
     ("left", "right", "d"), ("arr_0", "arr_1", "lift")],
    ids=" ".join,
)  # fmt: skip
def test_names_of_which_only_some_fit_are_refused(
    tmp_path: Path, names: tuple[str, ...], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a slip of the pen swaps two inputs, and the reference gets them swapped too."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        first_values(Path("x.npz"), *names, of=(*NAMES, "depth")[: len(names)])
    recorded.check(f"{refused.value.message}\n{refused.value.hint}")


def header_only(path: Path) -> None:
    """Write an .npz whose one array declares a shape and has no elements."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (4 << 40,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", stream.getvalue())


def packed_tightly(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        for _ in range(80):
            member.write(bytes(1 << 20))


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "the start of an archive": lambda path: path.write_bytes(b"PK\x03\x04 truncated"),
    "the start of an array": lambda path: path.write_bytes(b"\x93NUMPY"),
    "a text": lambda path: path.write_bytes(b"hello" * 100),
    "a pickled object": lambda path: np.savez(path, np.array([{"a": 1}], dtype=object), allow_pickle=True),
    "no file": lambda path: None,
    "more declared than there is": header_only,
    "much in little": packed_tightly,
    "a pipe": os.mkfifo,
}


def test_what_cannot_be_read_is_refused(tmp_path: Path, recorded: Recorded) -> None:
    """Pickles are never loaded, an archive is not unpacked to too much, and a pipe is not waited for."""
    messages = {}
    for number, (name, write) in enumerate(UNREADABLE.items()):
        path = tmp_path / f"{number}.npz"
        write(path)
        with pytest.raises(UsageError) as refused:
            InputFile.read(path)
        text = refused.value.message.replace(str(path), "x.npz")
        messages[name] = [re.sub(r"has [\d,]{6,} bytes", "has [some] bytes", text), refused.value.hint]
    recorded.check(messages)


def test_a_file_that_changes_before_it_is_loaded_is_refused(tmp_path: Path) -> None:
    file = InputFile.read(save(tmp_path / "x.npz", *VALUES))
    save(tmp_path / "x.npz", np.stack([IMAGE_VALUE] * 9), FLAGS_VALUE)
    with pytest.raises(UsageError, match="changed after it was first read"):
        file.input_sets((IMAGE, FLAGS))
