"""A fuzzer of command streams: damages streams, data and regions, and watches what the functional NPU does with them.

For every stream, with any weights and any memory, a run must end within a second, in a result or in a Fault of a known
kind, and must not touch anything outside of its regions. Everything else is a finding. Cases are made from compiled
programs of the conformance catalogue and are a function of the seed alone.
"""
