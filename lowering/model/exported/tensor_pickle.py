"""Pickles of plain tensors, as torch.save writes them: checked without being loaded."""

from __future__ import annotations

import io
import pickletools
import re

from ethos_hil.lowering.formats.zip_members import BadArchive, members
from ethos_hil.lowering.model.exported.refused import RefusedPart, quoted
from ethos_hil.lowering.upstream.names.exported_schema import TENSOR_GLOBALS

_MEMBER = re.compile(
    r"[^/]+/(?:data\.pkl|byteorder|version|\.format_version|\.storage_alignment|data/\d+|\.data/serialization_id)"
)
_OPCODES = frozenset(
    {
        "APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPERSID", "BINPUT", "BINUNICODE",
        "BUILD", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "GLOBAL", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK",
        "NEWFALSE", "NEWTRUE", "NONE", "PROTO", "REDUCE", "SETITEM", "SETITEMS", "STOP", "TUPLE", "TUPLE1", "TUPLE2",
        "TUPLE3",
    }
)  # fmt: skip


def check_tensors(data: bytes, member: str) -> None:
    """Check that a member of a .pt2 is a file of torch.save with nothing but tensors, numbers, texts and containers.

    Raises:
        RefusedPart: it needs more, and what.
    """
    try:
        with members(io.BytesIO(data), len(data), packed=False) as inner:
            odd = [name for name in inner.sizes if not _MEMBER.fullmatch(name)]
            pickles = [name for name in inner.sizes if name.endswith("/data.pkl")]
            if odd or len(pickles) != 1:
                raise RefusedPart(member, f"not a file of torch.save with tensors: it has {quoted(odd or pickles)}")
            _check_pickle(inner.read(pickles[0]), member)
    except BadArchive as error:
        raise RefusedPart(member, f"not a file of torch.save: {error}") from error


def _check_pickle(data: bytes, member: str) -> None:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name not in _OPCODES:
                raise RefusedPart(member, f"a pickle with {opcode.name}, which tensors do not need")
            if opcode.name == "GLOBAL" and argument not in TENSOR_GLOBALS and not _is_dtype(str(argument)):
                wanted = str(argument).replace(" ", ".")
                raise RefusedPart(member, f"a pickle that needs {quoted(wanted)}, and tensors do not")
    except RefusedPart:
        raise
    except Exception as error:  # pickletools raises ValueError and others for damaged pickles
        raise RefusedPart(member, f"a damaged pickle: {error}") from error


def _is_dtype(name: str) -> bool:
    import torch

    module, _, attribute = name.partition(" ")
    return module == "torch" and isinstance(getattr(torch, attribute, None), torch.dtype)
