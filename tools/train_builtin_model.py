"""Train the built-in image-text model on rendered scenes alone.

    python tools/train_builtin_model.py --photographs PATH/day_night/train

renders the scenes (cached as one file), trains, and writes configuration, half-precision weights and card
into ``pytest_semcov/embedding/builtin``. Photographs are only looked at for the card, after training; they
are expected in the class folders ``day`` and ``night``. Everything is seeded; results agree to rounding on
one kind of machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import math
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import open_clip
import torch
from builtin_model_card import write_card
from builtin_model_words import FACTORS, phrases_of
from numpy.typing import NDArray
from open_clip.model import CLIP
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from pytest_semcov.data.scenes import RENDERER_VERSION, SCENE_SEMANTICS, RenderedScenes
from pytest_semcov.data.scenes_layout import LAYOUTS, OBJECT_CLASSES, place_of
from pytest_semcov.embedding import builtin

CONFIG = {
    "embed_dim": 64,
    "vision_cfg": {"image_size": 96, "layers": [1, 1, 1, 1], "width": 16, "head_width": 64},
    "text_cfg": {"context_length": 48, "vocab_size": 49408, "width": 64, "heads": 4, "layers": 2},
    "preprocess_cfg": {
        "size": 96,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
        "interpolation": "bicubic",
        "resize_mode": "squash",
    },
}
STORED = 112
"""Scenes are stored at this size (pixels), so that crops need no rendering."""

RENDERED_SIZES = (64, 80, 96, 112, 128)

MOSTLY_PLAIN = {
    "day_night": {"day": 0.65, "night": 0.35},
    "clear_rain": {"clear": 0.75, "rain": 0.25},
    "sharp_blurry": {"sharp": 0.8, "blurry": 0.2},
    "noflare_flare": {"no flare": 0.8, "flare": 0.2},
}
"""Every other block is rendered so, lest what darkness and blur conceal be learnt late."""

logger = logging.getLogger("train_builtin_model")


def render_block(
    count: int, seed: int, size: int, compressed: bool, plain: bool
) -> tuple[NDArray, NDArray, NDArray]:
    """Render scenes of one size.

    Returns
    -------
    tuple
        Pixels ``(n, 112, 112, 3)`` uint8, category per factor ``(n, 10)`` uint8, and layout figures
        ``(n, 9)`` float32 (horizon, road, where the main object is: what an embedding should not lose).
    """
    scenes = RenderedScenes(count, seed=seed, size=size, mix=MOSTLY_PLAIN if plain else None)
    pixels = np.empty((count, STORED, STORED, 3), dtype=np.uint8)
    codes = np.empty((count, len(FACTORS)), dtype=np.uint8)
    figures = np.empty((count, 9), dtype=np.float32)
    for index, sample in enumerate(scenes):
        image = sample.load()
        if compressed:
            file = BytesIO()
            image.save(file, "JPEG", quality=50 + index % 46)
            image = Image.open(file).convert("RGB")
        pixels[index] = np.asarray(image.resize((STORED, STORED), Image.Resampling.BICUBIC))
        place, main = place_of(scenes.spec(index).seed), sample.boxes[0]
        codes[index] = [
            *(both.index(str(sample.metadata[semantic])) for semantic, both in SCENE_SEMANTICS.items()),
            OBJECT_CLASSES.index(main.label),
            LAYOUTS.index(place.layout),
        ]
        figures[index] = (
            place.vanishing_x,
            place.road_x,
            (main.x0 + main.x1) / 2 / size,
            place.horizon,
            place.road_width,
            math.log(place.camera_height) / 3,
            (main.y0 + main.y1) / 2 / size,
            (main.y1 - main.y0) / size,
            len(sample.boxes) / 4,
        )
    return pixels, codes, figures


def rendered(count: int, seed: int, workers: int, cache: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Return training scenes, rendered now or read from ``cache`` (an .npz file)."""
    if not cache.exists():
        block = min(500, count)
        jobs = [
            (
                block,
                seed * 1_000_003 + number,
                RENDERED_SIZES[number % len(RENDERED_SIZES)],
                number % 4 > 1,
                number % 2 == 0,
            )
            for number in range(math.ceil(count / block))
        ]
        with ProcessPoolExecutor(workers) as pool:
            blocks = list(pool.map(render_block, *zip(*jobs, strict=True)))
        cache.parent.mkdir(parents=True, exist_ok=True)
        pixels, codes, figures = (np.concatenate(part) for part in zip(*blocks, strict=True))
        np.savez(cache, pixels=pixels, codes=codes, figures=figures)
    with np.load(cache) as stored:
        return tuple(torch.from_numpy(stored[name]) for name in ("pixels", "codes", "figures"))


