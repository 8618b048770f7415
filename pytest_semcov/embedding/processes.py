"""Who holds a claim: identity and liveness of processes, on this machine and elsewhere."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, told apart from a later one with the same number.

    Parameters
    ----------
    host
        Machine, boot and process-number space.
    pid
        Process number.
    started
        Start time as the system states it; empty where it states none.
    """

    host: str
    pid: int
    started: str

    def surely_dead(self) -> bool:
        """Whether this process is known to be gone. Never true for a process of another host."""
        if self.host != host_identity() or sys.platform == "win32":
            return False  # on Windows, probing a process number is not harmless: leases decide alone
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass  # it exists, but belongs to someone else
        now = _start_time(self.pid)
        return bool(self.started and now) and now != self.started


def this_process() -> Holder:
    """Return the calling process."""
    pid = os.getpid()
    return Holder(host_identity(), pid, _start_time(pid))


@cache
def host_identity() -> str:
    """Return a name for this machine since its last start and, in a container, its process numbers."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - the link's text, not a path
    except OSError:
        pass
    return " ".join(parts)


def _start_time(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie holds its number but will do nothing more.
    return "zombie" if fields[0] == "Z" else fields[19]
