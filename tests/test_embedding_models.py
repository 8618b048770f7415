"""Every embedder and encoder: one common suite, and what is particular to each."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder
from PIL import Image

from pytest_semcov.data.decoding import FileSource
from pytest_semcov.data.samples import Sample, SampleDataset
from pytest_semcov.embedding import builtin, specs
from pytest_semcov.embedding.callables import embedder_from_callable
from pytest_semcov.embedding.extraction import extract
from pytest_semcov.embedding.modules import embedder_from_module
from pytest_semcov.embedding.protocols import Embedder, Encoder
from pytest_semcov.embedding.specs import load_embedder, load_encoder
from pytest_semcov.errors import ArgumentError, ModelError, NonFiniteError, UntrainedWeightsWarning

torch = pytest.importorskip("torch")

CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
}
PREPROCESSING = {"mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.4], "resize_mode": "squash"}


def tiny_convolution(*, seed: int = 0) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 5, stride=4),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 6, 3),
        )


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A configuration and two sets of half-precision weights for it."""
    import open_clip
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("clip")
    (folder / "tiny.json").write_text(json.dumps(CONFIG))
    (folder / "hub.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": PREPROCESSING}))
    files = {"config": folder / "tiny.json", "hub_config": folder / "hub.json"}
    open_clip.add_model_config(folder / "tiny.json")
    for seed in (0, 1):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = open_clip.create_model("tiny")
        files[f"weights{seed}"] = folder / f"weights{seed}.safetensors"
        save_file({name: value.half() for name, value in model.state_dict().items()}, files[f"weights{seed}"])
    return files


@pytest.fixture(scope="session")
def tiny_timm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """timm's test_vit, with its classifier, as torch and as safetensors file."""
    import timm
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("timm")
    torch.manual_seed(0)
    state = timm.create_model("test_vit").state_dict()
    torch.save({"state_dict": {f"module.{name}": value for name, value in state.items()}}, folder / "vit.pth")
    save_file(state, folder / "vit.safetensors")
    return {"torch": folder / "vit.pth", "safetensors": folder / "vit.safetensors"}


