"""Loading encoders from open_clip: named models of the hub, local weights, and the built-in model."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding import hub
from pytest_semcov.embedding.open_clip_encoder import OpenClipEncoder
from pytest_semcov.embedding.running import seeded
from pytest_semcov.embedding.weights import existing_file
from pytest_semcov.errors import ArgumentError, ModelError

if TYPE_CHECKING:
    import torch

    from pytest_semcov.embedding.specs import ModelSpec

_HUB_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
_HUB_PREFIX = "hf-hub:"


def load_open_clip(spec: ModelSpec, device: torch.device) -> OpenClipEncoder:
    """Load an open_clip model.

    Parameters
    ----------
    spec
        ``name`` is one of ``open_clip.list_models()``, a configuration file, or ``hf-hub:ORG/REPOSITORY``;
        weights come from ``path`` or the pretrained ``tag``.
    device
        Where it runs.

    Raises
    ------
    ArgumentError
        If open_clip has no such model or tag; the message lists those that exist.
    ModelError
        If configuration or weights are not to be had or do not fit.
    """
    import open_clip

    text = str(spec)
    if spec.name.startswith(_HUB_PREFIX):
        repository = spec.name.removeprefix(_HUB_PREFIX)
        config = hub.fetch(text, repository, ["open_clip_config.json"])
        weights = None if spec.untrained else spec.path or hub.fetch(text, repository, _HUB_FILES)
        return from_config(config, weights, spec=text, name=text, device=device)
    if spec.name.endswith(".json"):
        config = existing_file(spec.name, spec=text)
        if spec.path is None and not spec.untrained:
            raise ArgumentError(f"{text}: a configuration needs weights: open_clip:{spec.name}@WEIGHTS")
        return from_config(config, spec.path, spec=text, name=f"open_clip:{config.stem}", device=device)
    if open_clip.get_model_config(spec.name) is None:
        raise ArgumentError(
            f"{text}: open_clip has no model {spec.name!r}; it has {', '.join(open_clip.list_models())}"
        )
    if spec.tag is not None:
        return _from_tag(spec, device)
    if spec.path is None and not spec.untrained:
        tags = open_clip.list_pretrained_tags_by_model(spec.name)
        raise ArgumentError(
            f"{text}: name the weights, as open_clip:{spec.name}/TAG with one of "
            f"{', '.join(tags) or '(none)'}, or as open_clip:{spec.name}@PATH"
        )
    return _create(
        spec.name,
        spec.path,
        preprocessing=_common_preprocessing(spec.name),
        spec=text,
        name=f"open_clip:{spec.name}",
        device=device,
    )


def load_builtin(device: torch.device) -> OpenClipEncoder:
    """Load the image-text model that ships with this package, with its card.

    Raises
    ------
    ModelError
        If its files are missing from the installation.
    """
    from pytest_semcov.embedding import builtin

    try:
        card = builtin.card()
    except OSError as error:
        raise ModelError(f"builtin: the model's files are missing from this installation: {error}") from error
    return from_config(
        Path(builtin.config_path()),
        Path(builtin.weights_path()),
        spec="builtin",
        name="builtin",
        device=device,
        preprocessing=card["preprocess"],
        card=card,
    )


def from_config(
    config_path: Path,
    weights: str | Path | None,
    *,
    spec: str,
    name: str,
    device: torch.device,
    preprocessing: Mapping[str, Any] | None = None,
    card: Mapping[str, Any] | None = None,
) -> OpenClipEncoder:
    """Build an encoder from an open_clip configuration file and a weights file.

    Parameters
    ----------
    config_path
        JSON: either the model configuration itself or ``{"model_cfg": ..., "preprocess_cfg": ...}`` as in
        hub repositories. A tokenizer of the transformers library is taken from the same folder if its files
        lie there.
    weights
        Weights file; ``None`` = random weights.
    spec, name
        For messages and reports.
    device
        Where it runs.
    preprocessing
        open_clip's preprocessing keys (``size``, ``mean``, ``std``, ``interpolation``, ``resize_mode``);
        ``None`` = those of the file, else CLIP's.
    card
        Model card.

    Raises
    ------
    ModelError
        If the file is no configuration, or weights do not fit.
    """
    import open_clip

    try:
        content = json.loads(Path(config_path).read_text(encoding="utf-8"))
        own_preprocessing = content.pop("preprocess_cfg", {})
        config = content.get("model_cfg", content)
        if not {"embed_dim", "vision_cfg", "text_cfg"} <= set(config):
            raise ValueError("it lacks embed_dim, vision_cfg or text_cfg")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ModelError(f"{spec}: {config_path} is no open_clip configuration: {error}") from error
    if (
        config["text_cfg"].get("hf_tokenizer_name")
        and (config_path.parent / "tokenizer_config.json").is_file()
    ):
        config["text_cfg"]["hf_tokenizer_name"] = str(config_path.parent)
    # open_clip finds configurations by file stem in one registry: a stem with the content's hash cannot
    # collide with its own names or another file called config.json.
    registered = json.dumps(config, sort_keys=True)
    stem = f"{config_path.stem}-{hashlib.sha256(registered.encode()).hexdigest()[:16]}"
    if stem not in open_clip.list_models():
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / f"{stem}.json"
            copy.write_text(registered, encoding="utf-8")
            open_clip.add_model_config(copy)
    return _create(
        stem,
        weights,
        preprocessing=own_preprocessing if preprocessing is None else preprocessing,
        spec=spec,
        name=name,
        device=device,
        card=card,
    )


def _from_tag(spec: ModelSpec, device: torch.device) -> OpenClipEncoder:
    import open_clip

    text = str(spec)
    tag = open_clip.get_pretrained_cfg(spec.name, spec.tag)
    if not tag:
        tags = open_clip.list_pretrained_tags_by_model(spec.name)
        raise ArgumentError(
            f"{text}: {spec.name} has no tag {spec.tag!r}; it has {', '.join(tags) or 'none'}"
        )
    repository, _, filename = tag.get("hf_hub", "").rpartition("/")
    if not repository:
        raise ModelError(
            f"{text}: these weights are published at {tag.get('url')} only; download them and give the file "
            f"with open_clip:{spec.name}@PATH"
        )
    files: Sequence[str] = _HUB_FILES if not filename else (f"{Path(filename).stem}.safetensors", filename)
    weights = hub.fetch(text, repository, files)
    return _create(
        spec.name,
        weights,
        preprocessing=tag,
        spec=text,
        name=text,
        device=device,
        # Weights trained with the approximate GELU need it, whatever the named configuration says.
        quick_gelu=bool(tag.get("quick_gelu", False)),
    )


def _common_preprocessing(name: str) -> Mapping[str, Any]:
    """Return the preprocessing that all published weights share, ``{}`` (CLIP's) if they differ."""
    import open_clip

    keys = ("mean", "std", "interpolation", "resize_mode")
    published = [
        {key: tag[key] for key in keys if tag.get(key) is not None}
        for tag in (
            open_clip.get_pretrained_cfg(name, tag) for tag in open_clip.list_pretrained_tags_by_model(name)
        )
    ]
    return published[0] if published and all(entry == published[0] for entry in published) else {}


def _create(
    registered: str,
    weights: str | Path | None,
    *,
    preprocessing: Mapping[str, Any],
    spec: str,
    name: str,
    device: torch.device,
    quick_gelu: bool = False,
    card: Mapping[str, Any] | None = None,
) -> OpenClipEncoder:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    path = None if weights is None else existing_file(weights, spec=spec)
    config = open_clip.get_model_config(registered)
    try:
        with seeded():
            model = open_clip.create_model(
                registered,
                pretrained=None if path is None else str(path),
                require_pretrained=path is not None,
                pretrained_text=False,
                precision="fp32",
                force_quick_gelu=quick_gelu,
                force_preprocess_cfg=dict(preprocessing),
                weights_only=True,
            )
    except Exception as error:
        shown = " ".join(str(error).split())[:600]
        raise ModelError(f"{spec}: weights {path} do not load into {registered}: {shown}") from error
    final = open_clip.get_model_preprocess_cfg(model)
    size = final["size"]
    return OpenClipEncoder(
        model,
        preprocess=image_transform_v2(PreprocessCfg(**final), is_train=False),
        tokenizer=_tokenizer(registered, config, spec),
        description={
            "library": "open_clip",
            "architecture": config,
            "quick_gelu": quick_gelu,
            "preprocessing": {key: str(value) for key, value in final.items()},
        },
        name=name,
        input_size=size if isinstance(size, int) else max(size),
        device=device,
        trained=path is not None,
        card=card,
    )


def _tokenizer(registered: str, config: Mapping[str, Any], spec: str) -> Any:
    import open_clip

    source = config["text_cfg"].get("hf_tokenizer_name")
    if not source:
        return open_clip.get_tokenizer(registered)
    try:
        local = {"local_files_only": True} if hub.offline() else {}
        return open_clip.get_tokenizer(registered, **local)
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise hub.missing(spec, source, ["the tokenizer"], reason) from error
