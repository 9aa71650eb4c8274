"""The rules of upstream's partitioner that leave operators to the CPU, in plain words, and what would help.

Upstream's texts are those of executorch 1.5.1 (backends/arm/operator_support, backends/arm/tosa/partitioner.py). The
limits are stated there, and hold for Ethos-U55 and U65 alike. A text that is not in the tables is shown as it is.
"""

from __future__ import annotations

from ethos_hil.lowering.upstream.reasons import values
from ethos_hil.lowering.upstream.reasons.rule import U85, CpuRule, Example, Reason

ONLY_MOVED = "Partition contained only ops which are removed"
"""Said by upstream, and by `ethos_hil.lowering.upstream.cpu_calls` of an output that is an input."""
MISPLACED = "its result would have another type in TOSA"
"""Said by `ethos_hil.lowering.upstream.cpu_calls`, not by upstream."""
UNMAPPED = "Not included in BaseTOSASupportList"
UNQUANTISED = "Node was not marked as quantized"
BY_METHOD = Reason("the model keeps this method on the CPU", "leave out on_cpu")
BY_CPU_ALONE = Reason("all of the model is on the CPU, as asked", "use --cpu cortex-m")
UNKNOWN_CALL = Reason("not known: ExecuTorch added this call")
_FOR_KERNELS = "ExecuTorch's Cortex-M backend added it: its kernels of {}"
ADDED = {
    "cortex_m::transpose.out": Reason(
        _FOR_KERNELS.format("images take [N, H, W, C], of products transposed matrices"),
        "where all of the model is on the CPU, give inputs in channels_last",
    ),
    "cortex_m::pad.out": Reason(_FOR_KERNELS.format("averages leave out the padding"), "count_include_pad=False"),
}
"""Calls that descend from no operator of the model, by their kernels."""
UNNAMED = Reason("ExecuTorch's partitioner gives no reason", "let the program end before it, or begin behind it")

PAGE = "docs/on-the-cpu.md has the limits of each NPU; stay within them, or let the program end before it"
_ALONE = "write it with operators that a run does not list, or let the program end before it"
_OTHER_NPU = "or use an Ethos-U85 (--npu ethos-u85-256)"
_EIGHT_BITS = "quantise it to 8 bits (--scheme a8w8, or leave its module out of --int16)"
_LINE = "float32[1, 2, 4, 600]"

_COMPUTED_WEIGHTS = (
    "its weights are computed by the model, and the NPU takes constants",
    "scale the answer of a layer with constant weights, or write a matrix product: x @ w.transpose(0, 1)",
)