def augment(pixels: Tensor, strength: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Crop, turn, flip and recolour a batch, each image its own way.

    Parameters
    ----------
    pixels
        ``(n, 112, 112, 3)`` uint8.
    strength
        0 = only the colours, a little; 1 = all the way.

    Returns
    -------
    tuple
        ``(n, 3, 96, 96)`` float32 in [-1, 1], and which images were flipped.
    """
    count = len(pixels)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *shape, generator=generator)

    def normal(spread: float, *shape: int) -> Tensor:
        return spread * torch.randn(count, *shape, generator=generator)

    images = pixels.permute(0, 3, 1, 2).float() / 255
    flipped = torch.rand(count, generator=generator) < 0.5
    mirror = 1 - 2 * flipped.float()
    zoom_x, zoom_y = 1 - strength * uniform(0, 0.25), 1 - strength * uniform(0, 0.25)
    turn = strength * normal(0.06)
    shift_x, shift_y = uniform(-1, 1) * (1 - zoom_x), uniform(-1, 1) * (1 - zoom_y)
    where = torch.stack(
        [
            torch.stack([mirror * zoom_x * turn.cos(), -zoom_x * turn.sin(), shift_x], dim=-1),
            torch.stack([mirror * zoom_y * turn.sin(), zoom_y * turn.cos(), shift_y], dim=-1),
        ],
        dim=1,
    )
    grid = functional.affine_grid(where, [count, 3, 96, 96], align_corners=False)
    smooth = "bicubic" if torch.rand(1, generator=generator) < 0.3 else "bilinear"
    images = functional.grid_sample(images, grid, mode=smooth, padding_mode="reflection", align_corners=False)
    images = images.clamp(0.001, 1) ** normal(0.05 + 0.2 * strength, 1, 1, 1).exp()
    grey = images.mean(dim=1, keepdim=True)
    images = grey + (images - grey) * uniform(1 - 0.6 * strength, 1 + 0.3 * strength, 1, 1, 1)
    blend = torch.eye(3) + normal(0.06 * strength, 3, 3)
    images = torch.einsum("ncd,ndhw->nchw", blend, images)
    middle = images.mean(dim=(1, 2, 3), keepdim=True)
    images = middle + (images - middle) * uniform(1 - 0.35 * strength, 1 + 0.3 * strength, 1, 1, 1)
    images = images * normal(0.03 + 0.12 * strength, 1, 1, 1).exp()
    noisy = (uniform(0, 1, 1, 1, 1) < 0.3).float() * uniform(0, 0.03 * strength, 1, 1, 1)
    images = images + noisy * torch.randn(images.shape, generator=generator)
    return images.clamp(0, 1) * 2 - 1, flipped


class Words:
    """Phrases as tokens, and captions put together from them."""

    def __init__(self) -> None:
        tokenizer = open_clip.SimpleTokenizer()
        self._start, self._end = tokenizer.sot_token_id, tokenizer.eot_token_id
        self._phrases = [
            [[tokenizer.encode(phrase) for phrase in phrases_of(factor, category)] for category in categories]
            for factor, categories in FACTORS.items()
        ]
        self._room = CONFIG["text_cfg"]["context_length"]

    def phrase(self, factor: int, category: int, random: np.random.Generator) -> list[int]:
        """Return the catalogue's phrase half of the time, else a paraphrase."""
        known = self._phrases[factor][category]
        return known[0 if random.random() < 0.5 else int(random.integers(len(known)))]

    def pack(self, texts: Sequence[list[int]]) -> Tensor:
        """Return token rows with start and end, padded to the context length."""
        rows = torch.zeros(len(texts), self._room, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            tokens = [self._start, *text, self._end]
            row[: len(tokens)] = torch.tensor(tokens)
        return rows

    def prompts(self, random: np.random.Generator) -> tuple[list[list[int]], list[slice]]:
        """Return one prompt for every category of every factor, some with an object or a scene before."""
        texts: list[list[int]] = []
        parts = []
        for factor, categories in enumerate(FACTORS.values()):
            before: list[int] = []
            if factor < len(SCENE_SEMANTICS) and random.random() < 0.3:
                other = int(random.integers(len(SCENE_SEMANTICS), len(FACTORS)))
                before = self.phrase(other, int(random.integers(4)), random)
            start = len(texts)
            texts += [
                [*before, *self.phrase(factor, category, random)] for category in range(len(categories))
            ]
            parts.append(slice(start, len(texts)))
        return texts, parts

    def caption(self, codes: NDArray, random: np.random.Generator) -> tuple[list[int], list[int]]:
        """Return a caption of two to five facts about a scene, and which factors it names."""
        text: list[int] = []
        named = []
        for factor in random.permutation(len(FACTORS))[: int(random.integers(2, 6))]:
            phrase = self.phrase(int(factor), int(codes[factor]), random)
            if len(text) + len(phrase) <= self._room - 2:
                text += phrase
                named.append(int(factor))
        return text, named


def encode_texts(model: CLIP, tokens: Tensor) -> Tensor:
    """Encode texts as ``model.encode_text`` does, without computing the padding."""
    longest = int((tokens != 0).sum(dim=1).max())
    hidden = model.token_embedding(tokens[:, :longest]) + model.positional_embedding[:longest]
    hidden = model.transformer(hidden, attn_mask=model.attn_mask[:longest, :longest])
    last = tokens.argmax(dim=-1)  # the end-of-text token has the highest number
    return model.ln_final(hidden)[torch.arange(len(tokens)), last] @ model.text_projection


def losses(
    model: CLIP,
    head: nn.Module,
    images: Tensor,
    codes: Tensor,
    figures: Tensor,
    words: Words,
    random: np.random.Generator,
    *,
    weights: Sequence[float],
    half: bool,
) -> tuple[Tensor, Tensor]:
    """Return the loss of a batch, and the share of right labels per factor.

    Four parts: per factor, the cross-entropy of the image against one prompt per category; the usual contrast
    of images and captions (all captions that hold for an image are right); and, read from the image embedding
    by a linear head that is thrown away afterwards, all factors and the layout figures.
    """
    prompts, parts = words.prompts(random)
    captions = [words.caption(row, random) for row in codes[::2].numpy()]
    tokens = words.pack([*prompts, *(text for text, _ in captions)])
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        texts = encode_texts(model, tokens)
        seen = model.encode_image(images.contiguous(memory_format=torch.channels_last))
    texts, seen = functional.normalize(texts.float(), dim=-1), functional.normalize(seen.float(), dim=-1)
    logits = model.logit_scale.exp() * seen @ texts.T
    read = head(8 * seen)
    per_factor, right = [], []
    for factor, part in enumerate(parts):
        wanted = codes[:, factor].long()
        shown = functional.cross_entropy(logits[:, part], wanted, label_smoothing=0.02)
        per_factor.append(weights[factor] * (shown + functional.cross_entropy(read[:, part], wanted)))
        right.append((logits[:, part].argmax(dim=1) == wanted).float().mean())
    holds = torch.stack(
        [(codes[:, named] == codes[2 * row, named]).all(dim=1) for row, (_, named) in enumerate(captions)],
        dim=1,
    ).float()
    contrast = logits[:, len(prompts) :]
    pairing = -(holds / holds.sum(0, keepdim=True) * contrast.log_softmax(0)).sum(0).mean()
    described = holds.sum(1) > 0
    target = holds[described] / holds[described].sum(1, keepdim=True)
    pairing = pairing - (target * contrast[described].log_softmax(1)).sum(1).mean()
    layout = functional.mse_loss(read[:, len(prompts) :], figures)
    return torch.stack(per_factor).mean() + 0.1 * pairing + 2.0 * layout, torch.stack(right)


def train(options: argparse.Namespace) -> CLIP:
    """Train from random weights and return the averaged model, ready for use."""
    pixels, codes, figures = rendered(options.scenes, options.seed, options.workers, options.cache)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    random = np.random.default_rng(options.seed)
    model = CLIP(embed_dim=CONFIG["embed_dim"], vision_cfg=CONFIG["vision_cfg"], text_cfg=CONFIG["text_cfg"])
    average = CLIP(
        embed_dim=CONFIG["embed_dim"], vision_cfg=CONFIG["vision_cfg"], text_cfg=CONFIG["text_cfg"]
    )
    if options.start:
        stored = load_file(options.start / builtin.weights_path().name)
        model.load_state_dict({name: value.float() for name, value in stored.items()})
    average.load_state_dict(model.state_dict())
    head = nn.Linear(CONFIG["embed_dim"], sum(map(len, FACTORS.values())) + figures.shape[1])
    decayed = [item for name, item in model.named_parameters() if item.ndim > 1 and "embedding" not in name]
    plain = [item for name, item in model.named_parameters() if item.ndim < 2 or "embedding" in name]
    groups = [
        {"params": decayed, "weight_decay": 0.05},
        {"params": [*plain, *head.parameters()], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98))
    words = Words()
    weights = [dict(options.weight).get(name, 2.0 if len(FACTORS[name]) > 2 else 1.0) for name in FACTORS]
    model.train().to(memory_format=torch.channels_last)
    order = torch.empty(0, dtype=torch.long)
    smooth = torch.full((len(FACTORS),), 0.5)
    started = time.monotonic()
    for step in range(options.steps):
        progress = step / options.steps
        for group in optimiser.param_groups:
            group["lr"] = (
                options.rate * min(1.0, (step + 1) / 100) * (0.02 + 0.49 * (1 + math.cos(math.pi * progress)))
            )
        if len(order) < options.batch:
            order = torch.randperm(len(pixels), generator=generator)
        chosen, order = order[: options.batch], order[options.batch :]
        # The first and the last part of training see scenes nearer to what they are.
        images, flipped = augment(pixels[chosen], 1.0 if 0.3 < progress < 0.85 else 0.5, generator)
        wanted = figures[chosen].clone()
        wanted[flipped, :3] = 1 - wanted[flipped, :3]
        loss, right = losses(
            model, head, images, codes[chosen], wanted, words, random, weights=weights, half=options.half
        )
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=math.log(100))
            keep = min(0.998, step / (step + 10))
            for ours, theirs in zip(average.state_dict().values(), model.state_dict().values(), strict=True):
                if ours.is_floating_point():
                    ours.lerp_(theirs, 1 - keep)
                else:
                    ours.copy_(theirs)
        smooth = 0.98 * smooth + 0.02 * right
        if step % 50 == 49 or step == options.steps - 1:
            shares = " ".join(
                f"{name[:9]} {share:.2f}" for name, share in zip(FACTORS, smooth.tolist(), strict=True)
            )
            logger.info(
                "step %d, %.0f s, loss %.3f, scale %.1f: %s",
                step + 1, time.monotonic() - started, loss.item(), model.logit_scale.exp().item(), shares,
            )  # fmt: skip
        if options.snapshots and step % options.snapshots == options.snapshots - 1:
            save(average, options.output)
    return average.eval()


def save(model: CLIP, folder: Path) -> None:
    """Write configuration and weights; one-dimensional parameters keep full precision, all else half."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {key: CONFIG[key] for key in ("embed_dim", "vision_cfg", "text_cfg", "preprocess_cfg")}, indent=2
    )
    (folder / builtin.config_path().name).write_text(text + "\n", encoding="utf-8")
    tensors = {
        name: (value.half() if value.ndim > 1 else value).contiguous()
        for name, value in model.state_dict().items()
    }
    unfinished = folder / "unfinished.safetensors"
    save_file(tensors, unfinished)
    unfinished.chmod(0o644)
    unfinished.replace(folder / builtin.weights_path().name)


def weight_of(text: str) -> tuple[str, float]:
    """Return factor and weight of an option's text."""
    factor, _, number = text.partition("=")
    if factor not in FACTORS:
        raise argparse.ArgumentTypeError(f"no factor {factor!r}; there are {', '.join(FACTORS)}")
    return factor, float(number)


def main() -> None:
    """Train, save and describe the model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=7000)
    parser.add_argument("--scenes", type=int, default=30000, help="scenes to render for training")
    parser.add_argument("--held-out", type=int, default=2000, help="scenes to render for the card")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=Path, help="folder of a trained model to go on from")
    parser.add_argument(
        "--weight",
        type=weight_of,
        action="append",
        default=[],
        metavar="FACTOR=NUMBER",
        help="weight of a factor's labels in the loss (default 1; 2 for object and layout)",
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that render")
    parser.add_argument("--threads", type=int, default=1, help="threads that train")
    parser.add_argument("--cache", type=Path, default=Path("build/builtin_model_scenes.npz"))
    parser.add_argument("--output", type=Path, default=builtin.config_path().parent)
    parser.add_argument("--photographs", type=Path, help="folder with day/ and night/, for the card only")
    parser.add_argument(
        "--half", action="store_true", help="compute in bfloat16: faster where the CPU has it"
    )
    parser.add_argument("--snapshots", type=int, default=0, help="also save the weights every so many steps")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(options.threads)
    model = train(options)
    save(model, options.output)
    scenes = f"{options.scenes} rendered scenes (seed {options.seed}), renderer version {RENDERER_VERSION}"
    weights = "".join(f" --weight {factor}={weight:g}" for factor, weight in options.weight)
    command = (
        f"python tools/train_builtin_model.py --steps {options.steps} --scenes {options.scenes}"
        f" --batch {options.batch} --rate {options.rate:g} --seed {options.seed}{weights}"
        f"{' --half' * options.half}"
    )
    training = {"data": [scenes], "commands": [command]}
    if options.start:
        before = json.loads((options.start / builtin.card_path().name).read_text(encoding="utf-8"))[
            "training"
        ]
        training = {
            "data": [*before["data"], scenes],
            "commands": [*before["commands"], f"{command} --start FOLDER_OF_THE_FORMER"],
        }
    training["date"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    write_card(options.output, training, held_out=options.held_out, photographs=options.photographs)


if __name__ == "__main__":
    main()
