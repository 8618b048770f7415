"""The embedding cache: every image is embedded once per model, by whichever process comes first.

One SQLite file per model fingerprint, keyed by image content. A process
*claims* images before it computes them, so that ten processes asking for the
same images share the work; claims of a killed process are taken over, and
what it has written stays.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_semcov.embedding.cache_database import Database, renew_claims
from pytest_semcov.errors import SemcovWarning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = dict[str, NDArray[np.float32]]

LEASE_SECONDS = 60.0
_LAYOUT = "embeddings-1"  # counted up when files of an older layout can no longer be read
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_T = TypeVar("_T")


def default_cache_dir() -> Path:
    """Return the user's cache folder: ``SEMCOV_CACHE_DIR``, else ``pytest-semcov`` in the platform's place.

    The platform's place is ``XDG_CACHE_HOME``, ``~/Library/Caches`` (macOS), ``LOCALAPPDATA`` (Windows) or
    ``~/.cache``. The folder is not made here.
    """
    chosen = os.environ.get("SEMCOV_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    if not base:
        base = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return Path(base).expanduser().absolute() / "pytest-semcov"


class EmbeddingCache:
    """Embeddings on disk, shared by all processes of a machine, or in memory only.

    Parameters
    ----------
    folder
        Folder of the cache, made when it is first needed; ``None`` = in memory, for this process. A folder
        that cannot be written is read if possible and otherwise replaced by memory, with one warning.
    lease
        Seconds after which the claim of a silent process on another machine is taken over. A working
        process renews its claims three times per lease.
    """

    def __init__(self, folder: str | Path | None, *, lease: float = LEASE_SECONDS) -> None:
        self.folder = None if folder is None else Path(folder).expanduser().absolute()
        self._lease = lease
        self._memory: dict[str, Rows] = {}
        self._writable = self.folder is not None

    @contextmanager
    def open(self, name: str, *, model: str = "") -> Iterator[CacheSession]:
        """Open the embeddings of one model; claims that are still held at the end are given up.

        Parameters
        ----------
        name
            The model's fingerprint.
        model
            The model's name, noted in the file for people.
        """
        session = CacheSession(self, name, {"model": model, "fingerprint": name})
        try:
            yield session
        finally:
            session.close()

    def path(self, name: str) -> Path | None:
        """Return the file of a model's embeddings, ``None`` for a cache in memory."""
        if self.folder is None:
            return None
        safe = name if re.fullmatch(r"[\w-]{1,120}", name) else hashlib.sha256(name.encode()).hexdigest()
        return self.folder / _LAYOUT / f"{safe}.sqlite"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'in memory' if self.folder is None else self.folder}>"

    def _give_up_disk(self, reason: object) -> None:
        if self._writable:
            self._writable = False
            warnings.warn(
                f"embedding cache {self.folder} cannot be written ({reason}): new embeddings are kept in "
                "memory for this run only; choose a writable folder with SEMCOV_CACHE_DIR or "
                "--semcov-cache-dir",
                SemcovWarning,
                stacklevel=2,
            )


