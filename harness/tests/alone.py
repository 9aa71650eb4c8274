"""Imports modules, each in a process that has imported nothing of this repository yet.

`python alone.py PRELOADED NAMES ABSENT`: run as a file, so that nothing of the repository is imported with it. It forks
a process for each module, after importing the slow modules of others. The arguments are lists, divided by commas: the
modules to preload, the modules to import, and the modules that these must not import. It prints a line for each module
that fails.
"""

import importlib
import os
import sys
import traceback


def problem(name: str, absent: list[str]) -> str | None:
    """Return what is wrong when the module is imported in this process, or None."""
    try:
        importlib.import_module(name)
    except BaseException as error:
        return f"{name}: {''.join(traceback.format_exception_only(error)).strip()}"
    names = [module for module in absent if module in sys.modules]
    return f"{name} imports {', '.join(names)}" if names else None


def main() -> None:
    """Fork for each module, and wait for each."""
    preloaded, names, absent = (argument.split(",") if argument else [] for argument in sys.argv[1:])
    for module in preloaded:
        importlib.import_module(module)
    for name in names:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            text = problem(name, absent)
            if text is not None:
                sys.stdout.write(f"{text}\n")
                sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            sys.stdout.write(f"{name} ended its process: status {status}\n")


if __name__ == "__main__":
    main()
