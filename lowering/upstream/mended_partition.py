"""A partition's program without Vela's known defects, and what the user is told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.map.delegate_map import AtenCall, Partition, origins_of
from ethos_hil.lowering.repairs.defect import DefectFinding, VelaDefect
from ethos_hil.lowering.repairs.mend import Mended, mend, mend_crash
from ethos_hil.lowering.vela.compiler import VelaCrash, VelaOutput

_NPU = "--accelerator-config="


def mended(
    made: VelaOutput | VelaCrash,
    tosa: bytes,
    arguments: Sequence[str],
    partition: Partition,
    notes: list[str],
    *,
    as_upstream: bool,
) -> Mended:
    """Repair the known defects of a partition, and note them.

    Args:
        made: what Vela made of upstream's program, or how it ended.
        tosa: upstream's program, with locations.
        arguments: Vela's.
        partition: the partition.
        notes: where the notes go.
        as_upstream: repair nothing.

    Raises:
        VelaCrash: Vela crashes, and no known defect explains it.
        CompileError: see `ethos_hil.lowering.repairs.mend.mend`.
    """
    origins = {name: origins_of(graph, partition) for name, graph in TosaGraph.regions(tosa).items()}

    def place(finding: DefectFinding) -> str:
        return _place(finding, origins)

    if isinstance(made, VelaOutput):
        done = mend(made, arguments, as_upstream=as_upstream, place=place)
    elif as_upstream:
        raise made
    else:
        npu = next(each.removeprefix(_NPU) for each in arguments if each.startswith(_NPU))
        done = mend_crash(made, tosa, arguments, EthosU.parse(npu).family, place)
    notes += _noted(done, place, as_upstream=as_upstream)
    return done


def _place(finding: DefectFinding, origins: Mapping[str, Sequence[AtenCall | None]]) -> str:
    """Return where in the model a defect is met: the operator, its module and its line, as far as they are known.

    Args:
        finding: where it is met.
        origins: by region, the call that each operator of upstream's TOSA program computes a part of.
    """
    call = origins[finding.region][finding.index]
    if call is None:
        return f"TOSA's {finding.op}"
    module = f" in {call.module}" if call.module else ""
    return f"{call.aten.removeprefix('aten.')}{module}{f' at {call.source}' if call.source else ''}"


def _noted(mended: Mended, place: Callable[[DefectFinding], str], *, as_upstream: bool) -> list[str]:
    """Return a sentence for each defect that a program meets, and another for what of it cannot be repaired."""
    places: dict[tuple[VelaDefect, bool], list[str]] = {}
    for finding in mended.findings:
        places.setdefault((finding.defect, finding.repaired), []).append(place(finding))
    done = "not repaired, as asked" if as_upstream else "the TOSA program was rewritten"
    return [
        f"{defect.id}: {done} (at {', '.join(dict.fromkeys(where))}): Vela 5.1 {defect.effect}"
        for (defect, _), where in places.items()
    ]
