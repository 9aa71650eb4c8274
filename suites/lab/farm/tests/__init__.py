"""Tests of the farm. The proofs need `make build/labgrid/.installed` and ser2net; `make lab` sets the former up."""
