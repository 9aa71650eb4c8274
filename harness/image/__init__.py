"""The image for a device: the firmware's ELF with a program in it, and the memory that both need and have."""
