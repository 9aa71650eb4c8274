"""Native tools in their own processes: they answer, and whatever ends such a process is an error with its reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.processes import left_of, signals_of_a_command, wait_until
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.native import worker
from ethos_hil.lowering.native.failing_operator import crashing_operator, prefix
from ethos_hil.lowering.native.worker import NativeCrash, NativeTool, ToolRaised
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.testing.tosa_graph import Graph
from ethos_hil.lowering.vela.compiler import VelaCrash, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

FLAGS = flags(EthosU.parse("ethos-u55-128"), MemoryMode("Shared_Sram"))


def program(length: int = 1) -> bytes:
    """A chain of operators."""
    graph = Graph()
    value = graph.input((1, 4))
    for _ in range(length):
        value = graph.rescale(value, 0.5)
    return graph.output(value).serialize()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NativeTool]:
    """A stand-in for tosa_reference_model that does what its program, as text, says."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "tosa_reference_model.py").write_text(
        "import enum, os, signal, sys, time, ctypes\n"
        "class GraphStatus(enum.Enum):\n    TOSA_VALID = 0\n"
        "def run(program, inputs):\n    exec(program.decode())\n    return inputs, GraphStatus.TOSA_VALID\n"
    )
    stand_in = NativeTool("tosa_reference_model", "stand-in", "tosa-tools")
    yield stand_in
    stand_in.stop()


def pid_of(tool: NativeTool) -> int:
    assert tool._process is not None
    return tool._process.process.pid


def do(tool: NativeTool, text: str, seconds: int = 60) -> bytes:
    answer = tool.call({"arrays": [["|u1", [3]]]}, [text.encode(), b"abc"], seconds=seconds)
    return answer.blocks[0]


FORK = """import sys, numpy
from pathlib import Path
from ethos_hil.lowering.native.worker import REFERENCE_MODEL
from ethos_hil.lowering.oracle.reference import evaluate
print("not written yet", end=" ")
REFERENCE_MODEL.start(forked=True)
for _ in range(2):
    outputs = evaluate(bytes.fromhex(sys.argv[1]), [numpy.full((1, 4), 7, numpy.int8)], "a test")
    process = REFERENCE_MODEL._process
    same = Path(f"/proc/{process.process.pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
    print(same, *outputs[0][0], "not written yet" in process.listing(10000), end="; ")
    process.process.kill()
    process.process.wait()
"""


def test_a_fork_serves_alike_and_so_does_the_worker_after_it() -> None:
    done = subprocess.run([sys.executable, "-c", FORK, program().hex()], capture_output=True, text=True, check=True)
    assert done.stdout == "not written yet True 4 4 4 4 False; False 4 4 4 4 False; "


