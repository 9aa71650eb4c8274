"""What `ethos-hil lower` says and writes of a lowered program."""
