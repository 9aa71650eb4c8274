"""What is there of all that ethos-hil needs, and what is missing. Nothing here imports what it examines."""
