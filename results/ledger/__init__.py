"""The error ledger: what Vela estimates, the timing model says, and an FVP or a board counts, of the same work."""
