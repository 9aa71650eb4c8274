"""Rewritings that several repairs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ethos_hil.lowering.formats.tosa_draft import ByteVector, DraftBlock, DraftOperator, Node, Scalar

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


CLAMPED = {"INT8": (-(2**7), 2**7 - 1, 1), "INT16": (-(2**15), 2**15 - 1, 2)}
"""Types that TOSA has a CLAMP of: the least and the largest value, and the bytes of each."""


def add_clamp(block: DraftBlock, writer: DraftOperator, name: str) -> None:
    """Give all readers of a tensor, but not the outputs, a copy that a CLAMP to all values of the type makes.

    It changes nothing, and keeps operators apart that Vela must not merge.
    """
    copy = _copy(block, name)
    for reader in block.readers(name):
        reader.inputs = [copy if value == name else value for value in reader.inputs]
    block.add(writer, "CLAMP", [name], [copy], _to_all_values(block, name), after=True)


def clamp_before(block: DraftBlock, reader: DraftOperator) -> None:
    """Give an operator a copy of its first operand that a CLAMP to all values of the type makes."""
    name = reader.inputs[0]
    copy = _copy(block, name)
    reader.inputs[0] = copy
    block.add(reader, "CLAMP", [name], [copy], _to_all_values(block, name))


def reshape_around(block: DraftBlock, operator: DraftOperator, given: Sequence[int], made: Sequence[int]) -> None:
    """Have an operator take its first input, and give its output, in other shapes, between two RESHAPEs."""
    result = operator.outputs[0]
    operator.inputs[0] = block.reshape(operator, operator.inputs[0], given)
    operator.outputs[0] = block.tensor(result, made, block.tensors[result].dtype)
    back = block.add(operator, "RESHAPE", [operator.outputs[0], ""], [result], {}, after=True)
    back.inputs[1] = block.shape(back, block.tensors[result].shape)


def _copy(block: DraftBlock, name: str) -> str:
    tensor = block.tensors[name]
    return block.tensor(name, tensor.shape, tensor.dtype)


def _to_all_values(block: DraftBlock, name: str) -> dict[int, Scalar | Node]:
    low, high, size = CLAMPED[block.tensors[name].dtype]
    first, last = (ByteVector(value.to_bytes(size, "little", signed=True)) for value in (low, high))
    return {0: first, 1: last, 2: Scalar("I", 1)}  # 1 propagates NaN, as upstream writes it
