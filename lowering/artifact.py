"""The product of lowering: a program, and everything needed to check, run and explain it.

An Artifact is plain data: it loads without torch, and a saved artifact is a folder of readable files.
"""

from __future__ import annotations

import bisect
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import asdict, dataclass, field, fields, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import DIGESTS, read_bytes, read_text
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.typed_json import from_json, new_converter, require
from ethos_hil.lowering.formats.array_archive import read_arrays
from ethos_hil.lowering.formats.io_scale import IoScales, io_scales
from ethos_hil.lowering.formats.pte_model import FORWARD, ExecutionPlan, KernelCall, default_method, fitting
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.program.placement import Placement
from ethos_hil.lowering.program.program_file import ProgramDelegates
from ethos_hil.lowering.vela.ini import SHIPPED, SystemConfiguration, VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode

SCHEMA_VERSION = 14
_ARRAYS = ("example_inputs", "floating", "quantised", "allowed")
"""Fields that are tuples of arrays, each saved in its own archive."""
_TEXTS = ("input_names", "delegated", "lost", "frozen", "output_names")
"""Fields that are tuples of texts."""
_OF_ENTRY = ("scheme", "placement", "delegates")
"""What the manifest has of every method."""
_PLAIN_FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(("key", "question", "model", "vela_ini"), str),
    **dict.fromkeys(("vela_flags", "notes"), tuple[str, ...]),
    "versions": Mapping[str, str],
    "memory_mode": MemoryMode | None,
}
"""Fields of an artifact that its manifest has as they are, with their types."""
_ETRECORD = "program.etrecord"
_CONFIG = "--config="
_SYSTEM = "--system-config="


@dataclass(frozen=True)
class NpuOp:
    """One entry of an NPU's command queue, mapped to the user's model.

    Attributes:
        id: "npu00000", unique in the program and of fixed width (readers of ExecuTorch's maps match substrings).
        npu_op: Vela's name, for example "DepthwiseConv2D".
        end_offset: byte offset of its last operation in the register command stream. An offset in the stream belongs to
            the first entry whose end_offset is not before it.
        tosa_op: the TOSA operator that it was scheduled from, for example "CONV2D".
        aten_ops: all operators of the float model that are fused into it, in order.
        module: path of the module that called the first of them ("stem.0"); "" for the model itself.
        source: the user's line that made that call, "net.py:12"; "" when unknown.
        debug_handles: ExecuTorch's handles of those operators.
        vela_cycles: the compiler's estimate. Provenance "vela": not a measurement.
        tensor: the tensor that it writes, or writes a part of: a name in the compiled TOSA program where Vela kept it,
            else a name that Vela invented; "" when unknown.
        operator: index of `tosa_op` among the operators of the compiled TOSA program, or -1.
        sources: all lines whose operators are fused into it, in order; `source` is one of them.
        vela_npu_cycles: what of `vela_cycles` would remain if the memories took no time.
        cascade: number of Vela's cascade that it is in, or 0.
    """

    id: str
    npu_op: str
    end_offset: int
    tosa_op: str
    aten_ops: tuple[str, ...]
    module: str
    source: str
    debug_handles: tuple[int, ...]
    vela_cycles: int
    tensor: str = ""
    operator: int = -1
    sources: tuple[str, ...] = ()
    vela_npu_cycles: int = 0
    cascade: int = 0


