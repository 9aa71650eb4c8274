"""What is said while torch and the tools run: progress, and nothing of their own output."""
