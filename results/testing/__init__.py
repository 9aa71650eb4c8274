"""What tests and the laboratory share."""