@dataclass(frozen=True)
class Delegate:
    """One partition of a method, compiled for the NPU.

    Attributes:
        index: position in the plan's list of delegates.
        instruction: index of the DelegateCall that runs it.
        tosa: its TOSA program, without debug information; None for a .pte that was not lowered here.
        vela: the delegate blob, as it is in the .pte; empty where TOSA is the end product.
        npu_ops: in stream order; empty for a .pte that was not lowered here.
        summary: Vela's totals under Vela's names, for example "cycles_total", "sram_memory_used" (KiB).
        compiled: the TOSA program that Vela compiled in place of `tosa`, because of a known defect; or None.
        defects: the ids of Vela's known defects that `tosa` meets.
    """

    index: int
    instruction: int
    tosa: bytes | None
    vela: bytes
    npu_ops: tuple[NpuOp, ...] = ()
    summary: Mapping[str, float | str] = field(default_factory=dict)
    compiled: bytes | None = None
    defects: tuple[str, ...] = ()

    @cached_property
    def blob(self) -> VelaBlob:
        """The parsed delegate blob; its scratch_size is the NPU's working memory in bytes."""
        return VelaBlob.parse(self.vela, f"delegate {self.index}")

    @cached_property
    def products(self) -> int | None:
        """The multiplications of its TOSA program (`ethos_hil.lowering.program.multiplications`), None without one."""
        from ethos_hil.lowering.program.multiplications import products_of_tosa  # late: not every reader asks for it

        return None if self.tosa is None else products_of_tosa(self.tosa)

    @cached_property
    def digests(self) -> tuple[str, str, str]:
        """SHA-256, hexadecimal, of what the TOSA program computes that was compiled, of the command stream, and of the
        weights; "" of what there is not. Records of every run have them.

        Lines of the model's source are in a TOSA program, so its bytes change when code moves. What it computes does
        not.
        """
        from ethos_hil.lowering.formats.tosa import content_digest  # late: not every run asks for it

        tosa = self.tosa if self.compiled is None else self.compiled
        parts = (self.blob.command_stream, self.blob.weights) if self.vela else (None, None)
        stream, weights = ("" if part is None else hashlib.sha256(part).hexdigest() for part in parts)
        return content_digest(tosa) if tosa else "", stream, weights


@dataclass(frozen=True, kw_only=True)
class _OfMethod:
    """What an artifact has of the method that it is seen from."""

    example_inputs: tuple[np.ndarray, ...] = ()
    input_names: tuple[str, ...] = ()
    scheme: str | None = None
    floating: tuple[np.ndarray, ...] = ()
    quantised: tuple[np.ndarray, ...] = ()
    allowed: tuple[np.ndarray, ...] = ()
    delegated: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    placement: Placement = field(default_factory=Placement)
    output_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoweredMethod(_OfMethod):
    """One of a program's methods; the attributes are those of `Artifact`."""

    name: str
    delegates: tuple[Delegate, ...] = ()


_OF_METHOD = tuple(field.name for field in fields(LoweredMethod) if field.name != "name")


