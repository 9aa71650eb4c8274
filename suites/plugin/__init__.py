"""The pytest plugin: declared operators and models as tests."""
