"""What the NPU computes: kernels, elementwise operations, pools, copies, on the values of feature maps."""
