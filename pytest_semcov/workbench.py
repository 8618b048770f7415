"""The workbench: settings, models and caches bound together.

Fixtures, assertions and scripts all work through it. It joins the stages
(embedding, labelling, importance, translation) and hands their numbers to
the gates; nothing is computed twice in one session.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_semcov.errors import ArgumentError
from pytest_semcov.settings import Settings

if TYPE_CHECKING:
    from pytest_semcov.data.samples import Dataset
    from pytest_semcov.embedding.cache import EmbeddingCache
    from pytest_semcov.embedding.protocols import Embedder, Embeddings, Encoder, Progress
    from pytest_semcov.evaluation.models import ModelUnderTest
    from pytest_semcov.evaluation.tables import ScoreTable
    from pytest_semcov.gates.verdict import Verdict
    from pytest_semcov.semantics.bench_table import DescriptorBench
    from pytest_semcov.semantics.calibration import LabelCalibration
    from pytest_semcov.semantics.descriptors import Descriptor
    from pytest_semcov.semantics.labels import Labels
    from pytest_semcov.semantics.ranking import Ranking, RankingAcrossEmbedders
    from pytest_semcov.translation.augmentation import Augmentation
    from pytest_semcov.translation.protocol import Translator

T = TypeVar("T")


class SharedState:
    """Results that the workbenches of one session share, so that nothing is computed twice."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result under ``key``, computing it on first use."""
        if key not in self._results:
            self._results[key] = compute()
        result: T = self._results[key]
        return result