def quiet(load, *arguments, **keywords):
    """Load a model that is known to be untrained."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrainedWeightsWarning)
        return load(*arguments, **keywords)


def brightness(images):
    return [[np.asarray(image).mean(), np.asarray(image).std(), 1] for image in images]


EMBEDDERS = {
    "stub": lambda files: ColourEmbedder(),
    "open_clip": lambda files: load_embedder(
        f"open_clip:{files['config']}@{files['weights0']}", device="cpu"
    ),
    "timm file": lambda files: load_embedder(f"timm:test_vit@{files['safetensors']}", device="cpu"),
    "timm untrained": lambda files: quiet(load_embedder, "timm:test_efficientnet?untrained", device="cpu"),
    "torchvision": lambda files: quiet(
        load_embedder, "torchvision:shufflenet_v2_x0_5?untrained", device="cpu"
    ),
    "module": lambda files: load_embedder(tiny_convolution()),
    "module layer": lambda files: embedder_from_module(tiny_convolution(), layer="2", input_size=32),
    "module half": lambda files: embedder_from_module(tiny_convolution().bfloat16(), input_size=32),
    "callable": lambda files: embedder_from_callable(brightness, version="1"),
    "builtin": lambda files: load_embedder("builtin", device="cpu"),
}


@pytest.fixture(params=EMBEDDERS)
def make(request, tiny_clip, tiny_timm):
    """Build the embedder, anew on every call where the package does."""
    if request.param == "builtin" and not builtin.card_path().is_file():
        pytest.skip("the built-in model has not been trained")
    files = {**tiny_clip, **tiny_timm}
    return lambda: EMBEDDERS[request.param](files)


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    """Smooth random pictures of several sizes, as photographs are."""
    generator = np.random.default_rng(0)
    coarse = [generator.integers(0, 256, (6, 8, 3), dtype=np.uint8) for _ in range(5)]
    sizes = [(64, 48), (120, 300), (48, 48), (301, 77), (224, 224)]
    return [
        Image.fromarray(c).resize(s, Image.Resampling.BICUBIC) for c, s in zip(coarse, sizes, strict=True)
    ]


def embed(model, pictures):
    return model.embed([model.preprocess(picture) for picture in pictures])


def test_embedder_keeps_the_protocol(make, pictures):
    model = make()
    assert isinstance(model, Embedder)
    same_size = [picture.resize((64, 64)) for picture in pictures]
    rows = embed(model, same_size)
    assert rows.dtype == np.float32
    assert rows.ndim == 2
    assert len(rows) == 5
    assert np.isfinite(rows).all()
    np.testing.assert_array_equal(rows, embed(model, same_size))
    assert len(model.fingerprint) >= 8 or isinstance(model, ColourEmbedder)
    assert model.fingerprint == make().fingerprint
    assert model.name


def test_an_embedding_depends_on_its_image_alone(make, pictures):
    model = make()
    inputs = [model.preprocess(picture.resize((64, 64))) for picture in pictures]
    together = model.embed(inputs)
    alone = np.concatenate([model.embed([item]) for item in inputs])
    reverse = model.embed(inputs[::-1])[::-1]
    # bfloat16 rounds to 8 bits; float32 sums differ in their order only.
    tolerance = 0.02 if "16" in repr(getattr(model, "_dtype", "")) else 1e-4
    scale = np.abs(together).max()
    np.testing.assert_allclose(alone, together, atol=tolerance * scale)
    np.testing.assert_allclose(reverse, together, atol=tolerance * scale)


def test_images_of_any_size_and_shape_become_inputs_of_one_shape(make, pictures):
    model = make()
    if model.input_size is None:
        pytest.skip("this embedder takes images as they are")
    assert embed(model, pictures).shape[0] == 5


# -- modules and functions -----------------------------------------------------------------------------


def test_module_is_used_in_evaluation_mode_and_left_as_it_was(pictures):
    module = tiny_convolution().train()
    module[1].eval()
    statistics = {name: value.clone() for name, value in module.state_dict().items()}
    embed(embedder_from_module(module, input_size=32), pictures)
    assert [part.training for part in module] == [True, False, True, True]
    assert module.training
    assert all(torch.equal(value, statistics[name]) for name, value in module.state_dict().items())


def test_default_preprocessing_is_what_imagenet_models_are_given(pictures):
    from torchvision import transforms

    reference = transforms.Compose(
        [
            transforms.Resize(32, interpolation=transforms.InterpolationMode.BICUBIC),
            transforms.CenterCrop(32),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    model = embedder_from_module(tiny_convolution(), input_size=32)
    for picture in pictures:
        np.testing.assert_allclose(model.preprocess(picture), reference(picture).numpy(), atol=1e-5)


def test_feature_maps_and_tokens_are_averaged(pictures):
    class Maps(torch.nn.Module):
        def forward(self, x):
            return x[:, :, :4, :2]

    class Tokens(torch.nn.Module):
        def forward(self, x):
            return x[:, :, :4, :2].flatten(2).transpose(1, 2)

    inputs = [embedder_from_module(Maps()).preprocess(pictures[0])]
    expected = inputs[0][:, :4, :2].mean(axis=(1, 2))[None]
    np.testing.assert_allclose(embedder_from_module(Maps()).embed(inputs), expected, rtol=1e-5)
    np.testing.assert_allclose(embedder_from_module(Tokens()).embed(inputs), expected, rtol=1e-5)


def test_layer_gives_what_the_submodule_gives(pictures):
    module = tiny_convolution().eval()
    model = embedder_from_module(module, layer="2", input_size=32)
    inputs = [model.preprocess(picture) for picture in pictures]
    with torch.no_grad():
        expected = module[:3](torch.from_numpy(np.stack(inputs))).mean(dim=(2, 3))
    np.testing.assert_allclose(model.embed(inputs), expected.numpy(), rtol=1e-6)


def test_unknown_layer_and_unusable_output_are_named(pictures):
    with pytest.raises(ArgumentError, match=r"Sequential has no layer 'head'; there are 0, 1, 2, 3"):
        embedder_from_module(tiny_convolution(), layer="head")

    class Pair(torch.nn.Module):
        def forward(self, x):
            return x, x

    with pytest.raises(ModelError, match=r"Pair returns a tuple; needed is one tensor"):
        embed(embedder_from_module(Pair()), pictures)


def test_fingerprint_follows_everything_that_embeddings_depend_on():
    def fingerprint(module=None, **keywords):
        return embedder_from_module(module or tiny_convolution(), **keywords).fingerprint

    class Own(torch.nn.Sequential):
        pass

    class OwnOther(torch.nn.Sequential):
        def forward(self, x):
            return -super().forward(x)

    different = [
        fingerprint(),
        fingerprint(tiny_convolution(seed=1)),
        fingerprint(tiny_convolution().half()),
        fingerprint(input_size=64),
        fingerprint(layer="2"),
        fingerprint(preprocess=np.asarray, version="1"),
        fingerprint(preprocess=np.asarray, version="2"),
        fingerprint(Own(*tiny_convolution()), name="same"),
        fingerprint(OwnOther(*tiny_convolution()), name="same"),
    ]
    assert len(set(different)) == len(different)
    assert fingerprint() == fingerprint()


def test_functions_of_one_source_are_told_apart():
    def scaled(factor):
        return lambda images: [[factor * np.asarray(image).mean(), 1] for image in images]

    one, two = scaled(1), scaled(2)
    fingerprints = [embedder_from_callable(function).fingerprint for function in (one, two, one)]
    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_fingerprint_of_a_users_module_follows_its_training():
    module = tiny_convolution()
    model = embedder_from_module(module)
    before = model.fingerprint
    module[0].weight.data[0, 0, 0, 0] += 1
    assert model.fingerprint != before


def test_cache_on_disk_needs_a_describable_preprocessing():
    from torchvision import transforms

    def own(image):
        return np.zeros((3, 8, 8), np.float32)

    compose = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])
    module = tiny_convolution()
    assert embedder_from_module(module).persistent
    assert embedder_from_module(module, preprocess=compose).persistent
    assert embedder_from_module(module, preprocess=own, version="1").persistent
    assert not embedder_from_module(module, preprocess=own).persistent
    assert not embedder_from_module(module, preprocess=transforms.Compose([own])).persistent
    hidden = transforms.Compose([transforms.Lambda(own)])  # prints nothing of the function
    assert not embedder_from_module(module, preprocess=hidden).persistent
    assert not embedder_from_callable(brightness).persistent
    assert embedder_from_callable(brightness, version="1").persistent


def test_fingerprint_of_a_function_follows_its_version_and_size():
    def fingerprint(**keywords):
        return embedder_from_callable(brightness, **keywords).fingerprint

    different = {fingerprint(), fingerprint(version="1"), fingerprint(version="2")}
    different |= {fingerprint(version="1", input_size=64)}
    assert len(different) == 4
    assert fingerprint(version="1") == fingerprint(version="1")


def test_half_precision_overflow_is_computed_again_in_float32(pictures):
    class Overflow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(3000.0))

        def forward(self, x):
            return (x * self.factor * self.factor / self.factor).mean(dim=(2, 3))

    inputs = [embedder_from_module(Overflow()).preprocess(picture) for picture in pictures]
    exact = embedder_from_module(Overflow()).embed(inputs)
    half = embedder_from_module(Overflow().half()).embed(inputs)
    assert not torch.isfinite(Overflow().half()(torch.from_numpy(np.stack(inputs)).half())).all()
    np.testing.assert_allclose(half, exact, rtol=1e-2, atol=1)


def test_module_that_gives_nan_in_float32_too_is_an_error_that_names_the_image(tmp_path, pictures):
    class Broken(torch.nn.Module):
        def forward(self, x):
            rows = x.mean(dim=(2, 3))
            return torch.where(rows.mean(dim=1, keepdim=True) < -1.5, torch.nan, rows)

    for index, colour in enumerate([200, 180, 0, 220]):
        Image.new("RGB", (40, 40), (colour,) * 3).save(tmp_path / f"{index}.png")
    dataset = SampleDataset([Sample(f"{i}.png", FileSource(tmp_path / f"{i}.png")) for i in range(4)])
    with pytest.raises(NonFiniteError, match=r"for 1 of 4 images:\n  2\.png \(.*2\.png\)$"):
        extract(dataset, embedder_from_module(Broken()))


def test_function_may_return_a_tensor():
    model = load_embedder(lambda images: torch.ones(len(images), 2, dtype=torch.float64))
    rows = model.embed([Image.new("RGB", (2, 2))] * 3)
    assert (rows.shape, rows.dtype) == ((3, 2), np.float32)


# -- open_clip -----------------------------------------------------------------------------------------


def test_encoder_gives_what_open_clip_gives(tiny_clip, pictures):
    import open_clip

    spec = f"open_clip:{tiny_clip['config']}@{tiny_clip['weights0']}"
    encoder = load_encoder(spec, device="cpu")
    assert isinstance(encoder, Encoder)
    model, _, transform = open_clip.create_model_and_transforms("tiny", pretrained=str(tiny_clip["weights0"]))
    texts = ["a photo of a road at night", "a photo of a road at day"]
    with torch.no_grad():
        images = model.eval().encode_image(torch.stack([transform(picture) for picture in pictures]))
        words = model.encode_text(open_clip.get_tokenizer("tiny")(texts))
    got = encoder.encode_images([encoder.preprocess(picture) for picture in pictures])
    np.testing.assert_allclose(got, images.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_texts(texts), words.numpy(), rtol=1e-4, atol=1e-5)
    assert encoder.logit_scale == pytest.approx(1 / 0.07, rel=1e-3)  # CLIP's initial temperature
    assert encoder.semantics is None
    assert encoder.label_error("day_night") is None
    assert encoder.trained
    assert encoder.input_size == 32


def test_preprocessing_of_the_configuration_file_is_used(tiny_clip):
    encoder = load_encoder(f"open_clip:{tiny_clip['hub_config']}@{tiny_clip['weights0']}", device="cpu")
    grey = Image.new("RGB", (100, 50), (255, 255, 255))
    values = encoder.preprocess(grey).numpy()
    assert values.shape == (3, 32, 32)
    np.testing.assert_allclose(values[:, 0, 0], (1 - np.array([0.4, 0.5, 0.6])) / [0.2, 0.3, 0.4], rtol=1e-5)
    halves = Image.new("RGB", (100, 50))
    halves.paste((255, 255, 255), (0, 0, 10, 50))  # a centre crop would lose it, squashing keeps it
    assert encoder.preprocess(halves)[0, 16, 0] > encoder.preprocess(halves)[0, 16, 31]


def test_fingerprint_of_an_encoder_follows_weights_and_preprocessing(tiny_clip):
    specs = [
        f"open_clip:{tiny_clip[config]}@{tiny_clip[weights]}"
        for config in ("config", "hub_config")
        for weights in ("weights0", "weights1")
    ]
    fingerprints = [load_encoder(spec, device="cpu").fingerprint for spec in specs]
    assert len(set(fingerprints)) == 4


def test_builtin_model_knows_what_its_card_says(tiny_clip, monkeypatch):
    scenes = {"day": {"day": 9, "night": 1, "uncertain": 0}, "night": {"day": 0, "night": 8, "uncertain": 2}}
    photographs = {
        "day": {"day": 5, "night": 5, "uncertain": 0},
        "night": {"day": 0, "night": 10, "uncertain": 0},
    }
    card = {
        "semantics": {"day_night": {"day": ["by day"], "night": ["at night"]}},
        "preprocess": PREPROCESSING,
        "held_out": {"confusion": {"96": {"day_night": scenes}, "64": {"day_night": scenes}}},
        "photographs": {"day_night": {"data": "20 photographs", "confusion": photographs}},
    }
    monkeypatch.setattr(specs, "_loaded", {})
    monkeypatch.setattr(builtin, "config_path", lambda: tiny_clip["config"])
    monkeypatch.setattr(builtin, "weights_path", lambda: tiny_clip["weights0"])
    monkeypatch.setattr(builtin, "card", lambda: card)
    encoder = load_encoder("builtin", device="cpu")
    assert (encoder.name, encoder.trained) == ("builtin", True)
    assert encoder.semantics == card["semantics"]
    white = encoder.preprocess(Image.new("RGB", (9, 9), "white"))
    np.testing.assert_allclose(white[:, 0, 0], (1 - np.array([0.4, 0.5, 0.6])) / [0.2, 0.3, 0.4], rtol=1e-5)
    rendered, real = encoder.label_error("day_night", rendered=True), encoder.label_error("day_night")
    assert rendered["night"]["recall"] == (16, 16)
    assert rendered["night"]["specificity"] == (18, 20)
    assert real["night"] == {"recall": (10, 10), "specificity": (5, 10), "source": "20 photographs"}
    assert encoder.label_error("clear_rain") is None
    assert encoder.label_error("clear_rain", rendered=True) is None


def test_builtin_model_that_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(specs, "_loaded", {})
    monkeypatch.setattr(builtin, "card", lambda: (tmp_path / "card.json").read_text())
    with pytest.raises(ModelError, match=r"files are missing from this installation.*card\.json"):
        load_encoder("builtin", device="cpu")


def test_text_that_would_be_cut_off_is_an_error(tiny_clip):
    encoder = load_encoder(f"open_clip:{tiny_clip['config']}@{tiny_clip['weights0']}", device="cpu")
    fits = " ".join(["road"] * 10)  # with the two special tokens, twelve
    assert encoder.encode_texts([fits]).shape == (1, 16)
    with pytest.raises(ArgumentError, match=r"takes 12 tokens and would cut off this text of 13: 'road road"):
        encoder.encode_texts(["short", f"{fits} road"])


def test_texts_are_encoded_once_and_given_in_order(tiny_clip, monkeypatch):
    encoder = load_encoder(f"open_clip:{tiny_clip['config']}@{tiny_clip['weights1']}", device="cpu")
    rows = encoder.encode_texts(["x", "y", "x"])
    np.testing.assert_array_equal(rows[0], rows[2])
    monkeypatch.setattr(encoder.model, "encode_text", lambda tokens: pytest.fail("encoded again"))
    np.testing.assert_array_equal(encoder.encode_texts(["y", "x"]), rows[[1, 0]])


def test_embedder_of_an_encoder_shares_model_and_fingerprint(tiny_clip, tmp_path, pictures):
    spec = f"open_clip:{tiny_clip['config']}@{tiny_clip['weights0']}"
    encoder, embedder = load_encoder(spec, device="cpu"), load_embedder(spec, device="cpu")
    assert embedder.encoder is encoder is load_encoder(spec, device="cpu")
    assert embedder.fingerprint == encoder.fingerprint
    pictures[0].save(tmp_path / "a.png")
    from pytest_semcov.embedding.cache import EmbeddingCache

    dataset = SampleDataset([Sample("a.png", FileSource(tmp_path / "a.png"))])
    cache = EmbeddingCache(tmp_path / "cache")
    first = extract(dataset, encoder, kind="encode", cache=cache)
    assert len(list((tmp_path / "cache").rglob("*.sqlite"))) == 1
    second = extract(dataset, load_embedder(encoder), cache=cache)
    assert len(list((tmp_path / "cache").rglob("*.sqlite"))) == 1
    np.testing.assert_array_equal(first.array, second.array)


def test_weights_of_another_architecture_are_refused(tiny_clip, tiny_timm):
    with pytest.raises(ModelError, match=r"do not load into tiny-.*(?i:missing key)"):
        load_encoder(f"open_clip:{tiny_clip['config']}@{tiny_timm['safetensors']}", device="cpu")


def test_weights_are_trained_with_their_own_activation(monkeypatch, tiny_clip):
    """OpenAI's tags say quick GELU; the named configuration does not."""
    import open_clip

    from pytest_semcov.embedding import hub

    wanted = {}

    def create_model(name, **keywords):
        wanted.update(keywords, name=name)
        raise RuntimeError("far enough")

    monkeypatch.setattr(hub, "fetch", lambda *arguments, **keywords: tiny_clip["weights0"])
    monkeypatch.setattr(open_clip, "create_model", create_model)
    for tag, quick in (("openai", True), ("laion2b_s34b_b79k", False)):
        with pytest.raises(ModelError, match="far enough"):
            load_encoder(f"open_clip:ViT-B-32/{tag}", device="cpu")
        assert wanted["force_quick_gelu"] is quick
        assert wanted["weights_only"] is True