ASKED = (
    CpuRule(
        "left", "Rejected by NotLeft", "left to the CPU, as asked",
        "leave out --leave, or the method's `leave`",
    ),
    CpuRule(
        "computed-weights", "Rejected by ConstantWeights",
        *_COMPUTED_WEIGHTS,
        examples=(
            Example("F.conv2d(x, y * x.mean())", "nn.Conv2d(4, 2, 3)(x) * x.mean()",
                    "float32[1, 4, 8, 8]; float32[2, 4, 3, 3]", given="float32[1, 4, 8, 8]"),
            Example("F.linear(x, y)", "x @ y.transpose(0, 1)", "float32[1, 8]; float32[4, 8]"),
        ),
    ),
    CpuRule(
        "weights-of-a-branch", "Rejected by OwnWeights",
        "it is in a branch, which is delegated by itself on {npu}, and its weights are outside",
        "compute what has weights outside of the branch, " + _OTHER_NPU,
    ),
    CpuRule(
        "weights-of-a-part", "Rejected by InWholeBranches",
        "it is in a branch, its weights are outside, and {executorch} takes those without groups, and only where both "
        "branches are delegated as a whole, with no branch inside",
        "compute what has weights outside of the branch, and choose between the answers",
    ),
    CpuRule(
        "integer-sum", "Rejected by NotIntegerSum",
        "the NPU makes running sums of quantised numbers only, and here they are {inputs}",
        "give the program the mask or the numbers as float32",
        values=values.types,
        examples=(Example("(x > 0).cumsum(1, dtype=torch.int32)", "x.cumsum(1)", "float32[1, 8]", U85, alike=False),),
    ),
    CpuRule(
        "narrow-integers", "Rejected by NotNarrow",
        "TOSA has it for numbers that are quantised or int32, and here they are {inputs}",
        "give the program the numbers as int32, or as float32", values=values.types,
        examples=(Example("x + x", "x + x", "int8[1, 8]", given="int32[1, 8]", alike=False),),
    ),
    CpuRule(
        "functions-of-integers", "Rejected by NotOfReals",
        "the NPU has it for quantised numbers, and here they are {inputs}",
        "give the program the numbers as float32", values=values.types,
        examples=(Example("torch.exp(x)", "torch.exp(x)", "int32[1, 8]", given="float32[1, 8]"),),
    ),
    CpuRule(
        "integer-product", "Rejected by NotIntegerProduct",
        "the NPU multiplies matrices of quantised numbers only, and here they are {inputs}",
        "give the program the numbers as float32", values=values.types,
        examples=(Example("x @ y", "x @ y", "int32[1, 4, 4]; int32[1, 4, 4]", U85,
                          given="float32[1, 4, 4]; float32[1, 4, 4]"),),
    ),
    CpuRule(
        "limits-of-a-cast", "Rejected by NotOfCast", "ExecuTorch takes the limits of a number that was cast before the "
        "cast, and TOSA has none for integers of 32 bits",
        "give the program float32, or compute something else of the number first",
        examples=(Example("x.float().relu()", "x.relu()", "int32[1, 8]", given="float32[1, 8]"),),
    ),
    CpuRule(
        "narrowing-cast", "Rejected by KeepsBits",
        "a cast to fewer bits drops the upper ones, and Vela has {npu} take the nearest number that fits",
        "use an Ethos-U85 (--npu ethos-u85-256)",
        examples=(Example("x.to(torch.int8)", "x.to(torch.int8)", "int16[1, 8]", other=U85),),
    ),
    CpuRule(
        "wide-sum", "Rejected by NotWide",
        "{executorch} makes a running sum of 16 bits a convolution with weights of 16 bits, and {npu} takes 8",
        _EIGHT_BITS, operators=("aten.cumsum",),
    ),
    CpuRule(
        "wide-transposed-convolution", "Rejected by NotWide",
        "Vela refuses transposed convolutions of 16 bits for {npu}", f"{_EIGHT_BITS}, {_OTHER_NPU}",
        operators=("aten.convolution",),
    ),
    CpuRule(
        "floats-only", "Rejected by FloatsOnly", "TOSA's float profile has it for floats only, and here it is {inputs}",
        "cast its input to float", values=values.types,
    ),
    CpuRule("cut-off", "does not support control flow", "only an Ethos-U85 has branches and loops", "use an Ethos-U85 "
         "(--npu ethos-u85-256), or choose with torch.where"),
    CpuRule("unfinished-branch", "[Ss]ubmodule was not fully partitioned",
         "a branch or body has an operator that is not delegated", "mend that operator: it is in this list, too"),
    CpuRule("of-a-branch", "Submodule had unsupported user", "it belongs to a branch that is not delegated",
         "mend the branch, or choose with torch.where"),
)  # fmt: skip
"""What no operator's own table is asked for."""

