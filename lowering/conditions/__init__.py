"""What torch and the tools run under in this process: threads, output, garbage, who is told."""
