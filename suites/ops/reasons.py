"""Why upstream leaves operators to the CPU.

The reasons for Ethos-U55 and U65 are from backends/arm/operator_support of ExecuTorch 1.5.1 (ethos_u55_support.py,
convolution_support.py, pool_2d_support.py), which compiles both for the U55's capabilities; those for the float profile
are from TOSA 1.0's tables of types; backends/arm/quantizer/quantization_annotator.py lists what is quantised.
"""

from __future__ import annotations

U55_BITS = "the Ethos-U55 has no operations on bits"
U55_BOOLS = "the Ethos-U55 has no truth values"
U55_CASTS = "the Ethos-U55 casts from int8 and int16, and to no truth values"
U55_COMPARES = "the Ethos-U55 has no comparisons"
U55_CONV3D = "the Ethos-U55 convolves in two dimensions"
U55_DIVIDES = "the Ethos-U55 divides no integers: upstream quantises them and has the CPU choose how to round"
U55_GATHERS = "the Ethos-U55 reads and writes nothing by indices in a tensor"
U55_MATMULS = "upstream has the Ethos-U55 multiply matrices of int8 only"
U55_POOLS = "upstream has the Ethos-U55 average one image at a time, with strides of at most 3"
U55_RESIZES = "upstream resizes no images between their elements on the Ethos-U55"
U55_REVERSES = "upstream has the Ethos-U55 reverse the channels or the rows of images only"
U55_WIDE_TRANSPOSED = "Vela refuses transposed convolutions of 16 bits for the Ethos-U55"
U55_SELECTS = "the Ethos-U55 chooses nothing by truth values"
U55_STRIDES = "the Ethos-U55 transposes convolutions with strides of 1 or 2, the same in both directions"

FLOAT_ONLY = "TOSA's float profile has it for floats only"
NO_FLOATS = "an integer program cannot cast from or to float"
NO_PRODUCT = "TOSA multiplies along a dimension in float only"
NO_INT64 = "TOSA has no int64, and in float programs upstream narrows none"
NOT_ANNOTATED = "upstream's quantiser does not know it, so it stays float"
M55 = "ExecuTorch's Cortex-M backend (executorch 1.5.1) leaves it in float"