U55_RULES = (
    CpuRule(
        "stride", "Failed condition on stride, pad and dilation",
        "its stride is {stride} with {beside}, and {npu} takes at most 3 there",
        "pad with F.pad before it, in place of its own padding; where it is dilated, use a stride of at most 3, "
        + _OTHER_NPU,
        values=values.convolution,
        examples=(
            Example("nn.Conv1d(1, 4, 250, stride=160, padding=45)(x)",
                    "nn.Conv1d(1, 4, 250, stride=160)(F.pad(x, (45, 45)))", "float32[1, 1, 800]"),
            Example("nn.Conv2d(4, 2, 3, stride=4, dilation=2)(x)", "nn.Conv2d(4, 2, 3, stride=3, dilation=2)(x)",
                    "float32[1, 4, 20, 20]"),
        ),
    ),
    CpuRule(
        "kernel", "Convolution needs to have kernel_y<=64",
        "its kernel is {kernel}, and {npu} takes at most 64 in the last axis, and 4,096 elements",
        "use a smaller kernel; two, one behind the other, see as much", values=values.convolution,
        examples=(Example("nn.Conv2d(2, 2, (1, 70))(x)", "nn.Conv2d(2, 2, (1, 36))(nn.Conv2d(2, 2, (1, 35))(x))",
                          "float32[1, 2, 4, 80]"),),
    ),
    CpuRule(
        "convolution-of-three-dimensions",
        "Convolution3d needs to have kernel_z==1|Convolution3d only supports|Rejected by FlatKernels",
        "its kernel is {kernel}, and {npu} has no convolutions of three dimensions",
        "use convolutions of two dimensions, with the depth as channels, " + _OTHER_NPU, values=values.convolution,
        examples=(
            Example("nn.Conv3d(2, 2, 3)(x)", "nn.Conv2d(12, 8, 3)(x.flatten(1, 2)).unflatten(1, (2, 4))",
                    "float32[1, 2, 6, 6, 6]"),
            Example("nn.Conv3d(2, 2, (3, 1, 1))(x)", "nn.Conv3d(2, 2, (3, 1, 1))(x)", "float32[1, 2, 6, 6, 6]",
                    other=U85),
        ),
    ),
    CpuRule(
        "size-of-a-convolution", r"Convolution must have C <= 65536|Depthwise convolution must have CWH <= 65536|"
        r"HWC must be in the range", "its input is {shape}, and {npu} takes at most 65,536 along an axis",
        "make the input smaller, or split it", values=values.convolution,
    ),
    CpuRule(
        "stride-of-a-transposed-convolution", "Unsupported stride of .+ for Ethos-U55",
        "its stride is {strides}, and {npu} takes 1x1 or 2x2 in a transposed convolution",
        "use a stride of 1 or 2, " + _OTHER_NPU, values=values.convolution,
        examples=(
            Example("nn.ConvTranspose2d(4, 1, 5, stride=3, padding=2)(x)",
                    "nn.ConvTranspose2d(4, 1, 5, stride=2, padding=2)(x)"),
            Example("nn.ConvTranspose2d(4, 2, 3, stride=(2, 1))(x)", "nn.ConvTranspose2d(4, 2, 3, stride=(2, 1))(x)",
                    other=U85),
        ),
    ),
    CpuRule(
        "kernel-of-a-transposed-convolution", r"Kernel Height \* Kernel Width must be in the range",
        "its kernel is {kernel}, and {npu} takes at most 64 rows and 4,096 elements in a transposed convolution",
        "use a smaller kernel", values=values.convolution,
        examples=(Example("nn.ConvTranspose2d(1, 1, (66, 1))(x)", "nn.ConvTranspose2d(1, 1, (64, 1))(x)",
                          "float32[1, 1, 4, 4]"),),
    ),
    CpuRule(
        "padded-average", "Avgpool2d with padding needs kernel dims",
        "its kernel is {kernel} with padding, and {npu} takes at most 8x8 there",
        "leave count_include_pad=True, so that the padding is an operation of its own, or use a kernel of at most 8",
        values=values.pool,
        examples=(Example("nn.AvgPool2d(9, 1, padding=4, count_include_pad=False)(x)",
                          "nn.AvgPool2d(9, 1, padding=4)(x)", "float32[1, 2, 12, 12]", alike=False),),
    ),
    CpuRule(
        "kernel-of-a-pool", "(Avg|Max)pool2d needs kernel_y",
        "its kernel is {kernel}, and {npu} takes at most 256 columns, and 65,536 elements, in a pool",
        "split the axis with unflatten, and take the mean or amax of the new one", values=values.pool,
        examples=(
            Example("nn.AvgPool2d((1, 300))(x)", "x.unflatten(3, (2, 300)).mean(4)", _LINE),
            Example("nn.MaxPool2d((1, 300))(x)", "x.unflatten(3, (2, 300)).amax(4)", _LINE),
        ),
    ),
    CpuRule(
        "size-of-a-pool", "(Avg|Max)pool2d needs N == 1, rest dims",
        "its input is {shape}, and {npu} takes at most 65,536 along an axis", "make the input smaller, or split it",
        values=values.pool,
    ),
    CpuRule(
        "stride-of-a-pool", "(Avg|Max)pool2d needs stride",
        "its stride is {stride}, and {npu} takes at most 3 in a pool",
        "use two pools, one behind the other; a max pool without padding may have the stride of its kernel; "
        + _OTHER_NPU,
        values=values.pool,
        examples=(
            Example("nn.AvgPool2d(4)(x)", "nn.AvgPool2d(2)(nn.AvgPool2d(2)(x))"),
            Example("nn.MaxPool2d(5, stride=4)(x)", "nn.MaxPool2d(4)(x)", "float32[1, 2, 16, 16]", alike=False),
        ),
    ),
    CpuRule(
        "batch-of-a-pool", "Avgpool2d needs N ?== ?1",
        "its batch is {batch}, and {npu} averages one picture at a time",
        "use a batch of 1, or make channels of the batch", values=values.pool,
        examples=(Example("nn.AvgPool2d(2)(x)", "nn.AvgPool2d(2)(x.reshape(1, 8, 8, 8)).reshape(2, 4, 4, 4)",
                          "float32[2, 4, 8, 8]"),),
    ),
    CpuRule(
        "enlargement", "U55 nearest-neighbor resize",
        "it enlarges a batch of {batch} by {factor}; {executorch} delegates to {npu} a batch of 1 by 2x2, 4x4 or "
        "8x8 only, though it can repeat elements", "repeat with repeat_interleave, or make channels of the batch",
        values=values.resize,
        examples=(
            Example("nn.Upsample(scale_factor=3)(x)", "x.repeat_interleave(3, 2).repeat_interleave(3, 3)"),
            Example("nn.Upsample(scale_factor=2)(x)",
                    "nn.Upsample(scale_factor=2)(x.reshape(1, 8, 8, 8)).reshape(2, 4, 16, 16)", "float32[2, 4, 8, 8]"),
        ),
    ),
    CpuRule(
        "flip", "U55 flip support is limited",
        "it turns round dimension {axes} of {rank}; {executorch} does so on {npu} with dimension 1 or 2 of four "
        "only", "transpose before and behind it, so that it is dimension 2 of four", values=values.flip,
        examples=(Example("torch.flip(x * 2, [3])", "torch.flip((x * 2).transpose(2, 3), [2]).transpose(2, 3)"),),
    ),
    CpuRule("reflection", "U55 reflection padding", "{executorch} delegates to {npu} a reflection that is smaller than "
         "the axis, of a fixed shape", "pad less than the axis is long"),
    CpuRule("windows", r"U55 unfold_copy supports at most \d+ windows",
         "it makes {windows} windows, and {executorch} delegates at most 16 to {npu}",
         "join slices with torch.stack, " + _OTHER_NPU, values=values.windows),
    CpuRule(
        "bilinear", "Op is not supported on U55", "{executorch} delegates no bilinear resize to {npu}",
        "enlarge with mode='nearest', " + _OTHER_NPU, operators=("aten.upsample_bilinear2d",),
        examples=(
            Example("nn.Upsample(scale_factor=2, mode='bilinear')(x)", "nn.Upsample(scale_factor=2)(x)", alike=False),
            Example("nn.Upsample(scale_factor=2, mode='bilinear')(x)",
                    "nn.Upsample(scale_factor=2, mode='bilinear')(x)", other=U85),
        ),
    ),
    CpuRule(
        "indices", "Op is not supported on U55", "{npu} cannot pick elements by indices",
        "pick with slices that are known beforehand, or multiply by a matrix of zeros and ones, " + _OTHER_NPU,
        operators=("aten.gather", "aten.index", "aten.index_select", "aten.embedding", "aten.grid_sampler_2d"),
        examples=(
            Example("torch.index_select(x * 2, 1, y)", "(x * 2)[:, 2:4]", "float32[1, 8, 3]; int32[2]",
                    given="float32[1, 8, 3]"),
            Example("nn.Embedding(10, 4)(x)", "x @ y", "int32[1, 6]", given="float32[1, 6, 10]; float32[10, 4]"),
            Example("torch.gather(x * 2, 1, y)", "torch.gather(x * 2, 1, y.long())", "float32[1, 8]; int64[1, 4]",
                    other=U85, given="float32[1, 8]; int32[1, 4]"),
        ),
    ),
    CpuRule(
        "writing-by-indices", "Op is not supported on U55", "{npu} cannot write elements by indices",
        "join slices with torch.cat, " + _OTHER_NPU,
        operators=("aten.index_put", "aten.scatter", "aten.select_scatter", "aten.scatter_reduce", "aten.scatter_add"),
        examples=(
            Example("torch.index_put(x, (y,), z)", "torch.cat([x[:2], z, x[5:]])",
                    "float32[8, 4]; int32[3]; float32[3, 4]", given="float32[8, 4]; int32[3]; float32[3, 4]"),
        ),
    ),
    CpuRule(
        "no-booleans", "Op is not supported on U55|Had torch.bool (input|output)",
        "{npu} has no comparisons, no booleans and no choice between tensors",
        "write it with arithmetic (relu, leaky_relu, clamp, maximum, minimum, a factor of 0.0 and 1.0), or compare "
        "behind the program, " + _OTHER_NPU,
        examples=(
            Example("torch.where(x > 0, x, 0.1 * x)", "F.leaky_relu(x, 0.1)"),
            Example("torch.where(x > y, x, y)", "torch.maximum(x, y)", "float32[1, 8]; float32[1, 8]"),
            Example("x > y", "x - y", "float32[1, 8]; float32[1, 8]", alike=False),
            Example("x > y", "x > y", "float32[1, 8]; float32[1, 8]", other=U85),
        ),
    ),
    CpuRule(
        "casting", "Casting (from|to) torch.(\\w+) is not supported",
        "{npu} cannot cast {inputs} to {result}", "give the program this input as float32, " + _OTHER_NPU,
        values=values.types,
        examples=(Example("x.float() * 2", "x * 2", "int32[1, 8]", given="float32[1, 8]"),),
    ),
    CpuRule(
        "long-reduction", "sum needs dims|Failed dim check",
        "it sums dimension {axes} of {shape}; {npu} takes at most 65,536 along it, before it and behind it",
        "sum in two steps", values=values.reduction,
        examples=(Example("x.sum(1)", "x.reshape(70, 1000).sum(1).sum(0, keepdim=True)", "float32[1, 70000]"),),
    ),
    CpuRule(
        "bits-of-a-product", r"has unsupported dtype torch.(?P<found>\w+) \(Supports (?P<wanted>.+)\)",
        "it is given {found}, and {npu} multiplies matrices of {wanted} only",
        f"{_EIGHT_BITS}, {_OTHER_NPU}",
    ),
    CpuRule(
        "bits", r"Unsupported (\w* ?)dtype torch.(?P<found>\w+) \(Supports (?P<wanted>.+)\)",
        "it computes with {found}, and {npu} takes {wanted} in it", "give it float32, which is quantised",
        examples=(Example("x.amax(1)", "x.amax(1)", "int32[2, 8]", given="float32[2, 8]"),),
    ),
)  # fmt: skip

