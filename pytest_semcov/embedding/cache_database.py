"""One SQLite file of embeddings, and of claims on embeddings that some process is computing.

Everything here raises ``sqlite3`` errors; :mod:`pytest_semcov.embedding.cache`
decides what they mean.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pytest_semcov.embedding.processes import Holder, this_process
from pytest_semcov.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS embeddings (key TEXT PRIMARY KEY, checksum INTEGER NOT NULL, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY, token TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
    started TEXT NOT NULL, expires REAL NOT NULL
) WITHOUT ROWID;
"""
_KEYS_AT_ONCE = 500  # SQLite allows 999 parameters in old builds
_BUSY_SECONDS = 30.0
_LITTLE_ENDIAN = np.dtype("<f4")
# SQLite's write-ahead log needs memory shared between all users of the file: not to be had over a network.
_NETWORK_FILESYSTEMS = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "9p",
            "virtiofs",
            "afs",
            "ceph",
            "lustre",
            "gpfs",
            "beegfs",
        ),
        *("glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse"),
    }
)


class Database:
    """The embeddings of one model.

    Parameters
    ----------
    path
        The file; made if it does not exist.
    facts
        What people may want to know of the file, e.g. the model's name; kept from the first opening.
    lease
        Seconds until a claim that is not renewed counts as given up.
    read_only
        Open an existing file without writing to it or its folder.

    Raises
    ------
    sqlite3.Error
        From every method, if the file cannot be used.
    """

    def __init__(
        self, path: Path, *, facts: Mapping[str, str], lease: float, read_only: bool = False
    ) -> None:
        self.path = path
        self.token = uuid.uuid4().hex
        self.damaged = 0
        self._lease = lease
        self._holder = this_process()
        self.read_only = read_only
        self._dimension: int | None = None
        if read_only:
            self._connection = _connect_read_only(path)
        else:
            self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            if not read_only:
                self._prepare(facts)
            self._length()
            self.inode = path.stat().st_ino
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, facts: Mapping[str, str]) -> None:
        _choose_journal(self._connection, self.path)
        # With a write-ahead log this survives a killed process without a loss, and a power cut undamaged.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self._writing():
            for statement in _SCHEMA.split(";\n"):
                self._connection.execute(statement)
            self._connection.executemany(
                "INSERT OR IGNORE INTO facts VALUES (?, ?)", [(name, value) for name, value in facts.items()]
            )

    def find(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the embeddings that are there.

        Entries that fail their checksum or have another length are left out and counted in ``damaged``.
        """
        found, damaged = self._read(keys)
        self.damaged += damaged
        return found

    def _read(self, keys: Sequence[str]) -> tuple[dict[str, NDArray[np.float32]], int]:
        found = {}
        damaged = 0
        length = self._length()
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(
                f"SELECT key, checksum, vector FROM embeddings WHERE key IN ({marks})",
                part,
            )
            for key, checksum, vector in rows:
                if zlib.crc32(vector) == checksum and len(vector) == 4 * length:
                    found[key] = np.frombuffer(vector, _LITTLE_ENDIAN).astype(np.float32)
                else:
                    damaged += 1
        return found, damaged

    def _length(self) -> int:
        """Length of an embedding; 0 as long as there are none."""
        if self._dimension is None:
            stored = self._connection.execute("SELECT value FROM facts WHERE name = 'dimension'").fetchone()
            self._dimension = None if stored is None else int(stored[0])
        return self._dimension or 0

    def claim(self, keys: Sequence[str]) -> list[str]:
        """Take those of the keys that nobody has computed or is computing, in their order.

        A claim is void if its holder is known to be dead, or if it was not renewed in time.
        """
        if not self._free(keys):  # those who wait ask often, and must not hold up those who write
            return []
        me = self._holder
        with self._writing():
            free = self._free(keys)
            expires = time.time() + self._lease
            self._connection.executemany(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?, ?)",
                [(key, self.token, me.host, me.pid, me.started, expires) for key in free],
            )
        return free

    def _free(self, keys: Sequence[str]) -> list[str]:
        """Keys without a usable embedding (a damaged one is as good as none) and without a valid claim."""
        now = time.time()
        present, _ = self._read(keys)
        claims = self._claims(keys)
        dead = {holder: holder.surely_dead() for holder, _ in claims.values()}

        def claimed(key: str) -> bool:
            if key not in claims:
                return False
            holder, expires = claims[key]
            return expires > now and not dead[holder]

        return [key for key in keys if key not in present and not claimed(key)]

    def _claims(self, keys: Sequence[str]) -> dict[str, tuple[Holder, float]]:
        claims = {}
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(
                f"SELECT key, host, pid, started, expires FROM claims WHERE key IN ({marks})",
                part,
            )
            claims.update(
                {key: (Holder(host, pid, started), until) for key, host, pid, started, until in rows}
            )
        return claims

    def put(self, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """Write embeddings, all or none, and give up this object's claims on them.

        Raises
        ------
        ModelError
            If the file holds embeddings of another length under the same fingerprint.
        """
        vectors = {
            key: np.ascontiguousarray(row, dtype=_LITTLE_ENDIAN).tobytes() for key, row in rows.items()
        }
        if not vectors:
            return
        with self._writing():
            dimension = len(next(iter(vectors.values()))) // 4
            self._connection.execute("INSERT OR IGNORE INTO facts VALUES ('dimension', ?)", (str(dimension),))
            if self._length() != dimension:
                raise ModelError(
                    f"the model gives embeddings of length {dimension}, but {self.path} has some of "
                    f"length {self._dimension} under the same fingerprint: the fingerprint must change "
                    "with the model"
                )
            self._connection.executemany(
                "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)",
                [(key, zlib.crc32(vector), vector) for key, vector in vectors.items()],
            )
            self._release(vectors)

    def release(self, keys: Sequence[str]) -> None:
        """Give up this object's claims on these keys."""
        with self._writing():
            self._release(keys)

    def release_all(self) -> None:
        """Give up all claims of this object."""
        with self._writing():
            self._connection.execute("DELETE FROM claims WHERE token = ?", (self.token,))

    def _release(self, keys: Mapping[str, bytes] | Sequence[str]) -> None:
        self._connection.executemany(
            "DELETE FROM claims WHERE key = ? AND token = ?", [(key, self.token) for key in keys]
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def renew_claims(path: Path, token: str, *, lease: float) -> None:
    """Extend all claims of a token by a lease from now, over a connection of its own (for any thread)."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("UPDATE claims SET expires = ? WHERE token = ?", (time.time() + lease, token))
    finally:
        connection.close()


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a file without writing; where not even lock files can be made, as one that nobody changes."""
    address = path.absolute().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True)
    try:
        connection.execute("SELECT count(*) FROM facts")
    except sqlite3.OperationalError:
        connection.close()
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    return connection


def _choose_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Use a write-ahead log where that works, else SQLite's rollback journal, which works everywhere."""
    wanted = "delete" if _on_network_filesystem(path) else "wal"
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            current = connection.execute("PRAGMA journal_mode").fetchone()[0]
            if current != wanted:
                connection.execute(f"PRAGMA journal_mode = {wanted}")  # answers with the mode that it kept
            return
        except sqlite3.OperationalError as error:
            # Changing the mode does not wait for other processes by itself.
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)


def _on_network_filesystem(path: Path) -> bool:
    """Whether Linux says that the folder of this file is mounted over a network; False elsewhere."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return False
    folder = str(path.parent.resolve())
    best, kind = "", ""
    for line in lines:
        _, mount, filesystem, *_ = line.split()
        inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, filesystem
    return kind in _NETWORK_FILESYSTEMS


def _parts(keys: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        yield list(keys[start : start + _KEYS_AT_ONCE])