def test_local_weights_of_a_named_model_get_the_preprocessing_of_its_published_ones():
    from pytest_semcov.embedding.open_clip_model import _common_preprocessing

    assert _common_preprocessing("ViT-B-16-SigLIP")["mean"] == (0.5, 0.5, 0.5)
    assert _common_preprocessing("ViT-B-16-SigLIP")["resize_mode"] == "squash"
    assert _common_preprocessing("ViT-L-14") == {}  # its published weights differ: CLIP's own


class Words:
    """Stands in for a tokenizer of the transformers library: one token a word."""

    def __call__(self, text, *, add_special_tokens=True, truncation=False):
        class Encoded:
            input_ids = [0] * (len(text.split()) + (2 if add_special_tokens else 0))

        return Encoded


@pytest.mark.parametrize(("mode", "count"), [("", 5), ("clips", 6)])
def test_tokens_are_counted_for_other_tokenizers(mode, count):
    from pytest_semcov.embedding.open_clip_encoder import token_count

    class Tokenizer:
        tokenizer_mode = mode
        tokenizer = Words()

        @staticmethod
        def clean_fn(text):
            return text.replace("-", " ")

    assert token_count(Tokenizer(), "a-b c") == count


# -- timm and torchvision ------------------------------------------------------------------------------


def test_timm_weights_are_the_same_from_either_kind_of_file(tiny_timm, pictures):
    import timm

    models = [load_embedder(f"timm:test_vit@{path}", device="cpu") for path in tiny_timm.values()]
    assert models[0].fingerprint == models[1].fingerprint
    reference = timm.create_model("test_vit", checkpoint_path=str(tiny_timm["safetensors"]), num_classes=1000)
    config = timm.data.resolve_data_config({}, model=reference)
    transform = timm.data.create_transform(**config, is_training=False)
    with torch.no_grad():
        features = reference.eval().forward_features(torch.stack([transform(p) for p in pictures]))
        expected = reference.forward_head(features, pre_logits=True).numpy()
    np.testing.assert_allclose(embed(models[0], pictures), expected, rtol=1e-4, atol=1e-5)
    assert models[0].trained