ANY_RULES = (
    CpuRule(
        "dilated-transposed-convolution", "Transpose convolutions with dilation",
        "its dilation is {dilation}, and {executorch} has none in transposed convolutions",
        "leave out dilation", values=values.convolution,
        examples=(Example("nn.ConvTranspose2d(4, 1, 3, dilation=2)(x)", "nn.ConvTranspose2d(4, 1, 5)(x)"),),
    ),
    CpuRule(
        "transposed-convolution-of-two-dimensions", "Only 2D transpose convolutions|TransposeConv2d requires 4D input",
        "its kernel is {kernel}, and {executorch} has transposed convolutions of two dimensions only",
        "unsqueeze it to two dimensions", values=values.convolution,
        examples=(Example("nn.ConvTranspose1d(3, 1, 3, stride=2)(x)",
                          "nn.ConvTranspose2d(3, 1, (1, 3), stride=(1, 2))(x.unsqueeze(2)).squeeze(2)",
                          "float32[1, 3, 9]"),),
    ),
    CpuRule("output-padding", "Convolutions with non-zero output padding", "it has an output padding",
         "use output_padding=0"),
    CpuRule(
        "grouped-transposed-convolution", "Grouped transpose convolutions",
        "{executorch} has no transposed convolutions with groups whose weights have a scale for each channel",
        "use groups=1, or one transposed convolution for each group, joined with torch.cat",
        examples=(Example("nn.ConvTranspose2d(4, 4, 3, stride=2, groups=2)(x)",
                          "torch.cat([nn.ConvTranspose2d(2, 2, 3, stride=2)(x[:, :2]), "
                          "nn.ConvTranspose2d(2, 2, 3, stride=2)(x[:, 2:])], 1)"),),
    ),
    CpuRule(
        "cropped-transposed-convolution", "out_pad exceeds kernel",
        "its padding is {padding}, not less than its kernel, {kernel}", "cut the answer with a slice, in its place",
        values=values.convolution,
        examples=(Example("nn.ConvTranspose2d(4, 1, 2, padding=2)(x)",
                          "nn.ConvTranspose2d(4, 1, 2)(x)[:, :, 2:-2, 2:-2]"),),
    ),
    CpuRule(
        "dilated-pool", "Maxpool2d with dilation",
        "its dilation is {dilation} with a stride of {stride}, and {executorch} needs a stride of 1 there",
        "use a stride of 1, or no dilation and a larger kernel", values=values.pool,
        examples=(Example("nn.MaxPool2d(2, stride=2, dilation=2)(x)", "nn.MaxPool2d(3, stride=2)(x)", alike=False),),
    ),
    CpuRule("rank-of-a-pool", "Maxpool2d needs rank 3 or 4", "its input is {shape}, not of three or four dimensions",
            "reshape it to four dimensions", values=values.pool),
    CpuRule(
        "uint8", "internal uint8 tensors",
        "TOSA has uint8 at a program's inputs and outputs only, and the delegate that would have it has some inside",
        "give the program float32 in place of uint8",
        examples=(Example("torch.cat([x, x], 1)", "torch.cat([x, x], 1)", "uint8[2, 8]", U85, given="float32[2, 8]"),),
    ),
    CpuRule(
        "argmax-of-integers", "TOSA ARGMAX", "TOSA's answers int32, along one dimension that is given and not kept",
        "give the dimension, without keepdim, and cast the answer at once: .to(torch.int32)",
        applies=values.is_narrow,
        examples=(
            Example("x.argmax(1)", "x.argmax(1).to(torch.int32)", "int8[2, 8]"),
            Example("x.argmax(1, keepdim=True).to(torch.int32)", "x.argmax(1).to(torch.int32).unsqueeze(1)",
                    "int8[2, 8]"),
        ),
    ),
    CpuRule(
        "argmax", "TOSA ARGMAX",
        "TOSA's takes int8 and int16; here it is {inputs}, which {executorch}'s Arm quantiser does not quantise for it",
        "let the program end before it, and take it of the program's output", values=values.types,
        examples=(
            Example("x.argmax(1)", "x", "float32[1, 16]", given="float32[1, 16]"),
            Example("y.argmax(-1) + x", "x + y", "float32[1, 8]; int32[1, 8]", U85, given="float32[1, 8]; float32[8]"),
        ),
    ),
    CpuRule("indices-of-the-largest", "Using the indices output", "the NPU has no indices of the largest elements",
         "use the values only", examples=()),
    CpuRule(
        "indices-of-a-pool", "int64", "it gives the indices of the largest elements, which the NPU does not have",
        "use the values only: without return_indices", operators=("aten.max_pool2d_with_indices",),
        examples=(Example("F.max_pool2d(x, 2, return_indices=True)", "F.max_pool2d(x, 2)"),),
    ),
    CpuRule(
        "integers-of-64-bits-to-cast", "int64",
        "it casts the input {name} from {inputs} to {result}, and the NPU does not have int64",
        "give the program this input as torch.int32", operators=("dim_order_ops._to_dim_order_copy", "aten._to_copy"),
        values=values.cast, applies=values.is_of_input,
        examples=(Example("torch.index_put(x, (y,), z)", "torch.index_put(x, (y,), z)",
                          "float32[8, 4]; int64[3]; float32[3, 4]", U85,
                          given="float32[8, 4]; int32[3]; float32[3, 4]"),),
    ),
    CpuRule(
        "cast-of-64-bits", "int64", "its input is int64",
        "cast integers to float32 before they are computed with, or to int32 where they are indices",
        operators=("dim_order_ops._to_dim_order_copy", "aten._to_copy"), applies=values.is_of_operator,
        follows="inputs",
    ),
    CpuRule(
        "integers-of-64-bits", "int64|outside int32 range",
        "it makes {result} of {inputs}, and the NPU does not have int64",
        "cast integers to float32 before they are computed with, or to int32 where they are indices",
        values=values.types,
        examples=(Example("x.cumsum(1)", "x.float().cumsum(1)", "int32[1, 8]", U85),),
    ),
    CpuRule(
        "type-of-indices", r"index dtype torch.(?P<found>\w+) not supported|"
        r"Indices dtype torch.(?P<other>\w+) is not supported|index must be rank-1 int32",
        "the NPU takes one list of int32 as indices", "give the indices as torch.int32",
    ),
    CpuRule(
        "skipped-indices", r"None \(from slice/unsqueeze/ellipsis\) before an indexing tensor",
        "{executorch} takes indices of the first dimensions only",
        "use torch.index_select, or transpose before and behind it",
        examples=(Example("(x * 2)[:, y]", "torch.index_select(x * 2, 1, y)", "float32[1, 8, 3]; int32[4]", U85),),
    ),
    CpuRule(
        "gathering", r"unsupported dim/rank; got|batch mismatch x_shape|trailing dimension size mismatch",
        "{executorch} gathers along dimension 1 of two or three only, with indices of the same batch",
        "transpose it so, or use torch.index_select",
        examples=(Example("torch.gather(x * 2, 0, y)",
                          "torch.gather((x * 2).transpose(0, 1), 1, y.transpose(0, 1).long()).transpose(0, 1)",
                          "float32[8, 1]; int64[4, 1]", U85, given="float32[8, 1]; int32[4, 1]"),),
    ),
    CpuRule(
        "other-types", r"Had torch.(\w+) (input|output)", "it makes {result} of {inputs}, which {npu} does not have",
        "use float32 in the model, or int32", values=values.types,
    ),
    CpuRule(
        "dimensions", "rank.*is unsupported", "it has {rank} dimensions, {shape}, and {executorch} takes "
        "at most {limit}",
        "merge dimensions with reshape", values=values.rank,
        examples=(Example("x.reshape(1, 2, 2, 2, 2, 2, 2).permute(0, 6, 5, 4, 3, 2, 1).reshape(1, 64) * 2",
                          "x.reshape(2, 2, 2, 2, 2, 2).permute(5, 4, 3, 2, 1, 0).reshape(1, 64) * 2",
                          "float32[1, 64]"),),
    ),
    CpuRule(
        "free-shape", "[Ss]ymbolic|unresolved tensor shapes", "its shape is not fixed",
        "export with fixed shapes: a shape that depends on the values (x[mask], nonzero) becomes a product with the "
        "mask",
        examples=(Example("x[x > 0].sum()", "(x * (y * 1.0)).sum()", "float32[16]", U85,
                          given="float32[16]; float32[16]"),),
    ),
    CpuRule(
        "scale-of-a-resize", "RESIZE .+", "TOSA cannot resize so: it enlarges by {factor}",
        "resize less, or in two steps", values=values.resize,
        examples=(Example("F.interpolate(x, scale_factor=1 / 32, mode='bilinear')",
                          "F.interpolate(F.interpolate(x, scale_factor=1 / 8, mode='bilinear'), scale_factor=1 / 4, "
                          "mode='bilinear')", "float32[1, 2, 64, 64]", U85, alike=False),),
    ),
    CpuRule(
        "writing-by-a-mask", "index_put are not supported|[Bb]ool(ean|-)[ m]*mask index_put",
        "{executorch} writes by one mask, and one number", "choose with torch.where(mask, values, x)",
    ),
    CpuRule(
        "product", "does not support REDUCE_PRODUCT", "TOSA multiplies all elements of an axis in float only",
        "multiply slices", examples=(Example("x.prod(1)", "x[:, 0] * x[:, 1]", "float32[1, 2]"),),
    ),
    CpuRule(
        "moves-only", ONLY_MOVED,
        "it only moves or renames data, and no operator beside it is on the NPU",
        "nothing: on the NPU it would be a copy, too",
    ),
    CpuRule("computed-weights-of-a-linear-layer", f"had fp dtype|were not quantized|{MISPLACED}", *_COMPUTED_WEIGHTS,
         operators=("aten.linear",)),
    CpuRule(
        "input-in-float", "One or more inputs were not quantized|Was first node in partition and input .* had fp dtype",
        "its input is in float", "quantise what makes its input", follows="inputs",
        examples=(),
    ),
    CpuRule("used-in-float", "One or more outputs were not quantized", "its result is used in float",
         "quantise what uses its result", follows="users"),
    CpuRule("misplaced", MISPLACED, "its result is {result}, which a delegate cannot give to the CPU",
         "quantise what uses its result, or use int32", follows="users", values=values.types),
)  # fmt: skip

