"""How good a model is on a data set: in float, quantised in PyTorch, and on the device."""
