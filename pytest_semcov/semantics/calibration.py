"""From margins to probabilities: how often a label with this margin is right, learnt from a few labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pytest_semcov.errors import ArgumentError, NonFiniteError, TooFewError
from pytest_semcov.gates.figures import text_table
from pytest_semcov.gates.verdict import Plain, plain
from pytest_semcov.metrics.arrays import Doubles
from pytest_semcov.metrics.intervals import clopper_pearson
from pytest_semcov.semantics.bench import signed_margin
from pytest_semcov.semantics.calibration_curves import (
    Curve,
    Method,
    fit_curves,
    grouped_folds,
    held_out_probabilities,
    log_loss_of,
    probabilities_of,
)
from pytest_semcov.semantics.descriptors import Descriptor
from pytest_semcov.semantics.labels import UNCERTAIN, Labels

FEWEST_LABELS = 10
"""Known labels of each category that a logistic curve needs."""

FEWEST_FOR_ISOTONIC = 50
"""Known labels of each category that an isotonic curve needs: it has no shape of its own to rely on."""

_BINS = 5
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Labels of similar probability: what was promised and what came.

    Parameters
    ----------
    images
        Known labels in the bin.
    promised
        Their mean probability of being right, each found without its own fold.
    correct
        Share that was right.
    interval
        Its exact 95 % interval (Clopper-Pearson).
    """

    images: int
    promised: float
    correct: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class LabelCalibration:
    """What the margins of one encoder mean for one descriptor.

    Parameters
    ----------
    semantic, categories
        What is labelled.
    curves
        One per category, from its signed margin to its probability; with two categories one, of the second.
    method
        ``"logistic"`` or ``"isotonic"``.
    encoder, encoder_fingerprint, descriptor_fingerprint
        What the calibration holds for; with any other it is refused.
    images
        Known labels that it was learnt from.
    log_loss
        Method → cross-validated log loss in nats; with two categories also ``"softmax"``: of the encoder's
        own probabilities.
    reliability
        Cross-validated, by rising probability.
    """

    semantic: str
    categories: tuple[str, ...]
    curves: tuple[Curve, ...]
    method: Method
    encoder: str
    encoder_fingerprint: str
    descriptor_fingerprint: str
    images: int
    log_loss: Mapping[str, float]
    reliability: tuple[ReliabilityBin, ...]

    def probabilities(self, labels: Labels, descriptor: Descriptor) -> Doubles:
        """Return ``(n, K)`` calibrated probabilities of the categories; rows sum to 1.

        Raises
        ------
        ArgumentError
            If the labels are of another semantic or encoder, or were made with another descriptor.
        """
        self._check(labels, descriptor)
        return probabilities_of(self.curves, _margins(labels))

    def certainty(self, labels: Labels, descriptor: Descriptor) -> Doubles:
        """Return ``(n,)`` probability that the nearest category is the right one."""
        return self.probabilities(labels, descriptor)[np.arange(len(labels)), labels.top]

    def abstaining(self, labels: Labels, descriptor: Descriptor, *, min_probability: float = 0.9) -> Labels:
        """Return the labels with those uncertain that are right with a smaller probability.

        The calibrated probability takes the place of the encoder's.

        Raises
        ------
        ArgumentError
            As :meth:`probabilities`, or if ``min_probability`` lies outside [0, 1].
        """
        if not 0 <= min_probability <= 1:
            raise ArgumentError(f"min_probability={min_probability!r}: must lie in [0, 1]")
        certainty = self.certainty(labels, descriptor)
        codes = np.where(certainty >= min_probability, labels.top, UNCERTAIN)
        return replace(
            labels, codes=codes, probability=certainty, source=f"{labels.source}, calibrated ({self.method})"
        )

    def filtered(self, labels: Labels, descriptor: Descriptor, *, min_probability: float = 0.9) -> Labels:
        """Return the labels of the images whose label is right with at least this probability.

        Raises
        ------
        ArgumentError
            As :meth:`abstaining`.
        """
        sure = self.abstaining(labels, descriptor, min_probability=min_probability)
        return sure.select(sure.codes != UNCERTAIN)

    def expected_counts(self, labels: Labels, descriptor: Descriptor) -> dict[str, float]:
        """Return category → images, each counting in every category with its probability."""
        sums = self.probabilities(labels, descriptor).sum(axis=0)
        return dict(zip(self.categories, sums.tolist(), strict=True))

    def _check(self, labels: Labels, descriptor: Descriptor) -> None:
        if labels.semantic != self.semantic or labels.categories != self.categories:
            raise ArgumentError(
                f"a calibration of {self.semantic!r} ({', '.join(self.categories)}) does not hold for labels "
                f"of {labels.semantic!r} ({', '.join(labels.categories)})"
            )
        if labels.encoder_fingerprint != self.encoder_fingerprint:
            raise ArgumentError(
                f"a calibration of {self.encoder} does not hold for labels by "
                f"{labels.encoder or labels.source}: margins of two encoders are not on one scale; "
                "calibrate again"
            )
        if descriptor_fingerprint(descriptor) != self.descriptor_fingerprint:
            raise ArgumentError(
                f"the phrases of {self.semantic!r} are not those that were calibrated; calibrate again"
            )

    def to_dict(self) -> dict[str, Plain]:
        """Return plain Python."""
        return {"format": _FORMAT, **{key: plain(value) for key, value in asdict(self).items()}}

    def save(self, path: str | Path) -> None:
        """Write the calibration as JSON."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> LabelCalibration:
        """Read a calibration.

        Raises
        ------
        ArgumentError
            If the file cannot be read or is none.
        """
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            if found.pop("format") != _FORMAT:
                raise ValueError("another format")
            found["categories"] = tuple(found["categories"])
            found["curves"] = tuple(
                Curve(each["method"], tuple(map(float, each["values"]))) for each in found["curves"]
            )
            found["reliability"] = tuple(
                ReliabilityBin(**{**each, "interval": tuple(each["interval"])})
                for each in found["reliability"]
            )
            return cls(**found)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArgumentError(f"{path} is no calibration of labels ({error})") from error

    def __str__(self) -> str:
        rows = [["promised", "correct", "interval", "labels"]]
        for each in self.reliability:
            low, high = each.interval
            rows.append(
                [f"{each.promised:.3f}", f"{each.correct:.3f}", f"[{low:.3f}, {high:.3f}]", str(each.images)]
            )
        losses = ", ".join(f"{name} {loss:.3f}" for name, loss in self.log_loss.items())
        return "\n".join(
            [
                f"{self.semantic} by {self.encoder}: {self.method}, from {self.images} known labels",
                f"cross-validated log loss: {losses}",
                text_table(rows),
            ]
        )


def descriptor_fingerprint(descriptor: Descriptor) -> str:
    """Return what identifies a descriptor's name, categories and prompts."""
    prompts = {category: descriptor.prompts(category) for category in descriptor.categories}
    text = json.dumps([descriptor.name, list(prompts.items())], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def calibrate_labels(
    labels: Labels,
    known: Labels,
    descriptor: Descriptor,
    *,
    method: Method | Literal["auto"] = "auto",
    groups: Sequence[object] | None = None,
    seed: int = 0,
) -> LabelCalibration:
    """Learn what margins mean from images whose category is known.

    The known images must be a random part of those that will be labelled: probabilities hold for the mix of
    categories that they were learnt from. Each category's signed margin (cosine to it less the highest to
    another) is mapped to its probability, and the probabilities of an image are scaled to sum to 1
    (B. Zadrozny and C. Elkan, "Transforming classifier scores into accurate multiclass probability
    estimates", KDD 2002).

    Parameters
    ----------
    labels
        By an encoder, of these images at least.
    known
        Known labels of some images; those without are left out.
    descriptor
        What the labels were made with.
    method
        ``"logistic"`` (J. Platt, "Probabilistic outputs for support vector machines", 1999, with his targets
        that keep few labels from claiming certainty), ``"isotonic"``, or ``"auto"``: the one with the smaller
        cross-validated log loss, isotonic only where each category has 50 known labels.
    groups
        One group per known label: images of one are in one fold.
    seed
        Of the folds.

    Raises
    ------
    ArgumentError
        If the labels are not an encoder's, categories differ, or there is no such method.
    TooFewError
        If a category has fewer than 10 known labels (50 for ``"isotonic"``), or 2 groups.
    """
    if method not in ("auto", "isotonic", "logistic"):
        raise ArgumentError(f"method={method!r}: use 'auto', 'isotonic' or 'logistic'")
    if known.categories != labels.categories:
        raise ArgumentError(
            f"labels have the categories {', '.join(labels.categories)}, known labels "
            f"{', '.join(known.categories)}"
        )
    held = set(labels.ids)
    rows = (known.codes != UNCERTAIN) & np.array([each in held for each in known.ids], dtype=bool)
    truth = known.select(rows)
    fewest = FEWEST_FOR_ISOTONIC if method == "isotonic" else FEWEST_LABELS
    for category, count in truth.counts().items():
        if count < fewest:
            raise TooFewError(
                f"calibrating {labels.semantic}: {count} known labels of {category}, need {fewest} of each "
                "category; give more known labels"
            )
    chosen = labels.for_ids(truth.ids)
    margins = _margins(chosen)
    if not np.isfinite(margins).all():
        raise NonFiniteError(f"a margin of {labels.semantic} is NaN or infinite")
    kept = None if groups is None else [group for group, keep in zip(groups, rows, strict=True) if keep]
    methods: list[Method] = ["logistic"] if method == "auto" else [method]
    if method == "auto" and min(truth.counts().values()) >= FEWEST_FOR_ISOTONIC:
        methods.append("isotonic")
    folds = grouped_folds(truth.codes, kept, seed)
    held_out = {each: held_out_probabilities(each, margins, truth.codes, folds) for each in methods}
    losses: dict[str, float] = {each: log_loss_of(found, truth.codes) for each, found in held_out.items()}
    best = min(methods, key=lambda each: losses[each])
    right = held_out[best][np.arange(len(truth)), chosen.top]
    if chosen.probability is not None and len(labels.categories) == 2:
        softmax = np.where(chosen.top == truth.codes, chosen.probability, 1 - chosen.probability)
        losses["softmax"] = float(-np.log(np.maximum(softmax, np.finfo(float).tiny)).mean())
    return LabelCalibration(
        labels.semantic,
        labels.categories,
        fit_curves(best, margins, truth.codes),
        best,
        labels.encoder,
        labels.encoder_fingerprint,
        descriptor_fingerprint(descriptor),
        len(truth),
        losses,
        reliability_table(right, chosen.top == truth.codes),
    )


def reliability_table(
    probability: Doubles, correct: NDArray[np.bool_], *, bins: int = _BINS
) -> tuple[ReliabilityBin, ...]:
    """Return what probabilities promised and what came, in bins of (nearly) equally many images.

    Parameters
    ----------
    probability
        ``(n,)`` that a label is right.
    correct
        ``(n,)`` whether it was.
    bins
        Number of bins; fewer where there are fewer images.
    """
    order = np.argsort(probability, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return tuple(
        ReliabilityBin(
            len(part),
            float(probability[part].mean()),
            float(correct[part].mean()),
            clopper_pearson(int(correct[part].sum()), len(part)),
        )
        for part in parts
    )


def _margins(labels: Labels) -> Doubles:
    """Return ``(n, curves)`` signed margins: of two categories that of the second, else of each."""
    count = len(labels.categories)
    return np.column_stack([signed_margin(labels, code) for code in ([1] if count == 2 else range(count))])
