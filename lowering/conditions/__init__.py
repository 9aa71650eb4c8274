"""How this process runs torch and the tools."""
