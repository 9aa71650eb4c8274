"""Options about the quantisation, of `run`, `lower` and `preflight`."""

from __future__ import annotations

from typing import Annotated

import typer

SCHEME = Annotated[
    str,
    typer.Option(metavar="a8w8|a16w8", help="Bits of activations and weights, where a model is quantised here."),
]
CALIBRATE = Annotated[
    str | None,
    typer.Option(
        metavar="X.npz|file.py:function",
        help="Inputs to calibrate the quantisation with: an .npz as for --inputs, or a function that returns a list of "
        "input tuples. Default: the model's own, or its example.",
    ),
]
INT16 = Annotated[
    list[str] | None,
    typer.Option(
        "--int16",
        metavar="MODULE",
        help="Give the activations of this module 16 bits, e.g. head or blocks.3; repeatable.",
    ),
]
QUANTIZER = Annotated[
    str | None,
    typer.Option(
        metavar="file.py:function",
        help="Quantise with what this function returns: it takes upstream's compile spec and returns a configured "
        "EthosUQuantizer, or another quantizer of torchao.",
    ),
]
