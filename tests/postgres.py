"""A PostgreSQL server of one's own in a temporary folder: its port is free, its files are gone when it stops."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BINARIES", "PASSWORD", "Server", "server"]

PASSWORD = "hush-hush"
_PATIENCE = 60.0


def _binaries() -> Path | None:
    """Where the newest server's programs are: Debian keeps them off the path."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    return known[-1].parent if known else None


BINARIES = _binaries()


@dataclass(frozen=True)
class Server:
    """A running server with the user and the database "postgres"."""

    port: int

    def address(self, password: str = PASSWORD) -> str:
        """The database, to which #TABLE is added."""
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/postgres"


@contextmanager
def server() -> Iterator[Server]:
    """Make a cluster, start it, and stop it."""
    assert BINARIES is not None
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if os.geteuid() == 0:
        # The server refuses to be root; its files belong to the user that came with it.
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        os.chown(secret, user.pw_uid, user.pw_gid)
    data = folder / "data"
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    try:
        _run("initdb", "-D", str(data), "-U", "postgres", "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8",
             "--locale=C", "--no-sync")  # fmt: skip
        _run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield Server(port)
        finally:
            _run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(program: str, *words: str) -> None:
    assert BINARIES is not None
    command = [str(BINARIES / program), *words]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
    # Not to a pipe: the server would keep it open, and it would never end.
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=_PATIENCE,
                   cwd="/")  # fmt: skip
