"""What a record says of the program that ran: its digests, what of it is on the CPU, and how its work is divided."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import percent

PRODUCTS, OPERATORS = "multiplications", "operators"
"""What the work of a program is counted in."""


@dataclass(frozen=True)
class NpuShare:
    """How the work of a program is divided between NPU and CPU.

    Counted are the products that are summed up: of convolutions, transposed ones included, and of matrix products
    (linear layers, attention, recurrent layers). Those with padding count, a product by itself (`a * b`) does not. An
    operator counts once, also in a branch or in the body of a loop. A program without such products is counted by its
    operators.

    Attributes:
        npu, cpu: what each of them does, in one inference.
        unit: `PRODUCTS` or `OPERATORS`.
    """

    npu: int
    cpu: int
    unit: str = PRODUCTS

    @property
    def total(self) -> int:
        """What both do."""
        return self.npu + self.cpu

    @property
    def value(self) -> float:
        """The NPU's part, 0 to 1; 1 where there is nothing to do."""
        return self.npu / self.total if self.total else 1.0

    @property
    def text(self) -> str:
        """The NPU's part in words: "the NPU computes 4 % of the multiplications (3,144 of 86,952)"."""
        return self._part("NPU", self.npu)

    @property
    def of_cpu(self) -> str:
        """The CPU's part in words, as in `text`; "" where it has none."""
        return self._part("CPU", self.cpu) if self.cpu else ""

    def _part(self, who: str, count: int) -> str:
        verb = "computes" if self.unit == PRODUCTS else "runs"
        return f"the {who} {verb} {_percent(count, self.total)} of the {self.unit} ({count:,} of {self.total:,})"


def _percent(part: int, total: int) -> str:
    """Return a part as text that says 100 % of nothing less."""
    text = percent(part / total if total else 1.0)
    return "above 99 %" if text == "100" and part < total else f"{text} %"


@dataclass(frozen=True)
class CpuOp:
    """A kernel call on the CPU.

    Attributes:
        operator: the kernel's full name, "aten::sort.values".
        kind: "operator" (a part of the model), "conversion" (quantise or dequantise) or "state" (a buffer is written).
        aten: the operator before it became a kernel, "aten.sort.default"; "" when unknown.
        module, source: as in `Op`.
        reason: why it is not on the NPU; "" unless `kind` is "operator".
        remedy: what would help, or "".
        products: its part of `NpuShare.cpu`, where that counts multiplications.
    """

    operator: str
    kind: str
    aten: str
    module: str
    source: str
    reason: str
    remedy: str
    products: int = 0


@dataclass(frozen=True)
class DelegateInfo:
    """What a delegate consists of: digests (SHA-256, hexadecimal) by which a change can be traced to its cause.

    Attributes:
        instruction: the method's instruction that calls it.
        tosa_sha256: of what the TOSA program computes that the compiler was given, without names and lines of the
            source; "" for a .pte that was not lowered here.
        stream_sha256: of the command stream.
        weights_sha256: of the encoded weights and scales.
    """

    instruction: int
    tosa_sha256: str
    stream_sha256: str
    weights_sha256: str


@dataclass(frozen=True)
class QuantisedIo:
    """An integer input or output whose real numbers the program states: `scale` times (element - `zero_point`).

    Attributes:
        name: "input 0", "output 1".
        tensor: its type and shape, "int8[1, 10]".
        scale: the real value of a step.
        zero_point: the element that means 0.
    """

    name: str
    tensor: str
    scale: float
    zero_point: int

    @property
    def text(self) -> str:
        """What it stands for, in words: "0.00784 x (element + 128)"."""
        return element_text(self.scale, self.zero_point)


def element_text(scale: float, zero_point: int) -> str:
    """Return the real number that an element stands for, in words."""
    sign = "-" if zero_point > 0 else "+"
    return f"{scale:.6g} x " + (f"(element {sign} {abs(zero_point)})" if zero_point else "element")


@dataclass(frozen=True)
class ArtifactInfo:
    """The artifact that ran.

    Attributes:
        sha256, pte_bytes: digest and size of the .pte; "" and 0 where none was written, as for a point of a benchmark.
        npu_ops: the number of its NPU operations that are known. `vela_flags`: Vela's arguments.
        delegated: the number of operators in the delegates; None in records that do not have it.
        cpu_calls: the calls of `cpu_ops`, the kernels on the CPU, with place and reason, in order.
        scheme: how it was quantised: "a8w8", "a16w8", "a8w8, a16w8 in head", "quantizer NAME", "as given" by a model
            that was quantised already; "" where it was not, or nothing is known.
        question: digest of what was asked: the model with its inputs, how it is quantised, what is left to the CPU;
            without versions, target, and lines of the source. Of a .pte that was not lowered here, "pte:" and its
            digest, with its .ptd files. "" in records that do not have it.
        delegates: in the order of their calls.
        lowering: digest of the code of ours that lowered it; "" where it was not lowered here.
        key: its key in the cache, where copies of one program have the lines of their own source; "" where it was not
            lowered here, and in records that do not have it.
        npu_share: how its work is divided; None where that is not known, and in records that do not have it.
        quantised_io: the inputs and outputs whose scales the program states.
        depth: how ExecuTorch was used: "full", "unpatched", or "bare", with public functions alone; "" as for `key`.
    """

    sha256: str
    pte_bytes: int
    npu_ops: int
    cpu_ops: tuple[str, ...]
    vela_flags: tuple[str, ...] = ()
    delegated: int | None = None
    cpu_calls: tuple[CpuOp, ...] = ()
    scheme: str = ""
    question: str = ""
    delegates: tuple[DelegateInfo, ...] = ()
    lowering: str = ""
    key: str = ""
    depth: str = ""
    npu_share: NpuShare | None = None
    quantised_io: tuple[QuantisedIo, ...] = ()
