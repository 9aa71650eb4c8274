"""The zoo: architectures that others wrote, and of kinds that others use, on every NPU (docs/zoo.md)."""
