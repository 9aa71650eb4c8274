"""What the reproducers share: a small TOSA graph, a call of Vela, and the register command stream that it wrote.

Needs nothing but the packages numpy, tosa-tools and ethos-u-vela.
"""

import contextlib
import io
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import tosa_serializer as ts
from ethosu.vela import vela

SYSTEMS = {"u55": "Ethos_U55_High_End_Embedded", "u65": "Ethos_U65_High_End", "u85": "Ethos_U85_SYS_DRAM_Mid"}
MODES = {"u55": "Shared_Sram", "u65": "Dedicated_Sram", "u85": "Dedicated_Sram_384KB"}
TYPES = {"int8": ts.DType.INT8, "int16": ts.DType.INT16, "int32": ts.DType.INT32}
OPERATIONS = {2: "CONV", 3: "DEPTHWISE", 5: "POOL", 6: "ELEMENTWISE", 0x10: "DMA_START"}


class Graph:
    """A TOSA-1.0 graph of a few operators; tensors are their names."""

    def __init__(self):
        self.made = ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
        self.shapes = {}

    def _name(self, shape):
        name = f"t{len(self.shapes)}"
        self.shapes[name] = list(shape)
        return name

    def input(self, shape, dtype="int8"):
        name = self._name(shape)
        self.made.addInputTensor(ts.TosaSerializerTensor(name, list(shape), TYPES[dtype], data=None))
        return name

    def const(self, values, dtype="int8"):
        array = np.asarray(values, dtype)
        name = self._name(array.shape)
        self.made.addConst(list(array.shape), TYPES[dtype], array, name=name)
        return name

    def shape(self, values):
        name = self._name([len(values)])
        self.made.addConst([len(values)], ts.DType.SHAPE, list(values), name=name)
        return name

    def op(self, kind, inputs, shape, dtype="int8", *attribute):
        """Add an operator: TOSA's name, its inputs, the output's shape and type, and its attribute's fields."""
        fields = ts.TosaSerializerAttribute()
        special = {
            "CONV2D": "Conv2d",
            "TRANSPOSE_CONV2D": "TransposeConv2d",
            "MAX_POOL2D": "MaxPool2d",
            "AVG_POOL2D": "AvgPool2d",
        }
        getattr(fields, special.get(kind, kind.title().replace("_", "")) + "Attribute")(*attribute)
        name = self._name(shape)
        self.made.currRegion.currBasicBlock.addTensor(name, list(shape), TYPES[dtype])
        self.made.addOperator(getattr(ts.Op, kind), list(inputs), [name], fields)
        return name

    def conv(self, source, out, kernel=1, pad=0, weights=None, channels=False):
        """Add a CONV2D and the RESCALE that makes int8 of its sums; weights are 1 unless they are given."""
        n, h, w, c = self.shapes[source]
        zero = [self.const([0]), self.const([0])]
        taps = weights or self.const(np.ones((out, kernel, kernel, c)))
        shape = [n, h + 2 * pad - kernel + 1, w + 2 * pad - kernel + 1, out]
        inputs = [source, taps, self.const(np.zeros(out), "int32"), *zero]
        sums = self.op("CONV2D", inputs, shape, "int32", [pad] * 4, [1, 1], [1, 1], False, ts.DType.INT32)
        return self.rescale(sums, [1 << 28 for _ in range(out if channels else 1)], 33)

    def rescale(self, source, multipliers, shift, dtype="int8", given="int32"):
        values = [source, self.const(multipliers, "int32"), self.const([shift] * len(multipliers))]
        zeros = [self.const([0], given), self.const([0], dtype)]
        single = ts.RoundingMode.SINGLE_ROUND
        return self.op(
            "RESCALE", values + zeros, self.shapes[source], dtype, True, single, len(multipliers) > 1, False, False
        )

    def reshape(self, source, shape):
        return self.op("RESHAPE", [source, self.shape(shape)], shape)

    def transpose(self, source, axes):
        return self.op("TRANSPOSE", [source], [self.shapes[source][axis] for axis in axes], "int8", list(axes))

    def table(self, source):
        return self.op("TABLE", [source, self.const(np.arange(-128, 128))], self.shapes[source])

    def compiled(self, npu, *outputs, mode=None):
        """Compile the graph for an NPU, such as "ethos-u55-128", and a memory mode."""
        for name in outputs:
            self.made.currRegion.currBasicBlock.addOutput(name)
        return Compiled(bytes(self.made.serialize()), npu, mode)


class Compiled:
    """What Vela made: `outputs`, their shapes, `scratch`, the bytes of scratch memory, and `operations`, each with the
    registers as they are when it starts.
    """

    def __init__(self, tosa, npu, mode):
        family = npu.split("-")[1]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.tosa"
            path.write_bytes(tosa)
            with contextlib.redirect_stdout(io.StringIO()):
                vela.main(
                    [
                        str(path),
                        f"--output-dir={folder}",
                        f"--accelerator-config={npu}",
                        "--config=Arm/vela.ini",
                        "--output-format=raw",
                        f"--system-config={SYSTEMS[family]}",
                        f"--memory-mode={mode or MODES[family]}",
                    ]
                )
            with np.load(Path(folder) / "graph_vela.npz") as arrays:
                self.outputs = [tuple(shape) for shape in arrays["output_shape"]]
                self.scratch = int(arrays["scratch_shape"][0])
                words = struct.unpack(f"<{arrays['cmd_data'].nbytes // 4}I", arrays["cmd_data"].tobytes())
        self.operations = list(_operations(words))


def _operations(words):
    """Yield (name, registers) of each operation; registers by code, those of 32 bits and more by code + 0x4000."""
    at = 1  # behind "COP1"
    while words[at] & 0xFF != 2:  # the action that starts the command stream
        at += 3 if words[at] & 0xFF == 1 else 1
    stream, registers = iter(words[at + 1 :]), {}
    for word in stream:
        code, parameter = word & 0x3FF, word >> 16
        if word >> 14 & 3:
            registers[0x4000 + code] = parameter << 32 | next(stream)
        elif code in OPERATIONS:
            yield OPERATIONS[code], dict(registers)
        else:
            registers[code] = parameter


def report(present, text):
    """Say what was found, and end with status 0 if the defect is there, else 1."""
    print(f"{'defect' if present else 'no defect'}: {text}")
    sys.exit(0 if present else 1)
