"""Models from the Hugging Face hub: the local cache first, and one clear line when a model is not there."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_semcov.errors import ModelError

_SECONDS_TO_ANSWER = 10.0


def offline() -> bool:
    """Whether the environment forbids the network (``HF_HUB_OFFLINE`` or ``TRANSFORMERS_OFFLINE``).

    Read on every call, not once at import as the hub's own library does.
    """
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").strip().upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def fetch(
    spec: str,
    repository: str,
    filenames: Sequence[str],
    *,
    revision: str | None = None,
    remedy: str = "give a local file with @PATH",
) -> Path:
    """Return a file of a hub repository: from the cache if it is there, else downloaded.

    Parameters
    ----------
    spec
        The model spec, for the message.
    repository
        ``organisation/name``.
    filenames
        Acceptable files, best first.
    revision
        Branch, tag or commit; ``None`` = ``main``.
    remedy
        What the user can do without the hub, for the message.

    Raises
    ------
    ModelError
        If the file is neither cached nor to be had; one line that names repository, revision and cache
        folder. Offline, no socket is opened.
    """
    from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    def unavailable(reason: str) -> ModelError:
        return missing(spec, repository, filenames, reason, revision=revision, remedy=remedy)

    try:
        for filename in filenames:
            cached = try_to_load_from_cache(repository, filename, revision=revision)
            if isinstance(cached, str):
                return Path(cached)
    except HFValidationError as error:
        raise unavailable("it is no repository name") from error
    if offline():
        raise unavailable("offline mode is set")
    try:
        # One short question first: a download call would retry an unreachable hub for half a minute.
        listing = HfApi().model_info(repository, revision=revision, timeout=_SECONDS_TO_ANSWER)
        offered = {entry.rfilename for entry in listing.siblings or ()}
        wanted = next((filename for filename in filenames if filename in offered), None)
        if wanted is None:
            raise unavailable("the repository has no such file")
        return Path(hf_hub_download(repository, wanted, revision=revision))
    except ModelError:
        raise
    except Exception as error:
        raise unavailable(_reason(error, repository)) from error


def fetch_folder(spec: str, repository: str, patterns: Sequence[str], *, revision: str | None = None) -> Path:
    """Return a local folder with files of a hub repository: cached if all are there, else downloaded.

    Parameters
    ----------
    spec
        The model spec, for the message.
    repository
        ``organisation/name``.
    patterns
        The files, as paths in the repository or patterns (``tokenizer/*``); of each there must be one.
    revision
        Branch, tag or commit; ``None`` = ``main``.

    Raises
    ------
    ModelError
        If a file is neither cached nor to be had; one line that names repository, revision and cache folder.
        Offline, no socket is opened.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    def unavailable(lacking: Sequence[str], reason: str) -> ModelError:
        remedy = "give a local folder"
        return missing(spec, repository, lacking, reason, revision=revision, remedy=remedy)

    try:
        cached = Path(snapshot_download(repository, revision=revision, local_files_only=True))
    except LocalEntryNotFoundError:
        lacking = list(patterns)
    except HFValidationError as error:
        raise unavailable(patterns, "it is no folder here, nor a repository name") from error
    else:
        lacking = unmatched(patterns, files_below(cached))
        if not lacking:
            return cached
    if offline():
        raise unavailable(lacking, "offline mode is set")
    try:
        # As in fetch: one short question before a download that would retry.
        listing = HfApi().model_info(repository, revision=revision, timeout=_SECONDS_TO_ANSWER)
        nowhere = unmatched(patterns, [entry.rfilename for entry in listing.siblings or ()])
        if nowhere:
            raise unavailable(nowhere, "the repository has no such file")
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(patterns)))
    except ModelError:
        raise
    except Exception as error:
        raise unavailable(lacking, _reason(error, repository)) from error


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, relative to it, with forward slashes."""
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


def unmatched(patterns: Sequence[str], files: Iterable[str]) -> list[str]:
    """Return the patterns that no file matches."""
    names = list(files)
    return [pattern for pattern in patterns if not fnmatch.filter(names, pattern)]


def missing(
    spec: str,
    repository: str,
    filenames: Sequence[str],
    reason: str,
    *,
    revision: str | None = None,
    remedy: str = "give a local file with @PATH",
) -> ModelError:
    """Build the one line for a model that is not in the cache and cannot be fetched."""
    from huggingface_hub import constants

    return ModelError(
        f"{spec}: {' or '.join(filenames)} of {repository} (revision {revision or 'main'}) is not in the "
        f"cache {constants.HF_HUB_CACHE} and could not be fetched: {reason}; download it once with network, "
        f"set HF_HOME to a folder that has it, or {remedy}"
    )


def _reason(error: Exception, repository: str) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(error, GatedRepoError):
        return f"the model is gated: accept its licence at {constants.ENDPOINT}/{repository} and set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no such repository, or it is private (set HF_TOKEN)"
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
