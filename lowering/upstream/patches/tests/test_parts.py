"""Partitions, and the parts of one that is split, come in one order, whatever sets of Python make of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.fx import Graph, Node

from ethos_hil.lowering.upstream.patches.in_executorch import parts_in_order
from ethos_hil.lowering.upstream.patches.patch import resolve
from ethos_hil.lowering.upstream.patches.table import PARTS

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))

    def forward(self, x):
        a, b, c, d, e, f = self.layers
        y = a(x)
        p, q = b(y).sort(1)[0], c(y.sort(1)[0])
        r, s = d(p + q), e(q.sort(1)[0] - p)
        return f(r.sort(1)[0] + s), s, r

def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(2, 4),)
"""


def chains(count: int) -> list[tuple[Node, Node]]:
    """Pairs of operators of one graph, in its order. Those that come first were made last."""
    graph = Graph()
    source = graph.placeholder("x")
    pairs: list[tuple[Node, Node]] = []
    for _ in range(count):
        with graph.inserting_after(source):
            first = graph.call_function(torch.relu, (source,))
        with graph.inserting_after(first):
            pairs.insert(0, (first, graph.call_function(torch.neg, (first,))))
    return pairs


def test_parts_are_upstreams_in_the_order_of_the_graph() -> None:
    (patch,) = PARTS
    upstream = resolve(patch.target)
    pairs = chains(20)
    nodes = {node for pair in pairs for node in pair}
    wanted = [set(pair) for pair in pairs]
    assert parts_in_order(upstream)(nodes) == wanted
    own = upstream(nodes)
    assert sorted(map(wanted.index, own)) == list(range(20))
    assert own != wanted, "upstream has an order of its own now: the patch can go"


@pytest.mark.slow
@pytest.mark.proof
def test_a_model_is_the_same_program_whatever_the_hashes_of_texts(tmp_path: Path) -> None:
    """Upstream hands partitions over in the order of a set of texts."""
    code = (
        "import hashlib, pathlib, sys\n"
        "from ethos_hil.lowering.cache.store import Cache\n"
        "from ethos_hil.lowering.lower import lower\n"
        "from ethos_hil.base.npu.ethos_u import EthosU\n"
        "cache = Cache(pathlib.Path(sys.argv[2]))\n"
        "made = lower(sys.argv[1], EthosU.parse('ethos-u55-128'), cache=cache)\n"
        "print(len(made.delegates), hashlib.sha256(made.pte).hexdigest())\n"
    )
    (tmp_path / "net.py").write_text(MODEL)
    answers = set()
    for seed in ("0", "3"):
        command = [sys.executable, "-c", code, f"{tmp_path / 'net.py'}:net", str(tmp_path / seed)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        answers.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(answers) == 1, answers
    assert answers.pop().startswith("3 ")
