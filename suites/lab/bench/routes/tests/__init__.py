"""Tests of the ways to a bench board."""
