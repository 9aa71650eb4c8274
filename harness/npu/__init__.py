"""A bit-exact functional model of Arm's Ethos-U55, U65 and U85, as a library; docs/npu.md says what it covers.

    npu = Npu(Configuration.parse("ethos-u55-128"))
    program = npu.decode(command_stream)
    execution = npu.run(program, {0: weights, 1: scratch})

It executes what Vela compiles and equals tosa_reference_model bit for bit. That is agreement with the compiler's
intent, not with silicon. Operations run one after another on whole feature maps, so missing waits and block
dependencies in a stream do not show in its results: `program.hazards` lists them, and a strict Npu refuses them. What
it does not know ends in a Fault.

Where a module says "established", it means: found by comparing whole outputs of programs that Vela 5.1 compiled with
tosa_reference_model, or, for rules that only TensorFlow Lite networks reach, with TensorFlow Lite Micro's kernels.
Register names, codes and widths are those of the description in Vela's wheel (ethosu/vela/ethos_u55_regs), for
Ethos-U85 those of Vela's disassembly.
"""

from ethos_hil.harness.npu.isa.configuration import CONFIGURATIONS, Configuration
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.npu import Execution, Extent, Npu, NpuProgram, forget
from ethos_hil.harness.npu.timing.timing_model import OpRecord

__all__ = ["CONFIGURATIONS", "Configuration", "Execution", "Extent", "Fault", "Npu", "NpuProgram", "OpRecord", "forget"]
