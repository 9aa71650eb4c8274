"""Random PyTorch networks of ordinary layers: each is exact on every NPU, or refused by name before anything boots."""
