"""The versions of torch, torchao and ExecuTorch whose sources were read for the patches, the tested one last."""

EXECUTORCH = ("1.4.1", "1.5.0", "1.5.1")
VERSIONS = {"torch": ("2.13.0",), "torchao": ("0.18.0",), "executorch": EXECUTORCH}
