"""Images made larger or smaller."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, call, case, f32, u55
from ethos_hil.suites.ops import reasons

nearest = Operator(
    "nearest",
    aten=("upsample_nearest2d.vec",),
    fp=("RESIZE",),
    int=("RESIZE",),
    cases=(
        case("2x", call("nn.functional.interpolate", scale_factor=2.0), f32(1, 4, 5, 3)),
        case("a16w8", call("nn.functional.interpolate", scale_factor=2.0), f32(1, 4, 5, 3), scheme="a16w8"),
    ),
)

# Where upstream delegates none of them (U55, U65), they are slices (lowering/upstream/rewritten/resizes.py).
nearest_taken = Operator(
    "nearest_taken",
    aten=(),
    fp=("RESIZE",),
    cases=(
        case("3x", call("nn.functional.interpolate", scale_factor=3.0), f32(1, 3, 4, 5)),
        case("uneven", call("nn.functional.interpolate", size=(7, 6)), f32(1, 4, 3, 4)),
        case("batch", call("nn.functional.interpolate", scale_factor=2.0), f32(2, 4, 5, 3)),
    ),
)

bilinear = Operator(
    "bilinear",
    aten=("upsample_bilinear2d.vec",),
    fp=("RESIZE",),
    int=("RESIZE",),
    on_cpu=u55(reasons.U55_RESIZES),
    cases=(
        case("2x", call("nn.functional.interpolate", scale_factor=2.0, mode="bilinear"), f32(1, 4, 5, 3)),
        case(
            "aligned",
            call("nn.functional.interpolate", size=(9, 7), mode="bilinear", align_corners=True),
            f32(1, 4, 5, 4),
        ),
        case("smaller", call("nn.functional.interpolate", size=(4, 3), mode="bilinear"), f32(1, 4, 8, 6)),
        case("batch", call("nn.functional.interpolate", scale_factor=2.0, mode="bilinear"), f32(2, 3, 4, 5)),
        case(
            "a16w8",
            call("nn.functional.interpolate", scale_factor=2.0, mode="bilinear"),
            f32(1, 4, 5, 3),
            scheme="a16w8",
        ),
    ),
)
