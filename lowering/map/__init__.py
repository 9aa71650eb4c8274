"""The map from each NPU operation back to the user's source."""
