"""A reader for ExecuTorch's bundled programs (.bpte): a program, with test cases for its methods.

A test case has inputs, and the outputs that its author expects. Facts of the format: executorch 1.4.1,
devtools/bundled_program/schema/bundled_program_schema.fbs and core.py. The file has no tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Record, Schema
from ethos_hil.lowering.formats.pte_model import ITEM_SIZES, Tensor
from ethos_hil.lowering.upstream.names.schemas import BUNDLE_SCHEMA, SCHEMAS, bundle_schema_file, schema_folder

Arrays = tuple[np.ndarray, ...]

_IDENTIFIER = b"BP08"
_NAMESPACE = "executorch_flatbuffer."
_MAX_RANK = 16


@dataclass(frozen=True)
class BundledCase:
    """A test case: one input set, and the outputs expected. Shapes are logical (NCHW)."""

    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class BundledProgram:
    """A parsed and checked .bpte.

    Attributes:
        program: the .pte in it.
        cases: test cases by method. Whether they fit the program is not checked here.
    """

    program: bytes
    cases: Mapping[str, tuple[BundledCase, ...]]

    @classmethod
    def parse(cls, data: bytes, where: str) -> BundledProgram:
        """Read and check a .bpte.

        Args:
            data: the whole file.
            where: the file's name in an error.

        Raises:
            UsageError: the file is damaged; the error says how.
        """
        try:
            if not is_bundle(data):
                raise FlatbufferError(f"bytes 4 to 7 are {data[4:8]!r}, expected {_IDENTIFIER!r}")
            record = _schema().read("BundledProgram", data)
            if not record["program"]:
                raise FlatbufferError("it holds no program")
            cases: dict[str, tuple[BundledCase, ...]] = {}
            for suite in record["method_test_suites"] or ():
                name = suite["method_name"] or ""
                if name in cases:
                    raise FlatbufferError(f"it has test cases for method {name!r} twice")
                cases[name] = tuple(
                    _case(case, f"test case {index} of method {name!r}")
                    for index, case in enumerate(suite["test_cases"] or ())
                )
            return cls(bytes(record["program"]), cases)
        except FlatbufferError as error:
            raise UsageError(
                f"{where}: not a usable bundled program: {error}", hint=f"give a complete .bpte ({BUNDLE_SCHEMA})"
            ) from None


def is_bundle(data: bytes) -> bool:
    """Return whether a file says that it is a bundled program."""
    return data[4:8] == _IDENTIFIER


@cache
def _schema() -> Schema:
    texts = [(schema_folder() / name).read_text("utf-8") for name in SCHEMAS]
    return Schema.parse(texts[0], bundle_schema_file().read_text("utf-8").replace(_NAMESPACE, ""))


def _case(record: Record, where: str) -> BundledCase:
    return BundledCase(
        *(
            tuple(_array(value, f"{what} {index} of {where}") for index, value in enumerate(record[key] or ()))
            for key, what in (("inputs", "input"), ("expected_outputs", "expected output"))
        )
    )


def _array(value: Record, where: str) -> np.ndarray:
    """Return a value as an array. A number becomes one without dimensions."""
    found = value["val"]
    if found is None:
        raise FlatbufferError(f"{where} has no value")
    kind, record = found
    if kind != "Tensor":
        number = record[f"{kind.lower()}_val"]
        return np.array(bool(number) if kind == "Bool" else number)
    names = {code: name for name, code in _schema().enums["ScalarType"].items()}
    name = names.get(record["scalar_type"], "")
    if name not in ITEM_SIZES:
        raise FlatbufferError(f"{where} has the element type {record['scalar_type']}, which is not supported")
    sizes = tuple(record["sizes"] or ())
    data = bytes(record["data"] or b"")
    order = tuple(record["dim_order"] or ()) or tuple(range(len(sizes)))
    if len(sizes) > _MAX_RANK or any(size < 0 for size in sizes) or sorted(order) != list(range(len(sizes))):
        raise FlatbufferError(f"{where} has the shape {list(sizes)} in the order {list(order)}")
    wanted = math.prod(sizes) * ITEM_SIZES[name]
    if len(data) != wanted:
        raise FlatbufferError(f"{where} has {len(data):,} bytes, its type and shape need {wanted:,}")
    return Tensor(name, record["scalar_type"], sizes, order, None, 0, None).from_bytes(data)
