"""Spec strings, and models that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from embedding_stubs import ColourEmbedder

from pytest_semcov.embedding import specs
from pytest_semcov.embedding.specs import ImageTower, ModelSpec, load_embedder, load_encoder, parse_spec
from pytest_semcov.errors import ArgumentError, ModelError, UntrainedWeightsWarning


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("builtin", ModelSpec("builtin")),
        (
            "open_clip:ViT-B-32/laion2b_s34b_b79k",
            ModelSpec("open_clip", "ViT-B-32", tag="laion2b_s34b_b79k"),
        ),
        ("open_clip:ViT-B-32@w/a.pt", ModelSpec("open_clip", "ViT-B-32", path="w/a.pt")),
        ("open_clip:a/b.json@w.safetensors", ModelSpec("open_clip", "a/b.json", path="w.safetensors")),
        ("open_clip:hf-hub:org/model", ModelSpec("open_clip", "hf-hub:org/model")),
        ("open_clip:RN50?untrained", ModelSpec("open_clip", "RN50", untrained=True)),
        ("timm:resnet18.a1_in1k", ModelSpec("timm", "resnet18.a1_in1k")),
        ("timm:resnet18@/x/y@2.pth", ModelSpec("timm", "resnet18", path="/x/y@2.pth")),
        ("torchvision:resnet18?untrained", ModelSpec("torchvision", "resnet18", untrained=True)),
    ],
)
def test_spec_strings(text, spec):
    assert parse_spec(text) == spec
    assert str(spec) == text


def test_paths_may_hold_the_separator(tmp_path):
    folder = tmp_path / "me@work"
    folder.mkdir()
    (folder / "w.pt").touch()
    spec = parse_spec(f"open_clip:{folder}/c.json@{folder}/w.pt")
    assert spec == ModelSpec("open_clip", f"{folder}/c.json", path=f"{folder}/w.pt")


@pytest.mark.parametrize(
    "text",
    [
        *("", "resnet18", "clip:ViT-B-32", "timm:", "timm:@x.pth", "timm:resnet18@", "open_clip:ViT-B-32/"),
        *("open_clip:/tag", "open_clip:ViT-B-32/tag@w.pt", "timm:resnet18@w.pth?untrained"),
    ],
)
def test_other_strings_are_refused_with_the_valid_forms(text):
    with pytest.raises(ArgumentError, match=r"none of the valid forms: 'builtin', 'open_clip:NAME/TAG'"):
        load_embedder(text)


@pytest.mark.parametrize("thing", [3, None, object(), int])
def test_other_objects_are_refused(thing):
    with pytest.raises(ArgumentError, match=r"is no embedder: give a torch module"):
        load_embedder(thing)
    with pytest.raises(ArgumentError, match=r"is no encoder: give 'builtin'"):
        load_encoder(thing)


def test_timm_has_no_text_side():
    with pytest.raises(ArgumentError, match="'timm:resnet18' has no text side"):
        load_encoder("timm:resnet18")


def test_objects_that_keep_the_protocol_pass_through():
    model = ColourEmbedder()
    assert load_embedder(model) is model


class StubEncoder:
    name, fingerprint, trained, input_size, logit_scale, semantics = "stub", "f", True, 8, 100.0, None

    def preprocess(self, image):
        return image

    def encode_images(self, batch):
        return np.ones((len(batch), 2), np.float32)

    def encode_texts(self, texts):
        return np.ones((len(texts), 2), np.float32)


def test_own_encoder_serves_as_embedder():
    encoder = StubEncoder()
    assert load_encoder(encoder) is encoder
    tower = load_embedder(encoder)
    assert isinstance(tower, ImageTower)
    assert (tower.name, tower.fingerprint, tower.input_size) == ("stub", "f", 8)
    assert tower.embed([1, 2]).shape == (2, 2)


def test_untrained_weights_warn_and_are_marked_and_reproducible(monkeypatch):
    import torch

    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    with pytest.warns(
        UntrainedWeightsWarning, match=r"timm:test_resnet has untrained \(random\) weights"
    ) as w:
        model = load_embedder("timm:test_resnet?untrained", device="cpu")
    assert w[0].filename == __file__
    assert not model.trained
    assert torch.rand(1) == expected  # nobody's random numbers were touched
    monkeypatch.setattr(specs, "_loaded", {})  # as in another process
    with pytest.warns(UntrainedWeightsWarning):
        other = load_embedder("timm:test_resnet?untrained", device="cpu")
    assert other is not model
    assert other.fingerprint == model.fingerprint


def test_model_is_loaded_once_until_its_file_changes(tmp_path):
    import timm
    import torch

    path = tmp_path / "w.pth"
    torch.save(timm.create_model("test_resnet").state_dict(), path)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = load_embedder(f"timm:test_resnet@{path}", device="cpu")
    assert torch.rand(1) == expected
    assert load_embedder(f"timm:test_resnet@{path}", device="cpu") is first
    torch.manual_seed(6)
    torch.save(timm.create_model("test_resnet").state_dict(), path)
    os.utime(path, ns=(1, 1))
    second = load_embedder(f"timm:test_resnet@{path}", device="cpu")
    assert second is not first
    assert second.fingerprint != first.fingerprint


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_device_that_is_not_there(device):
    with pytest.raises(ArgumentError, match=f"device '{device}'"):
        load_embedder("timm:test_resnet?untrained", device=device)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("timm:resnet_18", "timm has no model 'resnet_18'; did you mean .*resnet18"),
        ("timm:resnet18.in99k", r"timm knows no such weights; it has .*resnet18\.a1_in1k"),
        ("torchvision:resnet_18", "torchvision has no classifier 'resnet_18'; it has alexnet"),
        ("open_clip:ViT-B-33/openai", "open_clip has no model 'ViT-B-33'; it has .*ViT-B-32"),
        ("open_clip:ViT-B-32/laion", "ViT-B-32 has no tag 'laion'; it has .*laion2b_s34b_b79k"),
        ("open_clip:ViT-B-32", "name the weights, as open_clip:ViT-B-32/TAG with one of openai"),
        ("open_clip:{folder}/c.json", "a configuration needs weights"),
    ],
)
def test_unknown_names_are_answered_with_known_ones(spec, words, tmp_path):
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(ArgumentError, match=words):
        load_embedder(spec.format(folder=tmp_path), device="cpu")


@pytest.mark.parametrize(
    "spec",
    [
        *("timm:resnet18@{folder}/no.pth", "torchvision:resnet18@{folder}/no.pth"),
        *("open_clip:ViT-B-32@{folder}/no.pth", "open_clip:{folder}/no.pth.json@{folder}/no.pth"),
    ],
)
def test_missing_file_is_named(spec, tmp_path):
    with pytest.raises(ModelError, match=rf"no file {tmp_path}/no\.pth"):
        load_embedder(spec.format(folder=tmp_path), device="cpu")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"model_cfg": {"embed_dim": 4}}'])
def test_file_that_is_no_configuration(content, tmp_path):
    (tmp_path / "c.json").write_text(content)
    (tmp_path / "w.pt").touch()
    with pytest.raises(ModelError, match=r"c\.json is no open_clip configuration"):
        load_encoder(f"open_clip:{tmp_path}/c.json@{tmp_path}/w.pt", device="cpu")


NOT_HERE = [
    ("open_clip:ViT-B-32/laion2b_s34b_b79k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"),
    ("open_clip:hf-hub:org/model", "org/model"),
    ("timm:resnet18", "timm/resnet18.a1_in1k"),
]


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
@pytest.mark.parametrize(("spec", "repository"), NOT_HERE)
def test_offline_a_missing_model_is_one_line_and_no_socket(
    spec, repository, variable, monkeypatch, no_network, empty_hub
):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ModelError) as caught:
        load_embedder(spec, device="cpu")
    message = str(caught.value)
    assert "\n" not in message
    assert f"of {repository} (revision main)" in message
    assert str(empty_hub / "hub") in message
    assert "offline mode is set" in message
    assert "HF_HOME" in message
    assert no_network == []


@pytest.mark.parametrize(("spec", "repository"), NOT_HERE)
def test_without_network_a_missing_model_is_one_line_at_once(
    spec, repository, monkeypatch, no_network, empty_hub
):
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    # The library reads the variable when it is imported, so these tests may themselves run offline.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    began = time.monotonic()
    with pytest.raises(ModelError) as caught:
        load_embedder(spec, device="cpu")
    assert time.monotonic() - began < 10
    assert f"of {repository} (revision main)" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert no_network


@pytest.mark.parametrize("offline", ["1", "0"])
def test_missing_torchvision_weights_are_one_line(offline, monkeypatch, no_network, empty_hub):
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    with pytest.raises(ModelError) as caught:
        load_embedder("torchvision:shufflenet_v2_x0_5", device="cpu")
    message = str(caught.value)
    assert str(empty_hub / "torch" / "hub" / "checkpoints") in message
    assert "https://download.pytorch.org/models/shufflenetv2_x0.5" in message
    assert "TORCH_HOME" in message
    assert "\n" not in message
    assert bool(no_network) == (offline == "0")


def test_cached_hub_model_is_loaded_without_network(monkeypatch, no_network, empty_hub):
    import timm
    from safetensors.torch import save_file

    folder = empty_hub / "hub" / "models--timm--test_resnet.r160_in1k"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    save_file(timm.create_model("test_resnet").state_dict(), snapshot / "model.safetensors")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = load_embedder("timm:test_resnet", device="cpu")
    assert model.trained
    assert no_network == []


def test_gated_model_says_what_to_do(monkeypatch, empty_hub):
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError

    def refuse(*arguments, **keywords):
        error = GatedRepoError.__new__(GatedRepoError)
        Exception.__init__(error, "403")
        raise error

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    with pytest.raises(ModelError, match=r"gated: accept its licence at \S+/org/model and set HF_TOKEN"):
        load_embedder("open_clip:hf-hub:org/model", device="cpu")


def test_nothing_heavy_is_imported_before_a_model_is_loaded():
    program = (
        "import sys, pytest_semcov.embedding.specs as specs\n"
        "specs.parse_spec('timm:resnet18')\n"
        "heavy = {'torch', 'numpy', 'PIL', 'torchvision', 'open_clip', 'timm', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "import pytest_semcov.embedding.extraction\n"
        "print(sorted((heavy - {'numpy'}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_label_error_of_a_card():
    from pytest_semcov.embedding.open_clip_encoder import label_errors

    day = {"day": 90, "night": 4, "uncertain": 6}
    night = {"day": 1, "night": 18, "uncertain": 1}
    errors = label_errors([{"day": day, "night": night}, {"day": day, "night": night}], "scenes")
    assert errors["night"] == {"recall": (36, 38), "specificity": (180, 188), "source": "scenes"}
    assert errors["day"] == {"recall": (180, 188), "specificity": (36, 38), "source": "scenes"}
