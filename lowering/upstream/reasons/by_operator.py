"""Operators that upstream's Arm backend or its quantiser does not know (executorch 1.5.1), and what to write instead.

They are known by the operator of the model, whatever ExecuTorch makes of it: a softplus is six operators on the CPU.
"""

from __future__ import annotations

from ethos_hil.lowering.upstream.reasons.rule import U85, CpuRule, Example

_NO_RULE = "{executorch}'s Arm quantiser has no rule for {operator}"
_NO_LOWERING = "{executorch}'s Arm backend does not lower {operator} to TOSA"
_END = "let the program end before it, and compute it of the program's output"
_VECTOR, _TWO, _LINES = "float32[1, 16]", "float32[1, 16]; float32[1, 16]", "float32[1, 4, 8]"
_DEEP = "float32[1, 2, 4, 4, 4]"


def _of(operators: str, remedy: str, *examples: Example, why: str = _NO_LOWERING) -> CpuRule:
    names = tuple(f"aten.{name}" for name in operators.split())
    name = names[0].removeprefix("aten.").strip("_").replace("_", "-").replace(".", "-")
    return CpuRule(name, "", why, remedy, names, examples=examples)


OPERATORS = (
    CpuRule("dynamic-ranges", "", "the quantizer has the range of its input chosen in each inference, and the NPU "
            "needs constants", "let the quantizer be static: is_dynamic=False",
            ("quantized_decomposed.choose_qparams",)),
    _of("atan2", "write it with atan where the signs are known, or let the program end before it",
        Example("torch.atan2(x, y)", "torch.atan(x / y)", _TWO, alike=False)),
    _of("argmin", _END, Example("x.argmin(1)", "x", _VECTOR, alike=False)),
    _of("topk sort argsort msort kthvalue median", _END, Example("torch.topk(x, 3)[0]", "x", _VECTOR, alike=False),
        Example("x.sort()[0]", "x", _VECTOR, alike=False), why="TOSA cannot sort"),
    _of("grid_sampler grid_sampler_2d", "a grid that is known beforehand is a matrix product; else let the program end "
        "before it", Example("F.grid_sample(x, y, align_corners=False)", "(x.flatten(2) @ y).unflatten(2, (4, 4))",
                             "float32[1, 2, 6, 6]; float32[1, 4, 4, 2]", given="float32[1, 2, 6, 6]; float32[36, 16]")),
    _of("avg_pool3d", "pool two dimensions, and take the mean of the third",
        Example("nn.AvgPool3d(2)(x)", "nn.AvgPool2d(2)(x.flatten(1, 2)).unflatten(1, (2, 2, 2)).mean(3)", _DEEP),
        Example("nn.LocalResponseNorm(3)(x)", "x * torch.rsqrt(1 + 1e-4 * nn.Conv2d(4, 4, 1)(x * x))")),
    _of("max_pool3d max_pool3d_with_indices", "pool two dimensions, and take amax of the third",
        Example("nn.MaxPool3d(2)(x)", "nn.MaxPool2d(2)(x.flatten(1, 2)).unflatten(1, (2, 2, 2)).amax(3)", _DEEP)),
    _of("avg_pool1d", "unsqueeze it to two dimensions",
        Example("nn.AvgPool1d(2)(x)", "nn.AvgPool2d((1, 2))(x.unsqueeze(2)).squeeze(2)", _LINES), why=_NO_RULE),
    _of("max_pool1d max_pool1d_with_indices", "unsqueeze it to two dimensions",
        Example("nn.MaxPool1d(2)(x)", "nn.MaxPool2d((1, 2))(x.unsqueeze(2)).squeeze(2)", _LINES), why=_NO_RULE),
    _of("adaptive_avg_pool1d", "unsqueeze it to two dimensions",
        Example("nn.AdaptiveAvgPool1d(4)(x)", "nn.AdaptiveAvgPool2d((1, 4))(x.unsqueeze(2)).squeeze(2)", _LINES),
        why=_NO_RULE),
    _of("adaptive_max_pool2d", "give a max pool of fixed size",
        Example("nn.AdaptiveMaxPool2d(2)(x)", "nn.MaxPool2d(4)(x)")),
    _of("max_unpool2d", "use nn.Upsample or nn.ConvTranspose2d: the NPU has no indices of the largest elements",
        Example("F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)",
                "nn.Upsample(scale_factor=2)(F.max_pool2d(x, 2))", alike=False), why=_NO_RULE),
    _of("softplus", "write it with exp and log1p", Example("nn.Softplus()(x)", "torch.log1p(torch.exp(x))", _VECTOR),
        why=_NO_RULE),
    _of("mish", "use SiLU, or write it with exp, log1p and tanh",
        Example("nn.Mish()(x)", "x * torch.tanh(torch.log1p(torch.exp(x)))", _VECTOR), why=_NO_RULE),
    _of("rms_norm", "use layer norm, or write it with rsqrt",
        Example("nn.RMSNorm(8)(x)", "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)", _LINES), why=_NO_RULE),
    _of("instance_norm", "use a group norm with one channel in each group",
        Example("nn.InstanceNorm2d(4)(x)", "nn.GroupNorm(4, 4)(x)"), why=_NO_RULE),
    _of("batch_norm _native_batch_norm_legit_no_training", "put it directly behind a convolution, or fold it into the "
        "weights (RepVGG and the like: convert the model to its form for inference)",
        why="there is no convolution before it to take it in"),
    _of("gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell gru lstm rnn_tanh rnn_relu",
        "write the layer out with linear, sigmoid and tanh",
        Example("nn.RNNCell(4, 4)(x, y)", "torch.tanh(nn.Linear(4, 4)(x) + nn.Linear(4, 4)(y))",
                "float32[1, 4]; float32[1, 4]"), why=_NO_RULE),
    _of("cumprod cummax cummin", _END, Example("torch.cumprod(x, 1)", "x * 1.0", _VECTOR, alike=False)),
    _of("roll", "join slices with torch.cat",
        Example("torch.roll(x, 1, 1)", "torch.cat([x[:, -1:], x[:, :-1]], 1)", _VECTOR), why=_NO_RULE),
    _of("cdist _cdist_forward", "write it with differences, squares and sqrt",
        Example("torch.cdist(x, y)", "torch.sqrt(((x[:, :, None] - y[:, None]) ** 2).sum(-1))",
                "float32[1, 4, 3]; float32[1, 5, 3]")),
    _of("logsumexp", "write it with exp, sum and log",
        Example("torch.logsumexp(x, 1)", "torch.log(torch.exp(x).sum(1))", _VECTOR), why=_NO_RULE),
    _of("std", "take the root of the variance", Example("x.std(1)", "torch.sqrt(x.var(1))", _VECTOR)),
    _of("fmod", "use remainder; the two differ for negative numbers",
        Example("torch.fmod(x, 2.0)", "torch.remainder(x, 2.0)", _VECTOR, alike=False)),
    _of("trunc fix frac", "use floor and sign",
        Example("torch.trunc(x)", "torch.sign(x) * torch.floor(x.abs())", _VECTOR, U85),
        Example("torch.frac(x.abs())", "x.abs() - torch.floor(x.abs())", _VECTOR)),
    _of("exp2", "use exp", Example("torch.exp2(x)", "torch.exp(0.6931472 * x)", _VECTOR)),
    _of("log2", "use log", Example("torch.log2(x.abs() + 1)", "1.442695 * torch.log(x.abs() + 1)", _VECTOR)),
    _of("hypot", "use sqrt", Example("torch.hypot(x, y)", "torch.sqrt(x * x + y * y)", _TWO)),
    _of("lerp", "write it out: x + weight * (y - x)",
        Example("torch.lerp(x, y, 0.3)", "x + 0.3 * (y - x)", _TWO), why=_NO_RULE),
    _of("log_sigmoid log_sigmoid_forward", "use log and sigmoid",
        Example("nn.LogSigmoid()(x)", "torch.log(torch.sigmoid(x))", _VECTOR), why=_NO_RULE),
    _of("softshrink", "use clamp", Example("nn.Softshrink()(x)", "x - x.clamp(-0.5, 0.5)", _VECTOR), why=_NO_RULE),
    _of("hardshrink", "use torch.where with a tensor of zeros, on an Ethos-U85",
        Example("nn.Hardshrink()(x)", "torch.where(x.abs() > 0.5, x, torch.zeros_like(x))", _VECTOR, U85),
        why=_NO_RULE),
    _of("threshold", "use relu where the threshold is 0; else torch.where with a tensor of zeros, on an Ethos-U85",
        Example("nn.Threshold(0.1, 0.0)(x)", "torch.where(x > 0.1, x, torch.zeros_like(x))", _VECTOR, U85),
        Example("nn.Threshold(0.0, 0.0)(x)", "nn.ReLU()(x)", _VECTOR), why=_NO_RULE),
    _of("where.ScalarOther where.ScalarSelf where.Scalar", "choose between two tensors: torch.zeros_like(x)",
        Example("torch.where(y > 0, x, 0.0)", "torch.where(y > 0, x, torch.zeros_like(x))", _TWO, U85), why=_NO_RULE),
    _of("bilinear _trilinear", "use a linear layer of all products",
        Example("nn.Bilinear(4, 4, 3)(x, y)", "nn.Linear(16, 3)((x[:, :, None] * y[:, None]).flatten(1))",
                "float32[1, 4]; float32[1, 4]")),
    _of("isnan isinf isfinite", "leave it out: integers are never infinite, nor not a number",
        Example("torch.isnan(x)", "x", _VECTOR, alike=False)),
    _of("outer ger", "multiply a column by a row",
        Example("torch.outer(x, y)", "x[:, None] * y", "float32[4]; float32[5]"), why=_NO_RULE),
    _of("numpy_T adjoint mT t", "use transpose",
        Example("x @ y.T", "x @ y.transpose(0, 1)", "float32[1, 8]; float32[4, 8]"), why=_NO_RULE),
    _of("im2col", "use a convolution with a kernel of ones and zeros",
        Example("F.unfold(x, 2)", "nn.Conv2d(4, 16, 2)(x).flatten(2)"), why=_NO_RULE),
    _of("col2im", "use a transposed convolution with a kernel of ones and zeros",
        Example("F.fold(x, (4, 4), 2)", "nn.ConvTranspose2d(4, 1, 2)(x.unflatten(2, (3, 3)))", "float32[1, 4, 9]"),
        why=_NO_RULE),
    _of("unfold unfold_copy", "join slices with torch.stack",
        Example("x.unfold(2, 3, 1) * 2", "torch.stack([x[:, :, at:at + 3] for at in range(6)], 2) * 2", _LINES),
        why=_NO_RULE),
    _of("nonzero nonzero_numpy masked_select", "keep all elements, and multiply by the mask, or choose with "
        "torch.where", Example("torch.nonzero(x * 2)", "x * 2", _VECTOR, alike=False),
        why="how many elements it gives depends on the values"),
    _of("scatter", "use index_put with int32 indices, on an Ethos-U85",
        Example("torch.scatter(x, 1, y, z)", "torch.index_put(x, (w, y), z)",
                "float32[1, 16]; int64[1, 4]; float32[1, 4]", U85,
                given="float32[4, 16]; int32[4]; float32[4]; int32[4]")),
    _of("bucketize searchsorted", _END, Example("torch.bucketize(x, y)", "x * 1.0", "float32[1, 16]; float32[4]",
                                                given=_VECTOR)),
    _of("diagonal diagonal_copy", "take every so many elements of the matrix in a row",
        Example("torch.einsum('bii->bi', x)", "x.flatten(1)[:, ::5]", "float32[1, 4, 4]")),
    _of("randn rand randn_like rand_like randint randint_like randperm normal normal_ bernoulli multinomial",
        "give the program random numbers as an input",
        Example("x + torch.rand_like(x)", "x + y", _VECTOR, given=_TWO)),
    _of("native_dropout dropout",
        "let it do nothing outside of training: nn.Dropout, or F.dropout(x, p, self.training)",
        Example("F.dropout(x, 0.5)", "F.dropout(x, 0.5, False) + x", _VECTOR, alike=False)),
    _of("embedding_bag _embedding_bag _embedding_bag_forward_only",
        "take the sum, mean or amax of nn.Embedding's rows, along the axis of a bag",
        Example("nn.EmbeddingBag(10, 4)(x.flatten(), y)", "nn.Embedding(10, 4)(x).mean(1)", "int32[2, 3]; int32[2]",
                U85)),
    _of("one_hot", "look rows of an identity matrix up, on an Ethos-U85; or give the program the rows",
        Example("F.one_hot(x, 5).float()", "nn.Embedding(5, 5)(x)", "int64[1, 4]", U85, given="int32[1, 4]"),
        why=_NO_RULE),
    _of("erfc", "use erf", Example("torch.erfc(x)", "1 - torch.erf(x)", _VECTOR)),
    _of("upsample_linear1d", "unsqueeze it to two dimensions, on an Ethos-U85",
        Example("nn.Upsample(scale_factor=2, mode='linear')(x)",
                "F.interpolate(x.unsqueeze(2), scale_factor=(1, 2), mode='bilinear').squeeze(2)", _LINES, U85),
        why=_NO_RULE),
    _of("upsample_nearest1d upsample_nearest3d", "repeat with repeat_interleave",
        Example("nn.Upsample(scale_factor=2)(x)", "x.repeat_interleave(2, 2)", _LINES), why=_NO_RULE),
    _of("upsample_bicubic2d", "resize with mode='nearest', or 'bilinear' on an Ethos-U85",
        Example("nn.Upsample(scale_factor=2, mode='bicubic')(x)", "nn.Upsample(scale_factor=2, mode='bilinear')(x)",
                npu=U85, alike=False), why=_NO_RULE),
)  # fmt: skip
"""The first that names the operator decides."""
