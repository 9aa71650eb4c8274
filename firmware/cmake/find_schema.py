"""Print where the installed wheels keep what the .pte reader is generated from, as CMake list entries.

Three lines: flatc, the include directory that holds flatbuffers/ (both from tosa-tools) and program.fbs
(executorch). The packages are located, not imported: importing executorch takes seconds.
"""

import importlib.util
import sys
from pathlib import Path


def main() -> int:
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        print(f"executorch is not installed for {sys.executable}", file=sys.stderr)
        return 1
    package = Path(next(iter(spec.submodule_search_locations)))
    site = package.parent
    # Not the flatc on the PATH: executorch installs an older one of its own, whose output these headers refuse.
    found = {
        "flatc": site / "bin" / "flatc",
        "flatbuffers headers": site / "include" / "flatbuffers" / "flatbuffers.h",
        "program.fbs": package / "exir" / "_serialize" / "program.fbs",
        "scalar_type.fbs": package / "exir" / "_serialize" / "scalar_type.fbs",
    }
    for name, path in found.items():
        if not path.is_file():
            print(f"{name} not found (looked for {path}); it comes with executorch[ethos-u]", file=sys.stderr)
            return 1
    sys.stdout.write(f"{found['flatc']}\n{site / 'include'}\n{found['program.fbs']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
