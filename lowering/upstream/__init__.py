"""All that is used of torch, torchao and ExecuTorch beside their public interfaces."""
