"""What is known of a model before anything boots: whether it fits a target, and its image."""
