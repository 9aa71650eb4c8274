"""Programs that are compiled already: a .pte, or a .bpte, which has test cases too."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_bytes
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.named_data import read_ptd
from ethos_hil.lowering.formats.pte_model import FORWARD
from ethos_hil.lowering.formats.pte_reader import BundledCase, BundledProgram, Program, is_bundle, missing_data
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.vela.memory_mode import MemoryMode

PROGRAM_SUFFIXES = (".pte", ".bpte")
_PTD = ".ptd"
FORMS = "give file.py:function, package.module:function, a .pt2, a .pte or a .bpte"
_MOST_PROGRAM = 2 << 30
"""Bytes of a .pte: the offsets in a FlatBuffer have 31 bits."""


@dataclass(frozen=True)
class ProgramFile:
    """A program that is compiled already.

    Attributes:
        label: the user's name for it.
        data: the .pte's bytes.
        cases: test cases by method, of a .bpte.
        ptd: the bytes of the .ptd files beside it, by name.
        notes: a sentence where one of them was found, and not given.
    """

    label: str
    data: bytes
    cases: Mapping[str, tuple[BundledCase, ...]] = field(default_factory=dict)
    ptd: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str, ptd: Sequence[str] = ()) -> ProgramFile:
        """Read the file called `text`, and the .ptd files; that of its own name where one is needed and none is given.

        Raises UsageError, which says what is wrong with one, or which others beside it are to be given.
        """
        data, cases = _read(text), {}
        if is_bundle(data) or text.lower().endswith(".bpte"):
            bundle = BundledProgram.parse(data, text)
            data, cases = bundle.program, dict(bundle.cases)
        if ptd:
            return cls(text, data, cases, {name: _read(name, "give a .ptd") for name in ptd})
        found = _beside(text, data)
        note = f"{', '.join(found)} lies beside the program and has data of it, so it was taken"
        return cls(text, data, cases, found, (note,) if found else ())


def _beside(text: str, data: bytes) -> dict[str, bytes]:
    """Return the .ptd of the program's own name, where the program needs one and there is such a file.

    Raises UsageError where other files beside it have what it needs: the hint names them.
    """
    path = Path(text).expanduser()
    own, files = path.with_suffix(_PTD), sorted(path.parent.glob(f"*{_PTD}"))
    if not files or missing_data(data, {}) is None:
        return {}
    if own in files:
        return {str(own): _read(str(own))}
    taken: dict[str, bytes] = {}
    while (key := missing_data(data, taken)) is not None:
        holder = next((str(file) for file in files if str(file) not in taken and _has(file, key)), None)
        if holder is None:
            return {}
        taken[holder] = _read(holder)
    try:
        Program.parse(data, text)
    except UsageError as error:
        raise error.replace(hint=f"give what lies beside it: {' '.join(f'--ptd {name}' for name in taken)}") from None
    return {}


def _has(file: Path, key: str) -> bool:
    """Return whether a .ptd has data of that name; one that cannot be read has none."""
    try:
        return key in read_ptd(_read(str(file)), str(file))
    except UsageError:
        return False


def _read(text: str, forms: str = FORMS) -> bytes:
    try:
        return read_bytes(Path(text).expanduser(), most=_MOST_PROGRAM)
    except FileNotFoundError:
        raise no_file(text, forms) from None
    except OSError as error:
        raise UsageError(f"cannot read {text}: {error.strerror}") from None


def no_file(name: str, forms: str = FORMS) -> UsageError:
    """Return the error of a file that is not there; it names a similar one that is."""
    folder = Path(name).expanduser().parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    close = difflib.get_close_matches(Path(name).name, names, n=1)
    return UsageError(f"no such file: {name}", hint=f"did you mean {folder / close[0]}?" if close else forms)


_BACKEND = "EthosUBackend"


@dataclass(frozen=True)
class ProgramDelegate:
    """One delegate of a method: its index, the instruction that calls it, and Vela's blob."""

    index: int
    instruction: int
    vela: bytes


@dataclass(frozen=True)
class ProgramDelegates:
    """The delegates of a program.

    Attributes:
        methods: by the method's name, in the order of the calls.
        npu, memory_mode: what they are compiled for; None where the file does not state it.
        vela_flags: Vela's arguments, if they are the same for all.
    """

    methods: Mapping[str, tuple[ProgramDelegate, ...]]
    npu: EthosU | None
    memory_mode: MemoryMode | None
    vela_flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, pte: bytes, model: str, ptd: Mapping[str, bytes]) -> ProgramDelegates:
        """Read a program's delegates, with what of them is in .ptd files. The command streams state the NPU, the
        compile specs the memory mode.

        Raises:
            UsageError: the file is damaged, its delegates disagree, or one is not for an Ethos-U.
        """
        methods: dict[str, tuple[ProgramDelegate, ...]] = {}
        npus, modes, flags = set(), set(), set()
        for plan in Program.parse(pte, model, ptd).plans:
            delegates = []
            for at, call in plan.delegate_calls:
                entry = plan.delegates[call.delegate]
                where = f"{model}, delegate {call.delegate}" + (f" of {plan.name}" if plan.name != FORWARD else "")
                if entry.id != _BACKEND:
                    raise UsageError(
                        f"{where} is for {entry.id!r}", hint=f"only Ethos-U delegates ({_BACKEND}) can run"
                    )
                blob = VelaBlob.parse(entry.data, where)
                npus.add(EthosU.from_config_word(blob.config_word))
                flags.add(_vela_flags(entry.compile_specs))
                modes.add(MemoryMode.of_flags(_vela_flags(entry.compile_specs)))
                delegates.append(ProgramDelegate(call.delegate, at, entry.data))
            methods[plan.name] = tuple(delegates)
        for names in (npus, modes):
            if len(names) > 1:
                raise UsageError(f"{model}: its delegates are compiled for {', '.join(sorted(map(str, names)))}")
        common = flags.pop() if len(flags) == 1 else ()
        return cls(methods, next(iter(npus), None), next(iter(modes), None), common)


def _vela_flags(compile_specs: Mapping[str, bytes]) -> tuple[str, ...]:
    # ArmCompileSpec of executorch 1.5.1 stores Vela's arguments in the program, separated by blanks.
    return tuple(compile_specs.get("compile_flags", b"").decode("utf-8", "replace").split())
