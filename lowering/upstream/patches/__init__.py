"""What is replaced in torch, torchao and ExecuTorch while a model is lowered: one table, each row a `Patch`.

`table` has the rows, `patch.apply` puts rows in place for a while, ETHOS_HIL_PATCHES=off turns all off. The other
modules have the replacements.

A patch either only saves time, or it changes what an artifact says, or what a campaign observes. None changes a
program: tests compare those that are made with and without patches, byte for byte.
"""
