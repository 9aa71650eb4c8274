"""Runs PyTorch models on Arm Ethos-U NPUs, and knows whether the answer is right."""
