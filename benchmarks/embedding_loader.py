"""Images per second of ``extract`` against a plain loop over the same model, in one run.

    python benchmarks/embedding_loader.py [--images 96] [--size 1024] [--model timm:resnet18?untrained]

The plain loop decodes, preprocesses and embeds batch after batch in one thread. Both see the same JPEG
files, no cache. Printed are the rates, their ratio (above 1: extract is faster), and how far extract
stays from the bare model on inputs that lie ready in memory.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from pytest_semcov.data.decoding import FileSource
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding.extraction import default_loader_threads, extract
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.errors import UntrainedWeightsWarning


def write_photographs(folder: Path, count: int, size: int) -> SampleDataset:
    """Write JPEGs of smooth random pictures with noise, about as costly to decode as photographs."""
    generator = np.random.default_rng(0)
    samples = []
    for index in range(count):
        coarse = Image.fromarray(generator.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((size * 4 // 3, size), Image.Resampling.BICUBIC), dtype=np.int16)
        noisy = smooth + generator.integers(-12, 13, smooth.shape, dtype=np.int16)
        path = folder / f"{index:04d}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=88)
        samples.append(Sample(path.name, FileSource(path)))
    return SampleDataset(samples)


def plain_loop(dataset: SampleDataset, model: Embedder, batch_size: int) -> np.ndarray:
    """Embed batch after batch in this thread, with decoding in full."""
    rows = []
    for start in range(0, len(dataset), batch_size):
        part = range(start, min(start + batch_size, len(dataset)))
        rows.append(model.embed([model.preprocess(dataset[index].load()) for index in part]))
    return np.concatenate(rows)


def rate(count: int, run: Callable[[], object], repeats: int) -> float:
    """Return images per second of the fastest of several runs."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return count / best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--size", type=int, default=1024, help="shorter side of the files in pixels")
    parser.add_argument("--model", default="timm:resnet18?untrained")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    options = parser.parse_args()

    import torch

    torch.set_num_threads(options.threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWeightsWarning)
        model = load_embedder(options.model)
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_photographs(Path(folder), options.images, options.size)
        ready = [model.preprocess(dataset[index].load()) for index in range(options.batch_size)]
        count, size, repeats = len(dataset), options.batch_size, options.repeats
        bare = rate(size, lambda: model.embed(ready), repeats)
        plain = rate(count, lambda: plain_loop(dataset, model, size), repeats)
        ours = rate(count, lambda: extract(dataset, model, batch_size=size), repeats)
        difference = plain_loop(dataset, model, size) - extract(dataset, model, normalise=False).array
    print(
        f"{model.name}, {count} JPEGs of {options.size} px, batch {size}, {options.threads} torch thread(s)"
    )
    print(f"bare model   {bare:7.1f} images/s")
    print(f"plain loop   {plain:7.1f} images/s")
    print(f"extract      {ours:7.1f} images/s ({default_loader_threads()} loader threads)")
    print(f"ratio        {ours / plain:7.2f} to the plain loop, {ours / bare:.2f} to the bare model")
    print(f"largest difference of an embedding's value: {np.abs(difference).max():.3g}")


if __name__ == "__main__":
    main()