def test_timm_weights_that_do_not_fit_are_listed(tiny_timm, tmp_path):
    from safetensors.torch import load_file, save_file

    state = load_file(tiny_timm["safetensors"])
    state["blocks.0.surplus"] = torch.zeros(1)
    state["norm.weight"] = torch.zeros(3)
    del state["patch_embed.proj.bias"]
    save_file(state, tmp_path / "odd.safetensors")
    with pytest.raises(ModelError) as caught:
        load_embedder(f"timm:test_vit@{tmp_path / 'odd.safetensors'}", device="cpu")
    message = str(caught.value)
    assert "1 missing: patch_embed.proj.bias" in message
    assert "1 left over: blocks.0.surplus" in message
    assert "1 of another shape: norm.weight (3,) instead of (64,)" in message


def test_file_that_could_run_code_is_not_opened(tmp_path):
    torch.save(tiny_convolution(), tmp_path / "whole.pth")
    with pytest.raises(ModelError, match=r"not opened, because it could run code; save the weights alone"):
        load_embedder(f"timm:test_vit@{tmp_path / 'whole.pth'}", device="cpu")


def test_damaged_weights_file_is_named(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"\x00" * 10)
    with pytest.raises(ModelError, match=r"cannot read weights from .*a\.safetensors"):
        load_embedder(f"timm:test_vit@{tmp_path / 'a.safetensors'}", device="cpu")