class Workbench:
    """Settings, models and caches bound together.

    Parameters
    ----------
    settings
        All settings; the defaults need no download.
    encoder, embedder
        A spec string, an object (see :class:`Encoder`, :class:`Embedder`), an ``nn.Module`` or a callable
        on a list of images, or a function without parameters that returns one of these when it is first
        needed. Default: the settings' specs.
    descriptors
        Further semantics by name; they come after the catalogue and the settings' files and win.
    translators
        Translators (or their specs) by name.
    models
        Models under test (or their specs) by name.
    cache
        Embedding cache; default: the one in ``settings.cache_dir``.
    progress
        Called as ``progress(what, done, total)`` during long work.
    shared
        Results shared with other workbenches of the session.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        encoder: object = None,
        embedder: object = None,
        descriptors: object = None,
        translators: object = None,
        models: object = None,
        cache: EmbeddingCache | None = None,
        progress: Progress | None = None,
        shared: SharedState | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.progress = progress
        self.shared = SharedState() if shared is None else shared
        self._encoder = encoder
        self._embedder = embedder
        self._descriptors = descriptors
        self._translators = translators
        self._models = models
        self._cache = cache

    def with_settings(self, **changes: Any) -> Workbench:
        """Return a workbench with other settings that shares models, caches and results.

        Changes that are ``None`` are ignored. A changed ``encoder`` or ``embedder`` replaces the one given
        to this workbench.
        """
        given = {name: value for name, value in changes.items() if value is not None}
        if not given:
            return self
        return self._sharing(
            self.settings.override(given, where="argument"),
            encoder=None if "encoder" in given else self._encoder,
            embedder=None if "embedder" in given else self._embedder,
        )

    def with_embedder(self, embedder: object) -> Workbench:
        """Return a workbench with another embedder (a spec or an object) that shares everything else."""
        self._encoder = _provided(self._encoder, self.settings.encoder)  # a factory is called once for both
        return self._sharing(self.settings, encoder=self._encoder, embedder=embedder)

    def with_encoder(self, encoder: object) -> Workbench:
        """Return a workbench with another encoder (a spec or an object) that shares everything else."""
        self._embedder = _provided(self._embedder, self.settings.embedder)
        return self._sharing(self.settings, encoder=encoder, embedder=self._embedder)

    def _sharing(self, settings: Settings, *, encoder: object, embedder: object) -> Workbench:
        """Return a workbench that shares all but settings and models."""
        return Workbench(
            settings,
            encoder=encoder,
            embedder=embedder,
            descriptors=self._descriptors,
            translators=self._translators,
            models=self._models,
            cache=self._cache,
            progress=self.progress,
            shared=self.shared,
        )

    # -- models and names ------------------------------------------------------------------------------

    @property
    def encoder(self) -> Encoder:
        """The image-text model used for labelling, loaded on first use."""
        from pytest_semcov.embedding.specs import load_encoder

        self._encoder = _provided(self._encoder, self.settings.encoder)
        return self._loaded("encoder", self._encoder, load_encoder)

    @property
    def embedder(self) -> Embedder:
        """The downstream model whose embeddings decide what matters, loaded on first use."""
        from pytest_semcov.embedding.specs import load_embedder

        self._embedder = _provided(self._embedder, self.settings.embedder)
        return self._loaded("embedder", self._embedder, load_embedder)

    def translator(self, given: object) -> Translator:
        """Return a translator from a spec or such an object, loaded once, on the settings' device."""
        from pytest_semcov.translation.specs import load_translator

        if not isinstance(given, str):
            return load_translator(given)
        return self.shared.once(
            ("translator", given, self.settings.device, tuple(self.descriptors.values())),
            lambda: load_translator(given, descriptors=self.descriptors, device=self.settings.device),
        )

    def model(self, given: object) -> ModelUnderTest:
        """Return a model under test from one's name, a spec, a MAITE model or such an object, loaded once.

        Raises
        ------
        ArgumentError
            If there is no model of that name; lists those that there are.
        """
        from pytest_semcov.evaluation.specs import load_model

        if isinstance(given, str) and (given in self.models or ":" not in given):
            if given not in self.models:
                known = ", ".join(self.models) or "none"
                raise ArgumentError(
                    f"no model under test is called {given!r} (there are: {known}): define the fixture "
                    "semcov_models, or give a spec, e.g. timm:NAME@PATH"
                )
            given = self.models[given]
        return self._loaded("model", given, load_model)

    def _loaded(self, role: str, given: object, load: Callable[..., T]) -> T:
        key = given if isinstance(given, str) else id(given)
        device = self.settings.device
        # The given object is kept beside the model: while it lives, its id is not given to another.
        return self.shared.once((role, key, device), lambda: (load(given, device=device), given))[0]

    @property
    def cache(self) -> EmbeddingCache:
        """The embedding cache."""
        if self._cache is None:
            from pytest_semcov.embedding.cache import EmbeddingCache, default_cache_dir

            folder = self.settings.cache_dir or default_cache_dir()
            self._cache = self.shared.once(("cache", folder), lambda: EmbeddingCache(folder))
        return self._cache

    @property
    def descriptors(self) -> Mapping[str, Descriptor]:
        """All semantics by name: catalogue, then the settings' files, then those given."""
        from pytest_semcov.semantics.descriptors import catalogue, load_descriptors

        known = catalogue()
        for path in self.settings.descriptors:
            known.update(load_descriptors(path))
        self._descriptors = _provided(self._descriptors, {})
        known.update(_named_descriptors(self._descriptors))
        return known

    def descriptor(self, semantic: str | Descriptor) -> Descriptor:
        """Return a semantic by name (a descriptor is returned as it is).

        Raises
        ------
        ArgumentError
            If no semantic has that name; the message lists those that there are.
        """
        if not isinstance(semantic, str):
            return semantic
        known = self.descriptors
        if semantic not in known:
            raise ArgumentError(
                f"no semantic {semantic!r}; there are {', '.join(known)}. Add your own with the fixture "
                "semcov_descriptors or a TOML file named by semcov_descriptors in the ini file"
            )
        return known[semantic]

    @property
    def translators(self) -> Mapping[str, object]:
        """Translators, or their specs, by name; default: the settings'."""
        self._translators = _provided(self._translators, self.settings.translators)
        translators = self._translators
        if not isinstance(translators, Mapping):
            raise ArgumentError(f"translators: need a mapping name → translator, got {translators!r}")
        return translators

    @property
    def models(self) -> Mapping[str, object]:
        """Models under test (or their specs) by name."""
        self._models = _provided(self._models, self.settings.models)
        models = self._models
        if not isinstance(models, Mapping):
            raise ArgumentError(f"models: need a mapping name → model, got {models!r}")
        return models

    # -- numbers ---------------------------------------------------------------------------------------

    def embed(self, dataset: Dataset) -> Embeddings:
        """Embed a data set with the embedder, each image once.

        Rows are L2-normalised, except with ``protocol="deduce"``, which compares raw embeddings.

        Raises
        ------
        BadImagesError
            If images cannot be used and the settings do not allow to skip (so many of) them.
        """
        return self._extract(dataset, self.embedder, "embed", normalise=self.settings.protocol != "deduce")

    def encode(self, dataset: Dataset) -> Embeddings:
        """Embed a data set with the encoder's image side, for labelling."""
        return self._extract(dataset, self.encoder, "encode")

    def _extract(
        self, dataset: Dataset, model: Embedder | Encoder, kind: str, *, normalise: bool = True
    ) -> Embeddings:
        from pytest_semcov.embedding.extraction import extract

        settings = self.settings
        policy = (settings.on_bad_image, settings.max_bad_images)
        return self.shared.once(
            (kind, dataset.fingerprint(), model.fingerprint, policy, normalise),
            lambda: extract(
                dataset,
                model,
                kind=kind,
                batch_size=settings.batch_size,
                loader_threads=settings.loader_threads,
                cache=self.cache,
                on_bad_image=settings.on_bad_image,
                max_bad_images=settings.max_bad_images,
                normalise=normalise,
                progress=self.progress,
            ),
        )

    def label(
        self,
        dataset: Dataset,
        semantic: str | Descriptor,
        *,
        labels: object = None,
        calibration: LabelCalibration | None = None,
    ) -> Labels:
        """Label a data set's images under one semantic.

        Parameters
        ----------
        dataset
            The images.
        semantic
            Name of a semantic, or a descriptor.
        labels
            Labels that are known: a metadata column's name, a mapping id → category, a callable on a
            sample, or :class:`Labels`. Default: the settings' column for this semantic, else the encoder.
        calibration
            Result of :meth:`calibrate`: the encoder labels, and its calibrated probability, not the softmax,
            is held against ``min_certainty``.

        Raises
        ------
        UnknownSemanticError
            If the encoder's card does not cover the semantic.
        ArgumentError
            If known labels do not fit the data set or the semantic, or a calibration is given for known
            labels, or was learnt with another encoder or descriptor.
        """
        from pytest_semcov.labelling import label

        return label(self, dataset, semantic, labels=labels, calibration=calibration)

    def check(self, dataset: object, semantic: str | Descriptor, *, labels: object = None) -> None:
        """Find mistakes in names and known labels before anything slow is done.

        Raises
        ------
        ArgumentError
            If there is no such semantic, or known labels do not fit; or ``dataset`` is no data set.
        """
        from pytest_semcov.data.samples import Dataset
        from pytest_semcov.labelling import label_column, name_of

        if not isinstance(dataset, Dataset):
            hint = f": give ImageFolder({dataset!r})" if isinstance(dataset, str) else ""
            raise ArgumentError(f"need a data set, not {dataset!r}{hint}")
        if labels is not None or label_column(self, name_of(semantic)) is not None:
            self.label(dataset, semantic, labels=labels)
        else:
            self.descriptor(semantic)

    def knows(self, dataset: Dataset, semantic: str | Descriptor) -> bool:
        """Whether the encoder can label this semantic on such images with known or general competence."""
        from pytest_semcov.errors import UnknownSemanticError
        from pytest_semcov.labelling import check_labelled

        try:
            check_labelled(self, dataset, self.descriptor(semantic))
        except UnknownSemanticError:
            return False
        return True

    # -- verdicts --------------------------------------------------------------------------------------

    def coverage(self, dataset: Dataset, semantic: str | Descriptor, **arguments: Any) -> Verdict:
        """Judge one semantic; arguments and verdict as of :func:`~pytest_semcov.assert_semantic_covered`."""
        from pytest_semcov.judging_coverage import judge_coverage

        return judge_coverage(self, dataset, semantic, **arguments)

    def scan(
        self, dataset: Dataset, semantics: Sequence[str | Descriptor] | None = None, **arguments: Any
    ) -> Verdict:
        """Judge many semantics; as :func:`~pytest_semcov.assert_no_uncovered_semantics`."""
        from pytest_semcov.judging_scan import judge_scan

        return judge_scan(self, dataset, semantics, **arguments)

    def combinations(
        self, dataset: Dataset, semantics: Sequence[str | Descriptor], **arguments: Any
    ) -> Verdict:
        """Judge combinations of categories; as :func:`~pytest_semcov.assert_combinations_covered`."""
        from pytest_semcov.judging_coverage import judge_combinations

        return judge_combinations(self, dataset, semantics, **arguments)

    def reliability(self, dataset: Dataset, semantic: str | Descriptor, **arguments: Any) -> Verdict:
        """Judge labels; as :func:`~pytest_semcov.assert_labels_reliable`."""
        from pytest_semcov.judging_coverage import judge_reliability

        return judge_reliability(self, dataset, semantic, **arguments)

    def agreement(self, dataset: Dataset, embedders: Sequence[object], **arguments: Any) -> Verdict:
        """Judge embedders; as :func:`~pytest_semcov.assert_embedders_agree`."""
        from pytest_semcov.judging_scan import judge_agreement

        return judge_agreement(self, dataset, embedders, **arguments)

    def sufficiency(self, synthetic: object, **arguments: Any) -> Verdict:
        """Judge synthetic images; as :func:`~pytest_semcov.assert_synthetic_sufficient`."""
        from pytest_semcov.judging_synthetic import judge_sufficiency

        return judge_sufficiency(self, synthetic, **arguments)

    def score(
        self,
        models: object,
        datasets: Dataset | Mapping[str, Dataset],
        metrics: str | Sequence[str] = "accuracy",
        **arguments: Any,
    ) -> ScoreTable:
        """Score models on data sets.

        Parameters
        ----------
        models
            A mapping name → model under test (or its spec), a sequence of models, or one model.
        datasets
            A data set, or a mapping name → data set.
        metrics
            Of :data:`~pytest_semcov.evaluation.scores.METRICS`.
        **arguments
            ``semantic`` (and ``labels``): also score the real and the synthetic images of each category
            apart. ``class_names``, ``class_weighting``, ``keep``, ``resamples``, ``confidence``: see
            :class:`~pytest_semcov.judging_models.ScoreOptions`.

        Returns
        -------
        ScoreTable
            With an interval for each score; it prints itself.
        """
        from pytest_semcov.judging_models import score_models

        return score_models(self, models, datasets, metrics, **arguments)

    def rank(
        self, dataset: Dataset, semantics: Sequence[str | Descriptor] | None = None, **arguments: Any
    ) -> Ranking | RankingAcrossEmbedders:
        """Rank the categories of many semantics by their importance to the embedder.

        Parameters
        ----------
        dataset
            The images.
        semantics
            Names or descriptors; default: all that can be labelled here.
        **arguments
            ``labels``, ``embeddings`` and ``embedders`` as of
            :func:`~pytest_semcov.assert_no_uncovered_semantics`.

        Returns
        -------
        Ranking or RankingAcrossEmbedders
            By lift of cluster recall; with several embedders by their mean rank.
        """
        from pytest_semcov.judging_scan import rank_semantics

        return rank_semantics(self, dataset, semantics, **arguments)

    def descriptor_bench(
        self, dataset: Dataset, semantic: str | Descriptor, *, labels: object, **arguments: Any
    ) -> DescriptorBench:
        """Compare prompt layouts and encoders on images whose category is known.

        Parameters
        ----------
        dataset
            The images; those without a known label are not looked at.
        semantic
            Name of a semantic, or a descriptor.
        labels
            The known labels, as of :meth:`label`.
        **arguments
            ``encoders``: specs or objects, default the workbench's. ``layouts``: name → descriptor, default
            each of its parts on or off and each of its wordings alone. ``target``: the category that
            precision, recall and AUC are of, default the rarest. ``resamples`` (999), ``confidence`` (0.95).

        Returns
        -------
        DescriptorBench
            A table with intervals and a recommendation; it prints itself.
        """
        from pytest_semcov.judging_descriptors import bench_descriptors

        return bench_descriptors(self, dataset, semantic, labels=labels, **arguments)

    def calibrate(
        self, dataset: Dataset, semantic: str | Descriptor, *, labels: object, method: Any = "auto"
    ) -> LabelCalibration:
        """Learn how often the encoder's labels are right, from images whose category is known.

        Parameters
        ----------
        dataset
            The images; those with a known label must be a random part of what will be labelled.
        semantic
            Name of a semantic, or a descriptor.
        labels
            The known labels, as of :meth:`label`: ten of each category at least.
        method
            ``"logistic"``, ``"isotonic"`` (50 of each) or ``"auto"``.

        Returns
        -------
        LabelCalibration
            For :meth:`label`, and to filter or weigh labels; it prints itself.
        """
        from pytest_semcov.judging_descriptors import calibrate

        return calibrate(self, dataset, semantic, labels=labels, method=method)

    def augment(self, dataset: Dataset, **arguments: Any) -> tuple[Augmentation, ...]:
        """Translate and judge; see :func:`~pytest_semcov.augmenting.augment_dataset`."""
        from pytest_semcov.augmenting import augment_dataset

        return augment_dataset(self, dataset, **arguments)


def _provided(given: object, default: object) -> Any:
    """Return what was given, calling it if it is a function without parameters; the default for None."""
    if isinstance(given, types.FunctionType) and not inspect.signature(given).parameters:
        given = given()
    return default if given is None else given


def _named_descriptors(given: object) -> dict[str, Descriptor]:
    """Return descriptors by name from a mapping (name → descriptor or categories) or a sequence."""
    from pytest_semcov.semantics.descriptors import Descriptor

    if isinstance(given, Mapping):
        return {
            name: item if isinstance(item, Descriptor) else Descriptor(name, item)
            for name, item in given.items()
        }
    if isinstance(given, Sequence):
        return {item.name: item for item in given}
    raise ArgumentError(f"descriptors: need descriptors, or a mapping name → categories, got {given!r}")
