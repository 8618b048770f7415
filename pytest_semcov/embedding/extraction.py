"""Embeddings of a data set: cached ones first, the others decoded by threads while the model runs."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from pytest_semcov.data.samples import BadImage, Dataset, Sample
from pytest_semcov.embedding.cache import CacheSession, EmbeddingCache
from pytest_semcov.embedding.protocols import Embeddings, ImageModel, Progress
from pytest_semcov.embedding.specs import ImageTower
from pytest_semcov.errors import ArgumentError, BadImagesError, ImageError, ModelError, NonFiniteError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SHOWN = 10
_METHODS = {"embed": "embed", "encode": "encode_images", "predict": "predict"}
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
_S = TypeVar("_S")
_T = TypeVar("_T")

# Embeddings of models whose fingerprint does not cover all they depend on: as long as the model lives.
_unversioned: WeakKeyDictionary[object, EmbeddingCache] = WeakKeyDictionary()


def extract(
    dataset: Dataset,
    model: ImageModel,
    *,
    kind: str = "embed",
    batch_size: int = 32,
    loader_threads: int | None = None,
    cache: EmbeddingCache | None = None,
    on_bad_image: str = "fail",
    max_bad_images: int | None = None,
    normalise: bool = True,
    progress: Progress | None = None,
) -> Embeddings:
    """Embed all images of a data set.

    Images with equal content are computed once. Whatever fails, all good images are computed and cached
    before an error is raised.

    Parameters
    ----------
    dataset
        The images.
    model
        An embedder, an encoder for its image side, or a model under test for its predictions.
    kind
        ``"embed"`` (the model's ``embed``), ``"encode"`` (its ``encode_images``) or ``"predict"``.
    batch_size
        Images per model call, at least 1.
    loader_threads
        Threads that decode and preprocess while the model runs, at least 1; ``None`` = as many as there are
        cores, at most 4.
    cache
        Where embeddings are looked up and kept; ``None`` = nowhere.
    on_bad_image
        ``"fail"``: images that cannot be used are an error, raised at the end; ``"skip"``: they get no row
        and are listed in the result.
    max_bad_images
        With ``"skip"``: more bad images than this are an error all the same; ``None`` = any number.
    normalise
        Whether rows are scaled to length one.
    progress
        Called as ``progress(what, done, total)`` with numbers of distinct images.

    Returns
    -------
    Embeddings
        One float32 row per usable sample, in the order of the data set.

    Raises
    ------
    ArgumentError
        If an argument is out of range.
    BadImagesError
        If images cannot be used: names the first ten with rule and remedy, and counts all.
    NonFiniteError
        If the model gives NaN, infinity or (to be normalised) a zero vector for some images: names them.
    ModelError
        If the model gives an array of another shape than ``(n, d)``, or ``d`` changes.
    """
    threads = _check_arguments(kind, batch_size, loader_threads, on_bad_image, max_bad_images)
    if isinstance(model, ImageTower):
        model, kind = model.encoder, "encode"
    doing = "predicting" if kind == "predict" else "embedding"
    run = _Run(model, _compute(model, kind), batch_size, progress, doing)
    if getattr(model, "persistent", True):
        cache = cache or EmbeddingCache(None)
    else:
        cache = _unversioned.setdefault(model, EmbeddingCache(None))
    fingerprint = model.fingerprint
    samples = [dataset[index] for index in range(len(dataset))]
    executor = ThreadPoolExecutor(threads, thread_name_prefix="semcov-loader")
    try:
        keys, unreadable = _content_keys(samples, executor)
        for sample, key in zip(samples, keys, strict=True):
            if key is not None:
                run.samples.setdefault(key, sample)
        # A model may offer both kinds, with different results.
        with cache.open(f"{fingerprint}-{kind}", model=model.name) as session:
            run.embed(session, executor)
    finally:
        executor.shutdown(cancel_futures=True)

    errors = [
        _renamed(unreadable[sample.id] if key is None else run.bad[key], sample)
        for sample, key in zip(samples, keys, strict=True)
        if key is None or key in run.bad
    ]
    usable = [(sample, key) for sample, key in zip(samples, keys, strict=True) if key in run.rows]
    failed = [sample for sample, key in zip(samples, keys, strict=True) if key in run.not_finite]
    if failed:
        head = f"{model.name} gives NaN, infinity or a zero vector for {len(failed)} of {len(samples)} images"
        raise NonFiniteError(_listed(head, [_named(sample) for sample in failed]))
    _check_bad(errors, len(samples), on_bad_image, max_bad_images)
    return Embeddings(
        _array([run.rows[key] for _, key in usable if key is not None], normalise),
        tuple(sample.id for sample, _ in usable),
        fingerprint,
        model.name,
        model.trained,
        tuple(BadImage(error.sample_id, error.path, error.rule, error.remedy) for error in errors),
        normalise,
    )


def default_loader_threads() -> int:
    """Return the number of cores that this process may use, at most 4."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS or Windows
        cores = os.cpu_count() or 1
    return min(cores, 4)


@dataclass
class _Run:
    """The state of one extraction, by content key: the work is done once per distinct content."""

    model: ImageModel
    compute: Callable[[Sequence[Any]], NDArray[np.float32]]
    batch_size: int
    progress: Progress | None
    doing: str = "embedding"
    samples: dict[str, Sample] = field(default_factory=dict)
    rows: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    bad: dict[str, ImageError] = field(default_factory=dict)
    not_finite: set[str] = field(default_factory=set)

    def embed(self, session: CacheSession, executor: ThreadPoolExecutor) -> None:
        """Get a row for every content: from the cache, by computing it, or from another process."""
        self._take(session, list(self.samples))
        wait = _FIRST_WAIT
        while missing := self._missing():
            computed = self._compute_claimed(missing, session, executor)
            # What is still missing is another process's: it will be written, given up, or its holder dies.
            self._take(session, self._missing())
            if computed:
                wait = _FIRST_WAIT
            elif self._missing():
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    def _missing(self) -> list[str]:
        return [
            key
            for key in self.samples
            if key not in self.rows and key not in self.bad and key not in self.not_finite
        ]

    def _take(self, session: CacheSession, keys: Sequence[str]) -> None:
        self.rows |= session.find(keys)
        self._report()

    def _compute_claimed(
        self, missing: Sequence[str], session: CacheSession, executor: ThreadPoolExecutor
    ) -> bool:
        """Compute those of the missing images that nobody else is computing; False if there are none."""
        batch: list[tuple[str, Any]] = []
        claimed = False
        loading = _ahead(
            executor,
            lambda key: _load(self.samples[key], self.model),
            self._claims(missing, session),
            depth=2 * self.batch_size,  # one batch in the model, one being loaded
        )
        for key, future in loading:
            claimed = True
            loaded = future.result()
            if isinstance(loaded, ImageError):
                self.bad[key] = loaded
                session.release([key])
                continue
            batch.append((key, loaded))
            if len(batch) == self.batch_size:
                self._run_model(batch, session)
                batch = []
        if batch:
            self._run_model(batch, session)
        return claimed

    def _claims(self, missing: Sequence[str], session: CacheSession) -> Iterator[str]:
        """Claim a batch at a time, when the loader has room for it, so that other processes find work too."""
        for start in range(0, len(missing), self.batch_size):
            yield from session.claim(missing[start : start + self.batch_size])

    def _run_model(self, batch: Sequence[tuple[str, Any]], session: CacheSession) -> None:
        keys = [key for key, _ in batch]
        # Copied: a function may hand out one buffer again and again.
        rows = np.array(self.compute([loaded for _, loaded in batch]), dtype=np.float32)
        known = next(iter(self.rows.values()), None)
        if rows.ndim != 2 or len(rows) != len(keys) or (known is not None and rows.shape[1] != len(known)):
            expected = "d" if known is None else len(known)
            raise ModelError(
                f"{self.model.name} gives an array of shape {rows.shape} for {len(keys)} images; "
                f"needed is ({len(keys)}, {expected})"
            )
        good = {key: row for key, row in zip(keys, rows, strict=True) if np.isfinite(row).all() and row.any()}
        session.put(good)
        self.rows |= good
        failed = [key for key in keys if key not in good]
        if failed:
            self.not_finite.update(failed)
            session.release(failed)
        self._report()

    def _report(self) -> None:
        if self.progress is not None:
            done = len(self.rows) + len(self.bad) + len(self.not_finite)
            self.progress(f"{self.doing} with {self.model.name}", done, len(self.samples))


def _content_keys(
    samples: Sequence[Sample], executor: ThreadPoolExecutor
) -> tuple[list[str | None], dict[str, ImageError]]:
    """Return each sample's content key, ``None`` where it cannot be read, and the errors by sample id."""
    keys: list[str | None] = []
    errors = {}
    for sample, future in _ahead(executor, _content_key, samples, depth=256):
        result = future.result()
        if isinstance(result, ImageError):
            errors[sample.id] = result
        keys.append(None if isinstance(result, ImageError) else result)
    return keys, errors


def _content_key(sample: Sample) -> str | ImageError:
    return _usable(sample, sample.content_key)


def _load(sample: Sample, model: ImageModel) -> Any:
    """Decode and preprocess one image; return the ImageError if it cannot be used."""
    return _usable(sample, lambda: model.preprocess(sample.load(minimum_size=model.input_size)))


def _usable(sample: Sample, action: Callable[[], _T]) -> _T | ImageError:
    try:
        return action()
    except ImageError as error:
        return error
    except OSError as error:
        path = None if sample.path is None else str(sample.path)
        return ImageError(
            sample.id, f"cannot be read: {error}", "check the file and its permissions", path=path
        )
    except Exception as error:
        error.add_note(f"while loading image {sample.id!r}")
        raise


def _ahead(
    executor: ThreadPoolExecutor, function: Callable[[_S], _T], items: Iterable[_S], *, depth: int
) -> Iterator[tuple[_S, Future[_T]]]:
    """Run a function over items in threads, in order, at most ``depth`` items ahead of the consumer."""
    pending: deque[tuple[_S, Future[_T]]] = deque()
    for item in items:
        pending.append((item, executor.submit(function, item)))
        if len(pending) >= depth:
            yield pending.popleft()
    while pending:
        yield pending.popleft()


def _compute(model: ImageModel, kind: str) -> Callable[[Sequence[Any]], NDArray[np.float32]]:
    name = _METHODS[kind]
    method = getattr(model, name, None)
    if method is None:
        raise ArgumentError(f"{model.name} has no {name}: kind={kind!r} does not fit this model")
    compute: Callable[[Sequence[Any]], NDArray[np.float32]] = method
    return compute


def _check_arguments(
    kind: str,
    batch_size: int,
    loader_threads: int | None,
    on_bad_image: str,
    max_bad_images: int | None,
) -> int:
    """Check the arguments and return the number of loader threads."""
    if kind not in _METHODS:
        raise ArgumentError(f"kind={kind!r}: use {', '.join(map(repr, _METHODS))}")
    if on_bad_image not in ("fail", "skip"):
        raise ArgumentError(f"on_bad_image={on_bad_image!r}: use 'fail' or 'skip'")
    if batch_size < 1:
        raise ArgumentError(f"batch_size={batch_size}: must be at least 1")
    if loader_threads is not None and loader_threads < 1:
        raise ArgumentError(f"loader_threads={loader_threads}: must be at least 1, or None")
    if max_bad_images is not None and max_bad_images < 0:
        raise ArgumentError(f"max_bad_images={max_bad_images}: must be at least 0, or None")
    return loader_threads if loader_threads is not None else default_loader_threads()


def _named(sample: Sample) -> str:
    return sample.id if sample.path is None else f"{sample.id} ({sample.path})"


def _renamed(error: ImageError, sample: Sample) -> ImageError:
    """Return the error with this sample's name: one of equal content, or only the file, was tried."""
    path = None if sample.path is None else str(sample.path)
    return ImageError(sample.id, error.rule, error.remedy, path=path)


def _array(rows: list[NDArray[np.float32]], normalise: bool) -> NDArray[np.float32]:
    if not rows:
        return np.empty((0, 0), np.float32)
    array = np.stack(rows)
    if normalise:
        lengths = np.sqrt(np.einsum("nd,nd->n", array, array, dtype=np.float64))
        array /= lengths[:, None].astype(np.float32)
    return array


def _check_bad(
    errors: Sequence[ImageError], total: int, on_bad_image: str, max_bad_images: int | None
) -> None:
    if not errors:
        return
    count = f"{len(errors)} of {total} images cannot be used"
    if len(errors) == total:
        head = f"{count}, so there is nothing to judge"
    elif on_bad_image == "fail":
        head = f"{count} (on_bad_image='skip' goes on without them)"
    elif max_bad_images is not None and len(errors) > max_bad_images:
        head = f"{count}, more than max_bad_images={max_bad_images}"
    else:
        return
    raise BadImagesError(_listed(head, [str(error) for error in errors]))


def _listed(head: str, lines: Sequence[str]) -> str:
    more = [f"... and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n  ".join([f"{head}:", *lines[:_SHOWN], *more])