class CacheSession:
    """One model's part of the cache, open. Made by :meth:`EmbeddingCache.open`; used by one thread."""

    def __init__(self, cache: EmbeddingCache, name: str, facts: Mapping[str, str]) -> None:
        self._cache = cache
        self._facts = facts
        self._path = cache.path(name)
        self._rows = cache._memory.setdefault(name, {})
        self._database: Database | None = None
        self._heartbeat: _Heartbeat | None = None
        if self._path is not None:
            self._connect(self._path)

    def find(self, keys: Sequence[str]) -> Rows:
        """Return the embeddings that are known, by content key."""
        found = {key: self._rows[key] for key in keys if key in self._rows}
        rest = [key for key in keys if key not in found]
        if rest and self._database is not None:
            nothing: Rows = {}
            found |= self._attempt(lambda database: database.find(rest), otherwise=nothing)
            self._report_damage()
        return found

    def claim(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys that the caller is now to compute; the others someone else has or does."""
        if self._database is None or self._database.read_only:
            return list(keys)
        claimed = self._attempt(lambda database: database.claim(keys), otherwise=list(keys))
        if claimed and self._heartbeat is None and self._database is not None:
            self._heartbeat = _Heartbeat(self._database, self._cache._lease)
        return claimed

    def put(self, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep embeddings that were computed; claims on them end."""
        if self._database is None or self._database.read_only:
            self._rows.update(rows)
            return

        def write(database: Database) -> bool:
            database.put(rows)
            return True

        if not self._attempt(write, otherwise=False):
            self._rows.update(rows)

    def release(self, keys: Sequence[str]) -> None:
        """Give up claims on images that turned out to be unusable."""
        if self._database is not None and not self._database.read_only:
            self._attempt(lambda database: database.release(keys), otherwise=None)

    def close(self) -> None:
        """Give up all claims and close the file."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._database is not None:
            if not self._database.read_only:
                self._attempt(lambda database: database.release_all(), otherwise=None)
            self._disconnect()

    def _connect(self, path: Path) -> None:
        if not self._cache._writable:
            self._connect_read_only(path)
            return
        inode = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            inode = path.stat().st_ino if path.exists() else None
            self._database = Database(path, facts=self._facts, lease=self._cache._lease)
        except (sqlite3.Error, OSError) as error:
            if inode is not None and _is_corrupt(error):
                self._set_aside(path, inode)
                return
            self._cache._give_up_disk(error)
            self._connect_read_only(path)

    def _connect_read_only(self, path: Path) -> None:
        """Open what is there: a cache on a read-only medium still saves computing."""
        with suppress(sqlite3.Error, OSError):
            if path.is_file():
                self._database = Database(path, facts={}, lease=self._cache._lease, read_only=True)

    def _attempt(self, operation: Callable[[Database], _T], *, otherwise: _T) -> _T:
        """Run an operation; after damage again on a fresh file; on other trouble, do without the disk."""
        for _ in range(2):
            if self._database is None:
                break
            try:
                return operation(self._database)
            except (sqlite3.Error, OSError) as error:
                path, inode, read_only = self._database.path, self._database.inode, self._database.read_only
                self._disconnect()
                if read_only:
                    break
                if _is_corrupt(error):
                    self._set_aside(path, inode)
                else:
                    self._cache._give_up_disk(error)
        return otherwise

    def _disconnect(self) -> None:
        if self._database is not None:
            with suppress(sqlite3.Error):  # nothing more can be done for it
                self._database.close()
            self._database = None

    def _set_aside(self, path: Path, inode: int) -> None:
        """Move a damaged file away, unless another process has replaced it already, and open a fresh one."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        try:
            if path.stat().st_ino == inode:
                aside = path.with_name(f"{path.name}.damaged-{time.time_ns()}")
                path.replace(aside)
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
                warnings.warn(
                    f"embedding cache file {path} is damaged; it was moved to {aside.name} and its "
                    "embeddings are computed again",
                    SemcovWarning,
                    stacklevel=2,
                )
            self._database = Database(path, facts=self._facts, lease=self._cache._lease)
        except (sqlite3.Error, OSError) as error:
            self._cache._give_up_disk(error)

    def _report_damage(self) -> None:
        if self._database is not None and self._database.damaged:
            warnings.warn(
                f"embedding cache file {self._path}: {self._database.damaged} damaged entries are computed "
                "again",
                SemcovWarning,
                stacklevel=2,
            )
            self._database.damaged = 0


class _Heartbeat:
    """Renews the claims of a session while it computes."""

    def __init__(self, database: Database, lease: float) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(database.path, database.token, lease), name="semcov-claims", daemon=True
        )
        self._thread.start()

    def _run(self, path: Path, token: str, lease: float) -> None:
        while not self._stopped.wait(lease / 3):
            try:
                renew_claims(path, token, lease=lease)
            except sqlite3.Error:
                continue  # the worst that follows is that another process computes the same images

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _is_corrupt(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _CORRUPT