def test_timm_reproduces_published_features(day_night_folder, lite0_weights):
    """Reference: stored pooled features of the same weights.

    Only images whose centre crop is unambiguous: of an odd margin the reference rounds the half pixel down,
    timm to the even side, and a crop that lies one pixel off changes an embedding by a cosine of 0.013.
    The tolerance 1e-5 is room for other builds of decoder and convolution.
    """
    model = load_embedder(f"timm:tf_efficientnet_lite0@{lite0_weights}", device="cpu")
    assert model.input_size == 256

    with np.load(day_night_folder / "embeddings_efficientnet_lite0.npz") as stored:
        paths, reference = stored["path"].tolist(), stored["embeddings"]
    every = [Sample(path, FileSource(day_night_folder / path)) for path in paths]
    unambiguous = [i for i in range(0, 240, 7) if every[i].load().width % 2 == 0]
    chosen = unambiguous[:12]
    embeddings = extract(SampleDataset(every).subset(chosen), model, batch_size=6, normalise=False)
    expected = reference[chosen]
    lengths = np.linalg.norm(expected, axis=1)
    cosine = (embeddings.array * expected).sum(axis=1) / np.linalg.norm(embeddings.array, axis=1) / lengths
    assert cosine.min() > 1 - 1e-5
    np.testing.assert_allclose(np.linalg.norm(embeddings.array, axis=1), lengths, rtol=1e-3)


def test_torchvision_weights_from_a_file(tmp_path, pictures):
    from torchvision import models

    torch.manual_seed(0)
    reference = models.shufflenet_v2_x0_5(weights=None)
    torch.save(reference.state_dict(), tmp_path / "net.pth")
    model = load_embedder(f"torchvision:shufflenet_v2_x0_5@{tmp_path / 'net.pth'}", device="cpu")
    assert model.trained
    assert model.input_size == 256
    transform = models.ShuffleNet_V2_X0_5_Weights.DEFAULT.transforms()
    inputs = torch.stack([transform(picture) for picture in pictures])
    with torch.no_grad():
        expected = reference.eval()(inputs).numpy()
        head = torch.nn.functional.linear(
            torch.from_numpy(embed(model, pictures)), reference.fc.weight, reference.fc.bias
        )
    np.testing.assert_allclose(head.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_torchvision_model_without_a_linear_head_says_what_to_do():
    with pytest.raises(ModelError, match=r"does not end in a linear layer.*embedder_from_module"):
        load_embedder("torchvision:squeezenet1_1?untrained", device="cpu")
