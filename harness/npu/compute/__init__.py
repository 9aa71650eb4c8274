"""The NPU's arithmetic on the values of feature maps: kernels, elementwise operations, pools, copies."""
