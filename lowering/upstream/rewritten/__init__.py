"""Operators of a float graph that upstream leaves to the CPU, or quantises badly, written with others.

`prepare` (`ethos_hil.lowering.upstream.graph_repairs`) has the list of what is rewritten, and when. A module here
rewrites one kind, in one graph, in place; `splice` puts what a Python function computes in the place of a node.
"""
