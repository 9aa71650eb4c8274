"""The user's code: the user's line in a stack trace."""

from __future__ import annotations

from pathlib import Path

import torch

from ethos_hil.lowering.user_code.user_function import (
    Sources,
    is_framework_file,
)

CONTAINER = f"{Path(torch.__file__).parent}/nn/modules/container.py"
TRACE = f"""  File "/home/me/project/net.py", line 12, in forward
    x = self.stem(x)
  File "{CONTAINER}", line 253, in forward
    input = module(input)
  File "/home/me/project/layers/blocks.py", line 7, in forward
    return self.conv(x)
  File "{Path(torch.__file__).parent}/nn/modules/conv.py", line 565, in forward
    return self._conv_forward(input, self.weight, self.bias)
  File "/opt/other/lib/python3.11/site-packages/executorch/backends/arm/_passes/rewrite_conv_pass.py", line 592, in call
  File "<eval_with_key>.12", line 5, in forward
"""


def test_the_innermost_own_frame_wins() -> None:
    assert Sources(Path("/home/me/project")).locate(TRACE) == "layers/blocks.py:7"
    assert Sources(Path("/elsewhere")).locate(TRACE) == "blocks.py:7"
    assert Sources().locate(TRACE) == "blocks.py:7"


def test_a_trace_without_own_frames_gives_nothing() -> None:
    assert Sources().locate(None) is None
    assert Sources().locate("") is None
    assert Sources().locate(f'File "{CONTAINER}", line 3, in forward') is None


def test_only_the_frameworks_are_excluded() -> None:
    assert is_framework_file(CONTAINER)
    assert is_framework_file("<string>")
    assert not is_framework_file("/opt/lib/python3.11/site-packages/timm/models/resnet.py")
    assert not is_framework_file("/home/me/torch/net.py")