ENDINGS = {
    "a signal": ("os.kill(os.getpid(), signal.SIGFPE)", "crashed with SIGFPE (Floating point exception)"),
    "an access to nothing": ("ctypes.string_at(8)", "crashed with SIGSEGV (Segmentation fault)"),
    "an abort with a reason": (
        "os.write(2, b'hello\\nterminate called after std::logic_error\\nbye\\n'); os.abort()",
        "crashed with SIGABRT (Aborted); it said: terminate called after std::logic_error",
    ),
    "memory without end": ("kept = [bytes(1 << 28) for _ in range(10000)]", "needs more memory than the "),
    "an exit": ("ctypes.CDLL(None).exit(1)", "ended its process with status 1"),
    "an exit that looks well": ("os._exit(0)", "ended its process with status 0"),
    "an endless loop": ("while True: pass", "did not end within 1 seconds of CPU time"),
    "the kernel, out of memory": ("os.kill(os.getpid(), signal.SIGKILL)", "memory may have run out"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_what_ends_the_process_is_an_error_and_the_next_call_is_answered(tool: NativeTool, how: str) -> None:
    text, message = ENDINGS[how]
    with pytest.raises(NativeCrash) as caught:
        do(tool, text, seconds=1 if "loop" in how else 60)
    assert message in str(caught.value)
    assert do(tool, "time.sleep(0.1)") == b"abc"


def test_time_is_counted_for_each_call(tool: NativeTool) -> None:
    for _ in range(2):
        do(tool, "end = time.process_time() + 0.8\nwhile time.process_time() < end: pass", seconds=1)


def test_what_it_raises_has_its_name_and_what_it_printed(tool: NativeTool) -> None:
    with pytest.raises(ToolRaised, match="OverflowError: no room") as caught:
        do(tool, "print('nearly'); raise OverflowError('no room')")
    assert caught.value.__notes__ == ["printed meanwhile:\nnearly"]
    pid = pid_of(tool)
    assert do(tool, "") == b"abc"
    assert pid_of(tool) == pid, "it goes on in the same process"


def test_one_that_was_killed_while_idle_is_started_again(tool: NativeTool) -> None:
    do(tool, "")
    os.kill(pid_of(tool), signal.SIGKILL)
    os.waitid(os.P_PID, pid_of(tool), os.WEXITED | os.WNOWAIT)
    assert do(tool, "") == b"abc"


def test_an_interrupted_call_leaves_no_answer_behind(tool: NativeTool, tmp_path: Path) -> None:
    do(tool, "")
    mark = tmp_path / "called"

    def interrupt() -> None:
        wait_until(mark.exists, "it is called")
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as pool, signals_of_a_command():
        pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            do(tool, f"open({str(mark)!r}, 'w').close(); inputs = [inputs[0] + 1]; time.sleep(600)")
    assert do(tool, "") == b"abc"


def test_calls_of_threads_wait_for_each_other(tool: NativeTool) -> None:
    with ThreadPoolExecutor(5) as pool:
        assert list(pool.map(lambda _: do(tool, "time.sleep(0.05)"), range(5))) == [b"abc"] * 5


def test_a_forked_process_has_its_own(tool: NativeTool) -> None:
    do(tool, "")
    child = os.fork()
    if not child:
        os._exit(0 if tool._process is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert do(tool, "") == b"abc"


PARENT = """
    import signal, sys
    from ethos_hil.lowering.native.worker import NativeTool
    careless = signal.SIGIO, signal.SIGXCPU
    for number in careless:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, careless)
    sys.path.insert(0, sys.argv[1])
    tool = NativeTool("tosa_reference_model", "stand-in", "tosa-tools")
    tool.call({"arrays": []}, [sys.argv[3].encode()])
    print(tool._process.process.pid, flush=True)
    if sys.argv[2]:
        tool.call({"arrays": []}, [sys.argv[2].encode()])
    else:
        sys.stdin.read()
"""


@pytest.mark.parametrize("busy", ["", "while True: pass", "ctypes.PyDLL(None).sleep(600)"])
def test_it_does_not_outlive_its_parent(tool: NativeTool, tmp_path: Path, busy: str) -> None:
    """Not even in native code that holds Python's lock, nor below one that ignores and blocks the signals."""
    mark = tmp_path / "called"
    call = f"open({str(mark)!r}, 'w').close()\n{busy}" if busy else ""
    acts = "assert signal.getsignal(signal.SIGXCPU) == signal.SIG_DFL\nassert not signal.pthread_sigmask(0, [])"
    command = [sys.executable, "-c", textwrap.dedent(PARENT), str(tmp_path), call, acts]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if busy:
            wait_until(mark.exists, "the tool is called")
        os.kill(parent.pid, signal.SIGKILL)
    assert left_of([pid]) == []


def test_it_starts_no_programs(tool: NativeTool) -> None:
    """On an assertion tosa_reference_model would start gdb."""
    do(tool, "import shutil\nassert shutil.which('sh') is None")


def count(tosa: bytes) -> int:
    return len(TosaGraph.parse(tosa).operators)


def test_the_search_finds_the_first_operator_that_does_it() -> None:
    def at_least(length: int, part: bytes) -> None:
        """A tool that crashes on programs of so many operators."""
        if count(part) >= length:
            raise worker.NativeCrash("crashed")

    tosa = program(20)
    computing = [operator for operator in TosaGraph.parse(tosa).operators if not operator.is_constant]
    for operator in (computing[0], computing[1], computing[10], computing[-1]):
        assert crashing_operator(tosa, partial(at_least, operator.index + 1)) == operator
    assert crashing_operator(tosa, lambda part: None) is None
    assert crashing_operator(b"rubbish", partial(at_least, 0)) is None


def test_a_prefix_is_a_program_that_vela_compiles_and_the_model_computes() -> None:
    tosa = program(4)
    ends = [operator.index + 1 for operator in TosaGraph.parse(tosa).operators if not operator.is_constant]
    for length, expected in zip(ends, (50, 25, 13, 7), strict=True):
        part = prefix(tosa, length)
        assert count(part) == length
        (answer,) = evaluate(part, [np.full((1, 4), 100, np.int8)], "a prefix")
        assert answer.tolist() == [[expected] * 4]
        assert run_vela(part, FLAGS).blob


def test_a_vela_that_takes_all_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes 19 GB and more to repeat one element ten million times."""
    for name in ("MEMORY_BYTES", "_LEAST_MEMORY_BYTES"):
        monkeypatch.setattr(worker, name, 1 << 29)
    graph = Graph()
    tosa = graph.output(graph.tile(graph.input((1, 1)), (1, 10_000_000))).serialize()
    with pytest.raises(VelaCrash, match=r"needs more memory than the 0\.5 GB that it may take on TOSA operator 1 TILE"):
        run_vela(tosa, FLAGS)
    assert run_vela(program(), FLAGS).blob
