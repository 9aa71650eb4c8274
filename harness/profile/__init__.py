"""Where the cycles of an inference go, operation by operation; docs/profiles.md says what each number means."""
