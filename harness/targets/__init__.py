"""Where an image can run: the contract of a target, and the targets there are."""
