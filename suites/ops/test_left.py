"""What upstream leaves to the CPU everywhere."""

from __future__ import annotations

from suites.case import Operator, case, everywhere, f32

NO_SORT = everywhere("TOSA cannot sort")

topk = Operator("topk", aten=(), on_cpu=NO_SORT, cases=(case("three", lambda x: x.topk(3)[0], f32(2, 9)),))

sort = Operator("sort", aten=(), on_cpu=NO_SORT, cases=(case("rows", lambda x: x.sort()[0], f32(2, 9)),))
