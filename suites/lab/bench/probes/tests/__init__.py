"""Tests of the simulated debug probes."""
