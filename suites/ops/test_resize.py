"""Images made larger or smaller."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Operator, call, case, f32, u55
from ethos_hil.suites.ops import reasons

U55_ENLARGES = u55(reasons.U55_ENLARGES)

nearest = Operator(
    "nearest",
    aten=("upsample_nearest2d.vec",),
    fp=("RESIZE",),
    int=("RESIZE",),
    cases=(
        case("2x", call("nn.functional.interpolate", scale_factor=2.0), f32(1, 4, 5, 3)),
        case("3x", call("nn.functional.interpolate", scale_factor=3.0), f32(1, 3, 4, 5), on_cpu=U55_ENLARGES),
        case(
            "uneven",
            call("nn.functional.interpolate", size=(7, 6)),
            f32(1, 4, 3, 4),
            on_cpu=U55_ENLARGES,
        ),
        case("batch", call("nn.functional.interpolate", scale_factor=2.0), f32(2, 4, 5, 3), on_cpu=U55_ENLARGES),
        case("a16w8", call("nn.functional.interpolate", scale_factor=2.0), f32(1, 4, 5, 3), scheme="a16w8"),
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
