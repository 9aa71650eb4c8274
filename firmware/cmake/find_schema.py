"""Print the paths in the installed wheels from which the .pte reader is generated, as CMake list entries.

Four lines: flatc, the include directory that holds flatbuffers/ (both from tosa-tools), program.fbs and
bundled_program_schema.fbs (executorch). The packages are located, not imported: importing executorch takes seconds.
"""

import importlib.util
import sys
from pathlib import Path


def main() -> None:
    spec = importlib.util.find_spec("executorch")
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"executorch is not installed for {sys.executable}")
    package = Path(next(iter(spec.submodule_search_locations)))
    site = package.parent
    # Not the flatc on the PATH: executorch installs an older one of its own, whose output these headers refuse.
    found = {
        "flatc": site / "bin" / "flatc",
        "flatbuffers headers": site / "include" / "flatbuffers" / "flatbuffers.h",
        "program.fbs": package / "exir" / "_serialize" / "program.fbs",
        "scalar_type.fbs": package / "exir" / "_serialize" / "scalar_type.fbs",
        "bundled_program_schema.fbs": package / "devtools/bundled_program/schema/bundled_program_schema.fbs",
    }
    for name, path in found.items():
        if not path.is_file():
            sys.exit(f"{name} not found (looked for {path}); it comes with executorch[ethos-u]")
    lines = (found["flatc"], site / "include", found["program.fbs"], found["bundled_program_schema.fbs"])
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
