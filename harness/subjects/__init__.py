"""Other upstreams: environments whose ExecuTorch, Vela or Python lowers a model."""
