"""Cases of a grid, as a user's file: one that is booted, one that is compiled and timed, and one that few NPUs have."""

RELU = """
[[case]]
name = "relu_1x64"
steps = [{layer = "ReLU"}]
inputs = [[1, 64]]
tags = ["short"]
"""
LINEAR = """
[[case]]
name = "linear_64_to_8"
steps = [{layer = "Linear", args = [64, 8]}]
inputs = [[1, 64]]
"""
RESIZE = """
[[case]]
name = "resize_4x4x8"
steps = [{layer = "Upsample", options = {scale_factor = 2, mode = "bilinear"}}]
inputs = [[1, 8, 4, 4]]
"""


def grid(*npus: str, cases: str, more: str = "") -> str:
    return f"schema_version = 1\nnpus = {[*npus]}\n{more}{cases}"
