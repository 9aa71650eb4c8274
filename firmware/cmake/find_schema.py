"""Print the paths in the installed wheels from which the .pte reader is generated, as CMake list entries.

Five lines: flatc, the include directory that holds flatbuffers/ (both from tosa-tools), program.fbs,
bundled_program_schema.fbs and flat_tensor.fbs (executorch). The packages are located, not imported: importing
executorch takes seconds.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.upstream.names.schemas import schema_folder


def main() -> None:
    try:
        schema = schema_folder()
    except ToolError as error:
        sys.exit(f"{error} ({sys.executable}); {error.hint}")
    package = schema.parents[1]
    site = package.parent
    # Not the flatc on the PATH: executorch installs an older one of its own, whose output these headers refuse.
    found = {
        "flatc": site / "bin" / "flatc",
        "flatbuffers headers": site / "include" / "flatbuffers" / "flatbuffers.h",
        "bundled_program_schema.fbs": package / "devtools/bundled_program/schema/bundled_program_schema.fbs",
        "flat_tensor.fbs": package / "extension/flat_tensor/serialize/flat_tensor.fbs",
    }
    for name, path in found.items():
        if not path.is_file():
            sys.exit(f"{name} not found (looked for {path}); it comes with executorch[ethos-u]")
    schemas = (schema / "program.fbs", found["bundled_program_schema.fbs"], found["flat_tensor.fbs"])
    lines = (found["flatc"], site / "include", *schemas)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
