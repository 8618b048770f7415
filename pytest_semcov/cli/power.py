"""``semcov power``: how many images of a category are needed."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_semcov.cli.common import (
    MODELS,
    SUFFICIENCY,
    add_dataset,
    add_settings,
    dataset_of,
    exit_status,
    printed_json,
    progress_line,
    settings_of,
)

_COVERAGE = ("min_count", "min_share", "min_groups", "max_uncertain", "min_lift", "max_p", "clusters")


def add_power(commands: Any) -> None:
    """Add the command."""
    power = commands.add_parser(
        "power",
        help="how many images of a category are needed",
        description="How many images of a category are needed: for its coverage, for its importance to be "
        "known, and for synthetic images to be judged by them.",
        epilog=exit_status("answered"),
    )
    add_dataset(power)
    power.add_argument("--semantic", required=True, metavar="NAME", help="e.g. day_night")
    power.add_argument("--category", required=True, metavar="NAME", help="e.g. night")
    power.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="X",
        help="share of the gap that the synthetic images close; 1 = as good as real ones (default: 1)",
    )
    power.add_argument(
        "--lift",
        type=float,
        default=2.0,
        metavar="X",
        help="lift of cluster recall that should be called important (default: 2)",
    )
    power.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_settings(power, (*MODELS, *_COVERAGE, *SUFFICIENCY))
    power.set_defaults(run=_power)


def _power(options: argparse.Namespace) -> str:
    """Return the answer."""
    settings = settings_of(options)
    from pytest_semcov.planning import plan_images
    from pytest_semcov.workbench import Workbench

    with progress_line() as progress:
        plan = plan_images(
            Workbench(settings, progress=progress),
            dataset_of(options),
            options.semantic,
            options.category,
            labels=options.labels,
            share=options.share,
            lift=options.lift,
        )
    return printed_json(plan.to_dict()) if options.json else str(plan)
