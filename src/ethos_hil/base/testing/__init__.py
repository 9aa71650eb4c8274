"""What tests of all rooms need."""
