"""Private names of torch and ExecuTorch that are only read, each behind a plain function.

These modules import nothing of the rest of this folder, so that formats, oracles and the laboratory can use them.
"""
