"""Tests of farms."""