@dataclass(frozen=True)
class Artifact(_OfMethod):
    """A lowered program, seen from one of its methods.

    Attributes:
        key: its key in the cache; "" for a .pte that was not lowered here.
        question: digest of what was asked (`ethos_hil.lowering.cache.key`); "" as well.
        model: the user's name for it.
        npu: the NPU it is compiled for, or None when nothing is delegated and the file does not state it, or when TOSA
            is the end product.
        memory_mode: the memory mode it is compiled for, or None when the file does not state it.
        tosa: the specification it was lowered to, when TOSA is the end product, else None.
        pte: the program.
        versions: versions of the tools that made it.
        vela_flags: Vela's arguments.
        vela_ini: the text of the user's configuration file that they name; "" where it is the one in Vela's wheel.
        notes: a sentence for each departure from upstream, without which lowering would have failed.
        method: the method that the following attributes describe.
        delegates: in the order of their calls; empty when nothing could be delegated.
        example_inputs: one input set, logical shapes; empty for a .pte that was not lowered here.
        input_names: the names of the method's arguments.
        scheme: how it was quantised, in words ("a8w8", "a8w8, a16w8 in head"); None when it was not, or was not
            lowered here.
        floating: the float module's outputs for `example_inputs`, computed in float64 where all its operators support
            it.
        quantised: the quantised module's outputs for them in PyTorch.
        allowed: how far each element of the program's answer to them can be from that, in the worst case of all
            roundings; inf where nothing is known, empty where no bound is (`ethos_hil.lowering.oracle.bounds`).
        delegated: the operators that went to its delegates (`ethos_hil.lowering.upstream.cpu_calls`).
        lost: a sentence for each buffer of the model that the program does not keep between calls, though it should
            (`ethos_hil.lowering.upstream.state`).
        frozen: what else a call of the model changes, so that the next answer is another; the program has the values of
            the first call.
        placement: how many operators are delegated, and each call on the CPU with its line and reason.
        output_names: the names of the method's outputs (`ethos_hil.lowering.formats.pte_model`); empty for a .pte
            that was not lowered here.
        others: the other methods; `of` returns the artifact as seen from one of them.
        etrecord: ExecuTorch's ETRecord of the program, for its Inspector; empty where none was asked for.
        ptd: the .ptd files beside a .pte that was not lowered here, by name; its data is then partly in them.
    """

    key: str
    model: str
    npu: EthosU | None
    pte: bytes
    delegates: tuple[Delegate, ...]
    versions: Mapping[str, str] = field(default_factory=dict)
    vela_flags: tuple[str, ...] = ()
    vela_ini: str = ""
    notes: tuple[str, ...] = ()
    memory_mode: MemoryMode | None = None
    tosa: TosaSpec | None = None
    method: str = FORWARD
    others: tuple[LoweredMethod, ...] = ()
    etrecord: bytes = b""
    question: str = ""
    ptd: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def program(self) -> Program:
        """The parsed .pte."""
        return Program.parse(self.pte, self.model, self.ptd)

    @property
    def plan(self) -> ExecutionPlan:
        """The method's execution plan."""
        return self.program.plan(self.method)

    @cached_property
    def io_scales(self) -> tuple[IoScales, IoScales]:
        """What the program says of the real numbers that the method's integer inputs and outputs stand for."""
        return io_scales(self.program.plans, self.plan)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the .pte, hexadecimal."""
        return hashlib.sha256(self.pte).hexdigest()

    @property
    def contents(self) -> str:
        """The same of the .pte with the .ptd files beside it."""
        parts = (self.sha256, *(hashlib.sha256(data).hexdigest() for data in self.ptd.values()))
        return hashlib.sha256("".join(parts).encode()).hexdigest() if self.ptd else self.sha256

    @property
    def npu_ops(self) -> tuple[NpuOp, ...]:
        """The operations of all delegates, in the order they run."""
        return tuple(op for delegate in self.delegates for op in delegate.npu_ops)

    @property
    def cpu_ops(self) -> tuple[str, ...]:
        """Full names of the operators that run on the CPU, in the order they run."""
        return tuple(call.operator for call in self.plan.instructions if isinstance(call, KernelCall))

    @property
    def pytorch(self) -> tuple[np.ndarray, ...]:
        """PyTorch's answer to the example inputs that is nearest to the program's: the quantised module's, if any."""
        return self.quantised or self.floating

    @property
    def foreign(self) -> bool:
        """Whether it was not lowered here, so that nothing is known of the model it was made from."""
        return not self.key

    @property
    def user_ini(self) -> VelaIni | None:
        """The user's configuration file that Vela was given, or None for the one in its wheel."""
        return VelaIni(self._vela_value(_CONFIG), self.vela_ini) if self.vela_ini else None

    @property
    def system_name(self) -> str:
        """The name of the system configuration that it is compiled for; "" where the file does not state it."""
        return self._vela_value(_SYSTEM)

    @property
    def system(self) -> SystemConfiguration | None:
        """The system configuration that it is compiled for; None where only its name is known, or not even that."""
        name = self.system_name
        if self.npu is None or not name or (not self.vela_ini and self._vela_value(_CONFIG) != SHIPPED):
            return None
        try:
            return (self.user_ini or VelaIni.shipped()).system(name, self.npu)
        except UsageError:  # a .pte of another Vela's
            return None

    def _vela_value(self, flag: str) -> str:
        """Return the value of the last of these flags, as Vela takes it, or ""."""
        return next((word.removeprefix(flag) for word in reversed(self.vela_flags) if word.startswith(flag)), "")

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the method's outputs, one for each; numbers where they have no names."""
        return fitting(self.output_names, len(self.plan.outputs))

    @property
    def keeps_state(self) -> bool:
        """Whether a call of the method may depend on earlier ones."""
        return bool(self.plan.state)

    @property
    def methods(self) -> tuple[LoweredMethod, ...]:
        """All methods; the one that the artifact is seen from comes first."""
        return (LoweredMethod(self.method, **{name: getattr(self, name) for name in _OF_METHOD}), *self.others)

    def of(self, method: str | None) -> Artifact:
        """Return the same program as seen from another method; None means no change. Raises UsageError, which lists
        the methods.
        """
        if method in (None, self.method):
            return self
        mine, *others = self.methods
        for chosen in others:
            if chosen.name == method:
                rest = (mine, *(other for other in others if other is not chosen))
                return replace(self, method=method, others=rest, **{name: getattr(chosen, name) for name in _OF_METHOD})
        names = ", ".join(method.name for method in self.methods)
        raise UsageError(f"{self.model} has no method {method!r}", hint=f"it has: {names}")

    def delegate_at(self, instruction: int) -> Delegate:
        """Return the delegate that instruction `instruction` calls."""
        for delegate in self.delegates:
            if delegate.instruction == instruction:
                return delegate
        raise KeyError(f"instruction {instruction} of {self.model} calls no delegate")

    def save(self, folder: Path) -> None:
        """Write the artifact into `folder`, which must exist and be empty; all of it is on disk when this returns."""
        manifest: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "key": self.key,
            "question": self.question,
            "model": self.model,
            "npu": self.npu.name if self.npu else None,
            "memory_mode": asdict(self.memory_mode) if self.memory_mode else None,
            "tosa": str(self.tosa) if self.tosa else None,
            "sha256": self.sha256,
            "versions": dict(self.versions),
            "vela_flags": self.vela_flags,
            "vela_ini": self.vela_ini,
            "notes": self.notes,
            "ptd": list(self.ptd),
            "methods": list(map(_method_entry, self.methods)),
        }
        digests: dict[str, str] = {}

        def write(name: str, data: bytes) -> None:
            digests[name] = hashlib.sha256(data).hexdigest()
            write_synced(folder / name, data)

        write("model.pte", self.pte)
        for number, data in enumerate(self.ptd.values()):
            write(f"data-{number}.ptd", data)
        if self.etrecord:
            write(_ETRECORD, self.etrecord)
        for number, method in enumerate(self.methods):
            prefix = prefix_of(number, method.name)
            for delegate in method.delegates:
                write(f"{prefix}delegate-{delegate.index}.vela", delegate.vela)
                if delegate.tosa is not None:
                    write(f"{prefix}delegate-{delegate.index}.tosa", delegate.tosa)
                if delegate.compiled is not None:
                    write(f"{prefix}delegate-{delegate.index}.compiled.tosa", delegate.compiled)
            for name in _ARRAYS:
                write(f"{prefix}{name}.npz", packed(getattr(method, name)))
        write("artifact.json", (json.dumps(manifest, indent=1) + "\n").encode())
        sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        write_synced(folder / DIGESTS, sums.encode())
        sync_folder(folder)

    @classmethod
    def of_methods(cls, methods: Sequence[LoweredMethod], **rest: Any) -> Artifact:
        """Return the artifact of some methods, seen from the default one; `rest` has the fields that belong to no
        method.
        """
        first, *others = methods
        seen = cls(
            **rest, method=first.name, others=tuple(others), **{name: getattr(first, name) for name in _OF_METHOD}
        )
        return seen.of(default_method(method.name for method in methods))

    @classmethod
    def load(cls, folder: Path) -> Artifact:
        """Read a saved artifact. Raises UsageError when anything is missing or differs from what was written."""
        files = verified_files(folder, _ARRAYS)
        try:
            manifest = json.loads(files["artifact.json"])
            version = manifest["schema_version"]
            if version != SCHEMA_VERSION:
                raise UsageError(f"{folder}: artifact of schema version {version}, this program reads {SCHEMA_VERSION}")
            return cls.of_methods(
                [_method(number, entry, files) for number, entry in enumerate(manifest["methods"])],
                npu=EthosU.parse(manifest["npu"]) if manifest["npu"] else None,
                pte=files["model.pte"],
                etrecord=files.get(_ETRECORD, b""),
                ptd={name: files[f"data-{number}.ptd"] for number, name in enumerate(manifest.get("ptd", ()))},
                tosa=TosaSpec.parse(manifest["tosa"]) if manifest["tosa"] else None,
                **{name: from_json(kind, manifest[name]) for name, kind in _PLAIN_FIELDS.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OSError) as error:
            raise UsageError(f"{folder}: not a usable artifact: {error}") from None

    @classmethod
    def of_program(cls, pte: bytes, model: str, ptd: Mapping[str, bytes] | None = None) -> Artifact:
        """Return the artifact of a .pte that was not lowered here. It has no TOSA, hence no reference, and no map.

        Args:
            pte: the program.
            model: the user's name for it.
            ptd: the .ptd files beside it, by name.

        Raises:
            UsageError: the program is damaged or lacks a .ptd, or its delegates disagree or are not for an Ethos-U.
        """
        ptd = ptd or {}
        delegates = ProgramDelegates.of(pte, model, ptd)
        plans = Program.parse(pte, model, ptd).plans
        methods = [
            LoweredMethod(
                plan.name,
                tuple(Delegate(part.index, part.instruction, None, part.vela) for part in delegates.methods[plan.name]),
                placement=Placement.of_plan(plan),
            )
            for plan in [plan for plan in plans if plan.number is None] or plans
        ]
        return cls.of_methods(
            methods,
            key="",
            model=model,
            npu=delegates.npu,
            pte=pte,
            memory_mode=delegates.memory_mode,
            vela_flags=delegates.vela_flags,
            ptd=ptd,
        )

    def rename(self, model: str) -> Artifact:
        """Return the same artifact under the user's present name for it."""
        return replace(self, model=model)


def _method_entry(method: LoweredMethod) -> dict[str, Any]:
    return {
        "name": method.name,
        "scheme": method.scheme,
        **{name: getattr(method, name) for name in _TEXTS},
        "placement": asdict(method.placement),
        "delegates": [
            {
                "index": delegate.index,
                "instruction": delegate.instruction,
                "has_tosa": delegate.tosa is not None,
                "summary": dict(delegate.summary),
                "has_compiled": delegate.compiled is not None,
                "defects": delegate.defects,
                "npu_ops": [asdict(op) for op in delegate.npu_ops],
            }
            for delegate in method.delegates
        ],
    }


def _method(number: int, entry: Mapping[str, Any], files: Mapping[str, bytes]) -> LoweredMethod:
    prefix = prefix_of(number, entry["name"])
    require(entry["placement"], ("delegated", "calls"))
    archives = {name: arrays(files[f"{prefix}{name}.npz"]) for name in _ARRAYS}
    delegates = [_with_files(part, f"{prefix}delegate-{part['index']}", files) for part in entry["delegates"]]
    return from_json(LoweredMethod, {**entry, **archives, "delegates": delegates}, (*_TEXTS, *_OF_ENTRY), _JSON)


def _with_files(entry: Mapping[str, Any], name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what the manifest has of a delegate, and what its files have."""
    return {
        **require(entry, ("summary", "defects")),
        "npu_ops": [require(op, ("sources",)) for op in entry["npu_ops"]],
        "vela": files[f"{name}.vela"],
        "tosa": files[f"{name}.tosa"] if entry["has_tosa"] else None,
        "compiled": files[f"{name}.compiled.tosa"] if entry["has_compiled"] else None,
    }


_JSON = new_converter(bounded=True)
_JSON.register_structure_hook_func(lambda kind: kind in (np.ndarray, bytes), lambda value, _: value)
_JSON.register_structure_hook_func(
    lambda kind: kind == float | str, lambda value, _: _JSON.structure(value, str if isinstance(value, str) else float)
)


def row_at(rows: Sequence[NpuOp], offset: int) -> int | None:
    """The index of the row that covers a byte offset of the command stream; None behind the last row.

    A row covers the stream from the end of the row before it up to its own last operation.

    Args:
        rows: a delegate's `npu_ops`, in stream order.
        offset: in bytes from the start of the register command stream.
    """
    index = bisect.bisect_left(rows, offset, key=lambda row: row.end_offset)
    return index if index < len(rows) else None


_MOST_DIGESTS = 1 << 20  # bytes


def write_synced(path: Path, data: bytes) -> None:
    """Write a file; it is on disk when this returns."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Put a folder on disk: the names in it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def verified_files(folder: Path, archives: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of every file in the digest list, each checked against its digest.

    Args:
        folder: the artifact's.
        archives: names of the archives that every artifact has.

    Raises:
        UsageError: a file is missing, or differs from what was written.
    """
    try:
        text = read_text(folder / DIGESTS, most=_MOST_DIGESTS)
        expected = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
        if any("/" in name or name in (".", "..") for name in expected):
            raise UsageError(f"{folder}: not a complete artifact: its digest list names files elsewhere")
        files = {name: read_bytes(folder / name) for name in expected}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder}: not a complete artifact: {error}") from None
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != expected[name]:
            raise UsageError(f"{folder / name}: its contents differ from what was written")
    needed = {"artifact.json", "model.pte", *(f"{name}.npz" for name in archives)}
    if not text.endswith("\n") or not needed <= files.keys():
        raise UsageError(f"{folder}: not a complete artifact: its digest list lacks a file")
    return files


def arrays(archive: bytes) -> tuple[np.ndarray, ...]:
    """Return the arrays of an .npz, in the order of their names."""
    members = read_arrays(io.BytesIO(archive))
    return tuple(members[name] for name in sorted(members))


def packed(items: Sequence[np.ndarray]) -> bytes:
    """Return an .npz of arrays, from which `arrays` reads them in this order."""
    archive = io.BytesIO()
    np.savez(archive, **{f"{index:06d}": array for index, array in enumerate(items)})
    return archive.getvalue()


def prefix_of(number: int, method: str) -> str:
    """Return the prefix of the names of a method's files; it is empty for the first method."""
    return f"{method}." if number else ""
