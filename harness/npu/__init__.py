"""A bit-exact functional model of Arm's Ethos-U55, U65 and U85, as a library; docs/npu.md says what it covers.

    npu = Npu(EthosU.parse("ethos-u55-128"))
    program = npu.decode(command_stream)
    execution = npu.run(program, {0: weights, 1: scratch})

It executes what Vela compiles and equals tosa_reference_model bit for bit. That is agreement with the compiler's
intent, not with silicon. Operations run one after another on whole feature maps, so its results do not show the waits
and block dependencies that a stream lacks: `program.hazards` lists them, and a strict Npu refuses them. Where the model
does not know what the hardware does, it raises a Fault.

"Established" in a docstring means: found by comparing whole outputs of programs that Vela 5.1 compiled with
tosa_reference_model, or, for rules that only TensorFlow Lite networks reach, with TensorFlow Lite Micro's kernels.
Register names, codes and widths come from the description in Vela's wheel (ethosu/vela/ethos_u55_regs), for Ethos-U85
from Vela's disassembly.
"""

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.npu import Execution, Extent, Npu, NpuProgram, forget
from ethos_hil.harness.npu.timing.timing_model import OpRecord

__all__ = ["EthosU", "Execution", "Extent", "Fault", "Npu", "NpuProgram", "OpRecord", "forget"]
