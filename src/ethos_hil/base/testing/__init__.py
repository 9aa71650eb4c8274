"""What tests of all rooms need: processes that they start and watch."""
