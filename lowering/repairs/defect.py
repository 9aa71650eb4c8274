"""Vela's known defects: programs that it compiles into something else, while it reports success; and the rewritings
that several repairs share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.lowering.formats.tosa_draft import ByteVector, DraftBlock, DraftOperator, Node, Scalar
from ethos_hil.lowering.vela.compiler import VelaOutput

_MOVED_OVER = ("TRANSPOSE", "RESHAPE")


def hoist(block: DraftBlock, chosen: Callable[[DraftOperator], bool]) -> list[DraftOperator]:
    """Move the chosen operators before the chains of TRANSPOSEs and RESHAPEs that feed them.

    A TABLE or CLAMP maps each element by itself, so it gives the same result before and after elements are moved. One
    moves as long as nothing else reads what the chain makes, if the chain has a TRANSPOSE.
    """
    moved = []
    for operator in [operator for operator in block.operators if chosen(operator)]:
        chain = _chain(block, operator)
        if any(link.op == "TRANSPOSE" for link in chain):
            _move(block, operator, chain)
            moved.append(operator)
    return moved


def _chain(block: DraftBlock, operator: DraftOperator) -> list[DraftOperator]:
    """Return the operators that one can move before, first to last."""
    chain: list[DraftOperator] = []
    name = operator.inputs[0]
    while True:
        producer = block.producer(name)
        alone = sum(operator.inputs.count(name) for operator in block.operators) == 1
        if producer is None or producer.op not in _MOVED_OVER or not alone or name in block.outputs:
            return chain
        chain.insert(0, producer)
        name = producer.inputs[0]


def _move(block: DraftBlock, operator: DraftOperator, chain: list[DraftOperator]) -> None:
    """Put the chain behind an operator. Tensors keep their order along it, so each gets its predecessor's shape.

    Nothing between the chain and the operator reads the chain, so all of it can run right behind.
    """
    way = [*(link.inputs[0] for link in chain), operator.inputs[0], operator.outputs[0]]
    before = [block.tensors[name].shape for name in way]
    types = [block.tensors[name].dtype for name in way]
    assert len(set(types)) == 1, types
    # way[0] -chain[0]-> way[1] ... -operator-> way[-1] becomes way[0] -operator-> way[1] -chain[0]-> way[2] ...
    for number, link in enumerate((operator, *chain)):
        link.inputs[0], link.outputs[0] = way[number], way[number + 1]
    for number, name in enumerate(way[1:-1]):
        block.set_shape(name, before[number])
    for link in chain:
        block.operators.remove(link)
    at = block.operators.index(operator) + 1
    block.operators[at:at] = chain
    block.changed = True


_RANGES = {"INT8": (-(2**7), 2**7 - 1, 1), "INT16": (-(2**15), 2**15 - 1, 2)}


def add_clamp(block: DraftBlock, writer: DraftOperator, name: str) -> None:
    """Give all readers of a tensor, but not the outputs, a copy that a CLAMP to all values of the type makes.

    It changes nothing, and keeps operators apart that Vela must not merge.
    """
    tensor = block.tensors[name]
    low, high, size = _RANGES[tensor.dtype]
    copy = block.tensor(name, tensor.shape, tensor.dtype)
    for reader in block.readers(name):
        reader.inputs = [copy if value == name else value for value in reader.inputs]
    first, last = (ByteVector(value.to_bytes(size, "little", signed=True)) for value in (low, high))
    fields: dict[int, Scalar | Node] = {0: first, 1: last, 2: Scalar("I", 1)}  # 1 propagates NaN, as upstream writes it
    block.add(writer, "CLAMP", [name], [copy], fields, after=True)


WITHOUT_U85 = (U55, U65)
Treatment = Callable[[DraftBlock, Family], list[DraftOperator]]
"""Returns the operators of a block that meet a defect. One that repairs edits the block so that they no longer do."""


@dataclass(frozen=True)
class VelaDefect:
    """A defect of Vela, declared as the DEFECT of a module of its own.

    The module's docstring is the text of its page, in Markdown: what meets the defect, its cause, and the repair.

    Attributes:
        id: its name, which is that of its module, its page in docs/defects, and its reproducer.
        effect: what Vela does, as a sentence without its subject: "drops ...".
        remedy: what a user can do where it is not repaired.
        versions: the versions of Vela in which it was seen.
        families: the NPUs for which Vela has it.
        repair: finds the operators that meet it, and rewrites them; None if no rewriting is known.
        refuse: finds the operators that `repair` leaves, for which no rewriting is known; None if it leaves none.
        seen: tells whether a compiled program shows it; None where the TOSA program decides.
    """

    id: str
    effect: str
    remedy: str
    versions: tuple[str, ...] = ("5.1.0",)
    families: tuple[Family, ...] = FAMILIES
    repair: Treatment | None = None
    refuse: Treatment | None = None
    seen: Callable[[VelaOutput], bool] | None = None

    @property
    def treatments(self) -> tuple[tuple[Treatment, bool], ...]:
        """What finds the operators that meet it, in order, each with whether it rewrites them."""
        both = ((self.repair, True), (self.refuse, False))
        return tuple((treat, repaired) for treat, repaired in both if treat is not None)


@dataclass(frozen=True)
class DefectFinding:
    """One place at which a program meets a defect.

    Attributes:
        defect: what is wrong.
        region: the region of upstream's TOSA program.
        op: the TOSA operator's name.
        index: its number among the region's operators.
        repaired: whether it was rewritten.
    """

    defect: VelaDefect
    region: str
    op: str
    index: int
    repaired: bool
