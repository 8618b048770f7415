"""CycleGAN-Turbo's files: what is malformed, hostile or not there is one line and nothing else."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusion_pipelines import published_checkpoint, save_pipeline
from safetensors.torch import save_file

from pytest_semcov import CycleGanTurboTranslator
from pytest_semcov.embedding import hub
from pytest_semcov.errors import ModelError
from pytest_semcov.translation.cyclegan_turbo_files import (
    Notes,
    fill,
    read_checkpoint,
    saved_names,
    write_checkpoint,
)
from pytest_semcov.translation.cyclegan_turbo_network import (
    AdapterLayout,
    CycleGanTurboNetwork,
    build_network,
    published_layout,
)
from pytest_semcov.translation.diffusion_base import encode_caption, load_base

ENTRY = "semcov_cyclegan_turbo"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pipeline(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def published(base: Path) -> dict[str, Any]:
    return published_checkpoint(base)


@pytest.fixture
def content(published: dict[str, Any]) -> dict[str, Any]:
    """A copy to spoil; both entries of the autoencoders are one, as in the published files."""
    copied = {
        key: value.copy() if isinstance(value, dict | list) else value for key, value in published.items()
    }
    copied["sd_vae_enc"] = copied["sd_vae_dec"]
    return copied


@pytest.fixture(scope="module")
def network(
    base: Path, published: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> CycleGanTurboNetwork:
    path = tmp_path_factory.mktemp("file") / "turbo.pkl"
    torch.save(published, path)
    checkpoint = read_checkpoint(path, spec="test")
    made = build_network(load_base(str(base), spec="test"), checkpoint.layout, spec="test")
    fill(made, checkpoint, spec="test")
    return made


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_checkpoint(path, spec="spec")
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def set_key(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.update({key: value})


def first(content: dict[str, Any], key: str) -> str:
    return next(name for name in content[key] if ".lora_A." in name)


def spoil_rank(content: dict[str, Any]) -> None:
    name = first(content, "sd_encoder")
    content["sd_encoder"][name] = content["sd_encoder"][name].repeat(
        2, *[1] * (content["sd_encoder"][name].dim() - 1)
    )


def spoil_numbers(content: dict[str, Any]) -> None:
    name = first(content, "sd_decoder")
    content["sd_decoder"][name] = torch.full_like(content["sd_decoder"][name], float("nan"))


def spoil_kind(content: dict[str, Any]) -> None:
    name = first(content, "sd_other")
    content["sd_other"][name] = content["sd_other"][name].to(torch.int64)


def split_autoencoders(content: dict[str, Any]) -> None:
    content["sd_vae_enc"] = {**content["sd_vae_enc"], "vae.more": torch.zeros(1)}


class TestPublishedFiles:
    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda content: content.pop("sd_other"), "missing: sd_other; left over: none"),
            (set_key("optimizer", {}), "missing: none; left over: optimizer"),
            (set_key("rank_unet", 0), "rank_unet is 0, need int"),
            (set_key("rank_vae", True), "rank_vae is True, need int"),
            (set_key("rank_unet", "8"), "rank_unet is '8', need int"),
            (set_key("vae_lora_target_modules", [1]), "vae_lora_target_modules is not a list of names"),
            (set_key("sd_encoder", [1]), "sd_encoder is list, need dict"),
            (set_key("rank_unet", 1 << 40), "its rank should be 1099511627776"),
            (spoil_rank, "its rank should be 3"),
            (spoil_numbers, "holds values that are not finite numbers"),
            (spoil_kind, "is not a tensor of real numbers"),
            (split_autoencoders, "sd_vae_enc and sd_vae_dec hold different names"),
        ],
    )
    def test_malformed(
        self, content: dict[str, Any], tmp_path: Path, spoil: Callable[[dict[str, Any]], object], message: str
    ) -> None:
        spoil(content)
        torch.save(content, tmp_path / "turbo.pkl")

        found = refused(tmp_path / "turbo.pkl")

        assert message in found
        assert "is no CycleGAN-Turbo checkpoint" in found

    def test_not_a_dictionary(self, tmp_path: Path) -> None:
        torch.save([1, 2], tmp_path / "turbo.pkl")

        assert "it holds a list" in refused(tmp_path / "turbo.pkl")

    def test_code_is_not_run(self, content: dict[str, Any], tmp_path: Path) -> None:
        class Hostile:
            def __reduce__(self) -> tuple[object, tuple[object, ...]]:
                return (Path.touch, (tmp_path / "ran",))

        torch.save({**content, "rank_unet": Hostile()}, tmp_path / "turbo.pkl")

        assert "could run code" in refused(tmp_path / "turbo.pkl")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("kept", [0, 100, -100])
    def test_damaged(self, content: dict[str, Any], tmp_path: Path, kept: int) -> None:
        path = tmp_path / "turbo.pkl"
        torch.save(content, path)
        path.write_bytes(path.read_bytes()[:kept])

        assert "is damaged" in refused(path)

    def test_missing(self, tmp_path: Path) -> None:
        assert "no file" in refused(tmp_path / "turbo.pkl")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tensors: tensors.pop("vae.decoder.conv_norm_out.weight"), "1 missing: vae_a2b.decoder"),
            (lambda tensors: tensors.update({"vae.new": torch.zeros(1)}), "1 left over: vae_a2b.new"),
            (
                lambda tensors: tensors.update({"vae_b2a.decoder.conv_norm_out.weight": torch.zeros(3)}),
                "1 of another shape: vae_b2a.decoder.conv_norm_out.weight (3,) instead of (8,)",
            ),
        ],
    )
    def test_no_key_is_missing_or_left_over(
        self,
        network: CycleGanTurboNetwork,
        content: dict[str, Any],
        tmp_path: Path,
        change: Callable[[dict[str, torch.Tensor]], object],
        message: str,
    ) -> None:
        change(content["sd_vae_dec"])
        torch.save(content, tmp_path / "turbo.pkl")
        before = network.modules["vae_a2b"].state_dict()["decoder.conv_norm_out.bias"].clone()

        with pytest.raises(ModelError) as caught:
            fill(network, read_checkpoint(tmp_path / "turbo.pkl", spec="spec"), spec="spec")

        assert message in str(caught.value)
        after = network.modules["vae_a2b"].state_dict()["decoder.conv_norm_out.bias"]
        assert torch.equal(after, before)

    def test_another_base_s_checkpoint(self, content: dict[str, Any], base: Path, tmp_path: Path) -> None:
        content["l_modules_others"] = ["nowhere.conv"]
        content["sd_other"] = {}
        torch.save(content, tmp_path / "turbo.pkl")

        with pytest.raises(ModelError, match=r"adapter default_others \(of nowhere\.conv .*is this the base"):
            CycleGanTurboTranslator.load(
                tmp_path / "turbo.pkl",
                base=base,
                direction="a2b",
                prompt="night",
                source="day",
                target="night",
                device="cpu",
            )

    def test_every_key_is_used_and_written_again(
        self, network: CycleGanTurboNetwork, published: dict[str, Any], tmp_path: Path
    ) -> None:
        from safetensors.torch import load_file

        path = write_checkpoint(
            tmp_path / "turbo.safetensors", network, layout_of(published), read_notes(published, tmp_path)
        )

        written = load_file(path)
        lora = [
            (f"unet.{name.removesuffix('.weight')}.{adapter}.weight", tensor)
            for adapter, key in (
                ("default_encoder", "sd_encoder"),
                ("default_decoder", "sd_decoder"),
                ("default_others", "sd_other"),
            )
            for name, tensor in published[key].items()
        ]
        prefixes = {"vae": "vae_a2b", "vae_b2a": "vae_b2a"}
        vae = [
            (f"{prefixes[name.partition('.')[0]]}.{name.partition('.')[2]}", tensor)
            for name, tensor in published["sd_vae_dec"].items()
        ]
        for name, tensor in (*lora, *vae):
            assert torch.equal(written.pop(name), tensor), name
        assert set(written) == {"unet.conv_in.base_layer.weight", "unet.conv_in.base_layer.bias"}


def layout_of(published: dict[str, Any]) -> AdapterLayout:
    return AdapterLayout(
        published["rank_unet"],
        {
            "default_encoder": published["l_target_modules_encoder"],
            "default_decoder": published["l_target_modules_decoder"],
            "default_others": published["l_modules_others"],
        },
        published["rank_vae"],
        published["vae_lora_target_modules"],
    )


def read_notes(published: dict[str, Any], folder: Path) -> Any:
    torch.save(published, folder / "night2day.pkl")
    return read_checkpoint(folder / "night2day.pkl", spec="test").notes


def header(**changes: object) -> dict[str, Any]:
    layout = {
        "unet_rank": 2,
        "unet_targets": {"default_encoder": ["a"], "default_decoder": ["b"], "default_others": ["c"]},
        "vae_rank": 2,
        "vae_targets": ["d"],
        "vae_alpha": 8,
    }
    return {
        "version": 1,
        "layout": layout,
        "direction": "a2b",
        "captions": {"a2b": "night"},
        "categories": ["day", "night"],
        "prep": "pad",
        "base": "x",
        **changes,
    }


class TestOwnFiles:
    def write(self, path: Path, text: str | None) -> Path:
        tensors = {"unet.a.lora_A.default_encoder.weight": torch.zeros(2, 3)}
        save_file(tensors, path, metadata=None if text is None else {ENTRY: text})
        return path

    def test_well_formed(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "turbo.safetensors", json.dumps(header()))

        checkpoint = read_checkpoint(path, spec="spec")

        assert checkpoint.notes.captions == {"a2b": "night"}
        assert checkpoint.notes.fitted_on == frozenset()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"version": 2}, "version 2, this package reads version 1"),
            ({"version": None}, "version None"),
            ({"layout": None}, "the layout in its header is not one of adapters"),
            ({"layout": {"unet_rank": 2}}, "the layout in its header is not one of adapters"),
            ({"direction": "ab"}, "direction is 'ab'"),
            ({"direction": [1] * 10_000}, "direction is list"),
            ({"captions": {"ab": "night"}}, "captions in its header are not texts by direction"),
            ({"captions": ["night"]}, "captions in its header are not texts by direction"),
            ({"categories": ["day"]}, "categories in its header are not two names"),
            ({"prep": 3}, "is not a text"),
            ({"semantic": 3}, "is not a text"),
            ({"fitted_on": "x"}, "fitted_on or fitted_groups in its header are not lists of texts"),
            ({"fitted_groups": {"a2b": [1]}}, "fitted_on or fitted_groups in its header"),
            ({"training": 3}, "training in its header is not a table"),
        ],
    )
    def test_malformed_header(self, tmp_path: Path, changes: dict[str, object], message: str) -> None:
        path = self.write(tmp_path / "turbo.safetensors", json.dumps(header(**changes)))

        found = refused(path)

        assert message in found
        assert len(found) < 600

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (None, f"its header has no {ENTRY}"),
            ("", f"its header has no {ENTRY}"),
            ("[1]", f"its header has no {ENTRY}"),
            ("{", "its header is not JSON"),
            ("[" * 100_000, "its header is not JSON"),
        ],
    )
    def test_no_header(self, tmp_path: Path, text: str | None, message: str) -> None:
        assert message in refused(self.write(tmp_path / "turbo.safetensors", text))

    @pytest.mark.parametrize("content", [b"", b"no tensors", b"\xff" * 100, b"\x00" * 8])
    def test_damaged(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "turbo.safetensors"
        path.write_bytes(content)

        assert "cannot be read" in refused(path)

    def test_cut_off(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "turbo.safetensors", json.dumps(header()))
        path.write_bytes(path.read_bytes()[:-4])

        assert "cannot be read" in refused(path)

    def test_interrupted_writing_leaves_the_old_file(
        self,
        network: CycleGanTurboNetwork,
        published: dict[str, Any],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        path = tmp_path / "turbo.safetensors"
        path.write_bytes(b"old")

        def full(tensors: object, place: str, metadata: object) -> None:
            Path(place).write_bytes(b"half")
            raise OSError("no space left on device")

        monkeypatch.setattr("safetensors.torch.save_file", full)
        with pytest.raises(OSError, match="no space left"):
            write_checkpoint(path, network, layout_of(published), Notes())

        assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [(path.name, b"old")]


class TestNetwork:
    def test_widths_of_the_skip_connections(self, network: CycleGanTurboNetwork) -> None:
        state = network.modules["vae_a2b"].state_dict()

        shapes = [
            tuple(state[f"decoder.skip_conv_{number}.base_layer.weight"].shape) for number in (1, 2, 3, 4)
        ]
        assert shapes == [(16, 16, 1, 1), (16, 16, 1, 1), (16, 8, 1, 1), (16, 8, 1, 1)]

    def test_scales_of_the_adapters(self, network: CycleGanTurboNetwork) -> None:
        from peft.tuners.lora import LoraLayer

        scales = {
            part: {
                scale
                for module in network.modules[part].modules()
                if isinstance(module, LoraLayer)
                for scale in module.scaling.values()
            }
            for part in ("unet", "vae_a2b", "vae_b2a")
        }
        assert scales == {"unet": {1.0}, "vae_a2b": {2.0}, "vae_b2a": {2.0}}

    def test_layout_is_the_published_one(self, base: Path, published: dict[str, Any]) -> None:
        model = load_base(str(base), spec="test")

        made = published_layout(model, unet_rank=3, vae_rank=4)

        wanted = layout_of(published)
        for adapter, names in wanted.unet_targets.items():
            assert sorted(made.unet_targets[adapter]) == sorted(names)
        assert sorted(made.vae_targets) == sorted(wanted.vae_targets)
        assert (made.vae_rank, made.vae_alpha) == (4, 8)

    def test_saved_are_the_autoencoders_and_what_training_changes(
        self, network: CycleGanTurboNetwork
    ) -> None:
        left = set(network.modules.state_dict()) - saved_names(network)

        assert left
        assert all(name.startswith("unet.") and ".lora_" not in name for name in left)
        assert not any(name.startswith("unet.conv_in.") for name in left)


class TestBase:
    @pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
    def test_offline_a_missing_base_is_one_line_and_no_socket(
        self,
        monkeypatch: pytest.MonkeyPatch,
        no_network: list[object],
        empty_hub: Path,
        variable: str,
    ) -> None:
        monkeypatch.setenv(variable, "1")

        with pytest.raises(ModelError) as caught:
            load_base("stabilityai/sd-turbo", spec="cyclegan-turbo:stabilityai/sd-turbo", revision="v1")

        message = str(caught.value)
        assert "\n" not in message
        assert "of stabilityai/sd-turbo (revision v1)" in message
        assert str(empty_hub / "hub") in message
        assert "offline mode is set" in message
        assert "give a local folder" in message
        assert no_network == []

    def test_without_network_it_is_one_line_at_once(
        self, monkeypatch: pytest.MonkeyPatch, no_network: list[object], empty_hub: Path
    ) -> None:
        for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        began = time.monotonic()

        with pytest.raises(ModelError) as caught:
            load_base("stabilityai/sd-turbo", spec="spec")

        assert time.monotonic() - began < 10
        assert "of stabilityai/sd-turbo (revision main)" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert no_network

    def test_neither_folder_nor_repository(self, empty_hub: Path) -> None:
        with pytest.raises(ModelError, match="it is no folder here, nor a repository name"):
            load_base("no/such/folder", spec="spec")

    def test_folder_that_lacks_files(self, base: Path, tmp_path: Path) -> None:
        folder = shutil.copytree(base, tmp_path / "base")
        (folder / "unet" / "diffusion_pytorch_model.safetensors").unlink()

        with pytest.raises(ModelError, match=r"has no unet/diffusion_pytorch_model\.safetensors; give"):
            load_base(str(folder), spec="spec")

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("unet/diffusion_pytorch_model.safetensors", b"nothing"),
            ("unet/config.json", b"{"),
            ("scheduler/scheduler_config.json", b"{"),
        ],
    )
    def test_damaged_parts(self, base: Path, tmp_path: Path, file: str, content: bytes) -> None:
        folder = shutil.copytree(base, tmp_path / "base")
        (folder / file).write_bytes(content)

        with pytest.raises(ModelError) as caught:
            load_base(str(folder), spec="spec")

        assert str(folder / Path(file).parent) in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_missing_weight(self, base: Path, tmp_path: Path) -> None:
        from safetensors.torch import load_file

        folder = shutil.copytree(base, tmp_path / "base")
        path = folder / "text_encoder" / "model.safetensors"
        tensors = load_file(path)
        lacking = sorted(tensors)[0]
        del tensors[lacking]
        save_file(tensors, path, metadata={"format": "pt"})

        with pytest.raises(ModelError, match="lacks weights of its CLIPTextModel"):
            encode_caption(load_base(str(folder), spec="spec"), "night", spec="spec")

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"prediction_type": "flow"}, "predicts 'flow': not supported"),
            ({"rescale_betas_zero_snr": True}, "without any signal"),
            ({"thresholding": True}, "thresholds"),
        ],
    )
    def test_schedulers_that_one_step_cannot_invert(
        self, base: Path, tmp_path: Path, changes: dict[str, object], message: str
    ) -> None:
        folder = shutil.copytree(base, tmp_path / "base")
        path = folder / "scheduler" / "scheduler_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        model = load_base(str(folder), spec="spec")

        with pytest.raises(ModelError, match=message):
            build_network(model, published_layout(model, unet_rank=1, vae_rank=1), spec="spec")


class TestFetchFolder:
    def cached(self, empty_hub: Path, files: list[str]) -> Path:
        """Put files of a repository into the cache as the hub's library lays them out."""
        repository = empty_hub / "hub" / "models--org--model"
        snapshot = repository / "snapshots" / ("0" * 40)
        for file in files:
            (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
            (snapshot / file).write_text("content")
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0" * 40)
        return snapshot

    def test_cached_folder_needs_no_network(self, empty_hub: Path, no_network: list[object]) -> None:
        snapshot = self.cached(empty_hub, ["unet/config.json", "tokenizer/vocab.json"])

        found = hub.fetch_folder("spec", "org/model", ["unet/config.json", "tokenizer/*"])

        assert found == snapshot
        assert no_network == []

    def test_half_a_folder_names_what_is_missing(
        self, empty_hub: Path, no_network: list[object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        self.cached(empty_hub, ["unet/config.json"])

        with pytest.raises(ModelError) as caught:
            hub.fetch_folder("spec", "org/model", ["unet/config.json", "tokenizer/*"])

        assert "spec: tokenizer/* of org/model (revision main)" in str(caught.value)
        assert no_network == []

    def test_downloads_what_the_hub_has(self, empty_hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            monkeypatch.delenv(variable, raising=False)
        asked = []
        cached = huggingface_hub.snapshot_download

        class Entry:
            def __init__(self, name: str) -> None:
                self.rfilename = name

        class Listing:
            siblings = (Entry("unet/config.json"), Entry("other.bin"))

        def download(repository: str, **options: Any) -> str:
            if options.get("local_files_only"):
                return cached(repository, **options)
            asked.append((repository, options))
            return str(empty_hub)

        monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: Listing())
        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

        assert hub.fetch_folder("spec", "org/model", ["unet/*"], revision="v2") == empty_hub
        assert asked == [("org/model", {"revision": "v2", "allow_patterns": ["unet/*"]})]
        with pytest.raises(ModelError, match=r"vae/\* of org/model .*the repository has no such file"):
            hub.fetch_folder("spec", "org/model", ["unet/*", "vae/*"])
