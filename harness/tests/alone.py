"""Imports modules, each in a process that has imported nothing of this repository yet.

`python alone.py PRELOADED NAMES ABSENT`, lists divided by commas: the slow modules of others to preload, the modules to
import, and those that these must not import. Run as a file, so that nothing of the repository is imported with it. It
forks a process for each module, and prints a line for each that fails.
"""

import importlib
import os
import sys
import traceback


def problem(name: str, absent: list[str]) -> str:
    """Return what is wrong when the module is imported in this process, or nothing."""
    try:
        importlib.import_module(name)
    except BaseException as error:
        return f"{name}: {''.join(traceback.format_exception_only(error)).strip()}\n"
    names = [module for module in absent if module in sys.modules]
    return f"{name} imports {', '.join(names)}\n" if names else ""


if __name__ == "__main__":
    preloaded, names, absent = (argument.split(",") if argument else [] for argument in sys.argv[1:])
    for module in preloaded:
        importlib.import_module(module)
    for name in names:
        child = os.fork()
        if child == 0:
            os.write(1, problem(name, absent).encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            os.write(1, f"{name} ended its process: status {status}\n".encode())
