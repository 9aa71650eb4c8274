"""The seam to torch, torchao and ExecuTorch: how their parts are called to lower a model.

Private names of these packages are used here and nowhere else; a test enforces it. `names` has functions for those that
other rooms need, `patches` has what is replaced in upstream.
"""