OF_TYPES = (
    r"Tensor x dtype|requires (INT|FP) profile|requires \w+ extension|unsupported values|"
    r"([Oo]utput|[Ii]nput) dtype .* is not supported|dtype .* is not supported"
)
RULES = (*U55_RULES, *ANY_RULES)
"""The first whose pattern is found decides."""
TYPES = CpuRule(
    "types", OF_TYPES, "TOSA does not have it for {inputs} to {result}",
    "cast before the program, or behind it; a mask becomes float32 with torch.where(mask, torch.ones_like(x), "
    "torch.zeros_like(x))",
    values=values.types,
    examples=(
        Example("x.float() / 255", "x / 255", "uint8[1, 8]", given="float32[1, 8]"),
        Example("(x > 0).float() * y", "torch.where(x > 0, torch.ones_like(x), torch.zeros_like(x)) * y",
                "float32[1, 8]; float32[1, 8]", U85),
    ),
)  # fmt: skip
UNKNOWN = CpuRule("no-lowering", UNMAPPED, "{executorch}'s Arm backend does not lower {operator} to TOSA", _ALONE)
WITHOUT_RULE = CpuRule("no-rule", UNQUANTISED, "{executorch}'s Arm quantiser has no rule for {operator}", _ALONE)
MIXED = CpuRule(
    "mixed-types", UNQUANTISED, "it is given {inputs}, and {executorch}'s Arm quantiser takes float32 only",
    "cast before the program, or choose with torch.where in place of a product with a mask", values=values.mixed,
    applies=values.is_mixed,
    examples=(Example("x * (x.abs() > 0.5)", "torch.where(x.abs() > 0.5, x, torch.zeros_like(x))", "float32[1, 16]",
                      U85),),
)  # fmt: skip
IN_FLOAT = CpuRule(
    "in-float", UNQUANTISED, "{executorch}'s Arm quantiser leaves {operator} in float here", _ALONE,
    applies=values.is_known,
)  # fmt: skip
LEFT_OUT = CpuRule(
    "left-out", UNQUANTISED, "the quantizer {quantizer} leaves it in float, and ExecuTorch's own would quantise it",
    "let {quantizer} quantise it (set_global, or a filter that finds it)",
)  # fmt: skip
NOT_FOUND = CpuRule(
    "filter-without-match", UNQUANTISED,
    "the quantizer {quantizer} leaves it in float: its {unmatched} finds nothing in the model",
    "name what the model has: {there}",
)  # fmt: skip
FOREIGN = CpuRule(
    "other-quantizer", UNQUANTISED,
    "{quantizer} quantised it, and ExecuTorch's partitioner takes what its Arm quantiser marked only",
    "let the quantizer be an EthosUQuantizer",
)  # fmt: skip
FOREIGN_LEFT = CpuRule(
    "left-by-other-quantizer", UNQUANTISED, "{quantizer} leaves it in float", "let the quantizer be an EthosUQuantizer"
)  # fmt: skip
GIVEN = CpuRule(
    "left-by-the-user", UNQUANTISED, "the model as given leaves it in float",
    "quantise it, too, or give the float model",
)  # fmt: skip
IN_GENERAL = (*RULES, TYPES, UNKNOWN, MIXED, IN_FLOAT, WITHOUT_RULE)
OTHERS = (TYPES, UNKNOWN, MIXED, IN_FLOAT, WITHOUT_RULE, LEFT_OUT, NOT_FOUND, FOREIGN, FOREIGN_LEFT, GIVEN)
