"""A gdb server to be started: it passes everything on to one that runs already, and ends with its client.

`python gdb_relay.py PORT HOST:PORT`. The board's file has it as `loading.command`.
"""

import contextlib
import select
import socket
import sys

_MOST = 1 << 16


def main(port: int, host: str, behind: int) -> None:
    """Serve one client."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        client, _ = listener.accept()
    with client, socket.create_connection((host, behind)) as server:
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        others = {client: server, server: client}
        with contextlib.suppress(OSError):
            while True:
                for source in select.select(list(others), [], [])[0]:
                    data = source.recv(_MOST)
                    if not data:
                        return
                    others[source].sendall(data)


if __name__ == "__main__":
    _host, _, _behind = sys.argv[2].rpartition(":")
    main(int(sys.argv[1]), _host, int(_behind))
