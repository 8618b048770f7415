"""``semcov fit-translator``: a translator from unpaired images of two categories."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.cli.common import (
    MODELS,
    add_dataset,
    add_settings,
    dataset_of,
    exit_status,
    printed_json,
    progress_line,
    settings_of,
)
from pytest_semcov.cli.fitters import METHODS, OPTIONS, Request, spec_of, training_folder
from pytest_semcov.errors import ArgumentError

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Sample
    from pytest_semcov.settings import Settings
    from pytest_semcov.workbench import Workbench

_Halves = dict[str, "tuple[list[Sample], list[Sample]]"]


def add_fit_translator(commands: Any) -> None:
    """Add the command."""
    fit = commands.add_parser(
        "fit-translator",
        help="learn to make images of one category from images of another",
        description="Fit a translator to unpaired images: to two folders (--source, --target), or to two "
        "categories of one data set (DATASET, --semantic), of which one half is learned from and the other "
        "left to judge by, whole groups together.",
        epilog=exit_status("fitted"),
    )
    add_dataset(fit, optional=True)
    methods = "; ".join(f"{name}: {method.help}" for name, method in METHODS.items())
    fit.add_argument("--method", required=True, choices=METHODS, help=methods)
    fit.add_argument("--out", required=True, metavar="FILE", help="file to write, e.g. night.safetensors")
    fit.add_argument("--source", metavar="DIR", help="folder of images of the source category")
    fit.add_argument("--target", metavar="DIR", help="folder of images of the target category")
    fit.add_argument("--semantic", metavar="NAME", help="what is changed, e.g. day_night")
    fit.add_argument("--source-name", default="day", metavar="NAME", help="source category (default: day)")
    fit.add_argument(
        "--target-name", default="night", metavar="NAME", help="target category (default: night)"
    )
    fit.add_argument("--json", action="store_true", help="print JSON instead of text")
    own = fit.add_argument_group("options of single methods")
    for name, option in OPTIONS.items():
        users = ", ".join(method for method, each in METHODS.items() if name in each.options)
        own.add_argument(f"--{name.replace('_', '-')}", **{**option, "help": f"{users}: {option['help']}"})
    add_settings(fit, MODELS)
    fit.set_defaults(run=_fit)


def _fit(options: argparse.Namespace) -> str:
    """Fit, write the file and the list of images, and return the summary."""
    settings = settings_of(options)
    method, own = METHODS[options.method], _own_options(options)
    out = Path(options.out).expanduser()
    _check_out(out)
    from pytest_semcov.translation.fitted import samples_to_learn_from
    from pytest_semcov.workbench import Workbench

    begun = time.monotonic()
    with progress_line() as progress:
        halves = _images(options, Workbench(settings, progress=progress), settings)
        (sources, _), (targets, _) = halves.values()
        # Also for methods that do not learn from sources: an image in both is a mistake of the data.
        samples_to_learn_from(sources, targets, source=options.source_name, target=options.target_name)
        request = Request(
            sources,
            targets,
            {
                "source": options.source_name,
                "target": options.target_name,
                "semantic": options.semantic,
                "seed": settings.seed,
            },
            own,
            settings.device,
            out,
            progress,
        )
        try:
            translator = method.fit(request)
        except KeyboardInterrupt:
            if method.resumes:
                raise KeyboardInterrupt(
                    f"interrupted; {training_folder(out)} keeps the last checkpoint: run the same command "
                    "again to go on from it"
                ) from None
            raise
    translator.save(out)
    record = {
        "method": options.method,
        "translator": translator.name,
        "fingerprint": translator.fingerprint,
        "file": str(out),
        "spec": spec_of(options.method, out, own),
        "semantic": options.semantic,
        "source": options.source_name,
        "target": options.target_name,
        "seed": settings.seed,
        "options": own,
        "seconds": round(time.monotonic() - begun, 1),
        "learned_from": _ids(options, halves, 0),
        "left_to_judge": _ids(options, halves, 1),
    }
    listed = out.with_name(f"{out.name}.json")
    listed.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return printed_json(record) if options.json else _summary(record, listed)


def _check_out(out: Path) -> None:
    """Refuse what cannot be written before minutes of training, not after."""
    if out.is_dir():
        raise ArgumentError(f"--out: {str(out)!r} is a folder; name a file in it")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise ArgumentError(f"--out: {str(out)!r} cannot be written, since nothing can be put into {above}")


def _own_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the method's own options that were given."""
    given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    strange = [name for name in given if name not in METHODS[options.method].options]
    if strange:
        raise ArgumentError(f"--{strange[0].replace('_', '-')} is no option of --method {options.method}")
    missing = [name for name in METHODS[options.method].needs if name not in given]
    if missing:
        raise ArgumentError(f"--method {options.method} needs --{missing[0].replace('_', '-')}")
    return given


