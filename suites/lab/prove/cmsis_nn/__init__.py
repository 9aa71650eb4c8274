"""CMSIS-NN itself, built for this computer, as the oracle of the Cortex-M backend's kernels."""
