"""What is put on a device: the firmware's ELF with a program in it, and what both need and have."""
