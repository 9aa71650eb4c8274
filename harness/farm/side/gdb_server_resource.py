"""labgrid's resource class for a server of GDB's remote protocol.

labgrid passes resources of unknown classes on, but labgrid-client has to know those of a place for some of its
commands. A file for its option -c tells it: `imports: [".../gdb_server_resource.py"]`.
"""

from __future__ import annotations

import importlib

GDB = "GdbServer"


def register_gdb_server() -> None:
    """Make the class known to labgrid, where it is not yet.

    Its attributes are those in exporter.yaml: host, port, and the dialect of its monitor commands where it is not the
    one that the board's file states.
    """
    factory = importlib.import_module("labgrid.factory").target_factory
    if GDB in factory.all_classes:
        return
    attr = importlib.import_module("attr")
    network_resource = importlib.import_module("labgrid.resource.common").NetworkResource
    fields = {
        "port": attr.ib(validator=attr.validators.instance_of(int)),
        "dialect": attr.ib(default="", validator=attr.validators.instance_of(str)),
    }
    factory.reg_resource(attr.s(eq=False)(type(GDB, (network_resource,), fields)))


if __name__ == "gdb_server_resource":  # the name by which labgrid imports this file
    register_gdb_server()