def _images(options: argparse.Namespace, bench: Workbench, settings: Settings) -> _Halves:
    """Return per category the images to learn from and those left to judge by; the source comes first."""
    names = (options.source_name, options.target_name)
    if names[0] == names[1]:
        raise ArgumentError(f"--source-name and --target-name are both {names[0]!r}: need two categories")
    if options.dataset is None:
        return _from_folders(options, names)
    if options.source is not None or options.target is not None:
        raise ArgumentError("give either DATASET with --semantic, or --source and --target")
    if options.semantic is None:
        raise ArgumentError("DATASET needs --semantic: which of its images are of which category?")
    from pytest_semcov.translation.selection import split_for_fitting

    dataset = dataset_of(options)
    labels = bench.label(dataset, options.semantic, labels=options.labels)
    category_of = labels.by_id()
    halves: _Halves = {}
    for name in names:
        labels.code(name)  # refuses an unknown one
        found = [
            sample
            for sample in (dataset[index] for index in range(len(dataset)))
            if sample.real and category_of.get(sample.id) == name
        ]
        halves[name] = split_for_fitting(found, seed=settings.seed)
    if not METHODS[options.method].learns_from_source:
        halves[names[0]] = ([], [*halves[names[0]][0], *halves[names[0]][1]])
    return halves


def _from_folders(options: argparse.Namespace, names: tuple[str, str]) -> _Halves:
    """Return all images of both folders, to learn from."""
    learns_from_source = METHODS[options.method].learns_from_source
    if options.target is None or (options.source is None and learns_from_source):
        needed = "--source and --target" if learns_from_source else "--target"
        raise ArgumentError(f"--method {options.method} needs {needed}, or DATASET with --semantic")
    from pytest_semcov.data.folder import ImageFolder

    halves: _Halves = {}
    for name, folder in zip(names, (options.source, options.target), strict=True):
        samples = () if folder is None else ImageFolder(folder, labels=None, group=options.group).samples
        halves[name] = ([sample for sample in samples if sample.real], [])
    return halves


def _ids(options: argparse.Namespace, halves: _Halves, half: int) -> dict[str, list[str]]:
    """Return ids per category; images of the source count as learned from only where they are."""
    ids = {name: [sample.id for sample in samples[half]] for name, samples in halves.items()}
    if not METHODS[options.method].learns_from_source and half == 0:
        ids[options.source_name] = []
    return ids


def _summary(record: dict[str, Any], listed: Path) -> str:
    learned, left = (
        " and ".join(f"{len(ids)} {name}" for name, ids in record[key].items() if ids) or "none"
        for key in ("learned_from", "left_to_judge")
    )
    lines = [
        f"{record['translator']}, {record['source']} to {record['target']}: {record['file']} "
        f"({record['fingerprint'][:12]}), fitted in {record['seconds']:g} s",
        f"  learned from {learned} images, which must not judge it: the file remembers them, and verdicts "
        "leave them out",
    ]
    if any(record["left_to_judge"].values()):
        lines.append(f"  left to judge by: {left} images")
    lines += [
        f"  ids of the images: {listed}",
        f"  use it: semcov translate DATASET --translator {record['spec']} --out FOLDER",
    ]
    return "\n".join(lines)
