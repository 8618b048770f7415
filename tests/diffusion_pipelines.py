"""Tiny random pipelines in diffusers' layout, and CycleGAN-Turbo checkpoints on them.

Nothing here uses the package: what it reads and computes is compared with this.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

VAE_RANK, VAE_SCALE = 4, 2.0
UNET_RANK = 3

_VAE_TARGETS = [
    *("conv1", "conv2", "conv_in", "conv_shortcut", "conv", "conv_out"),
    *("skip_conv_1", "skip_conv_2", "skip_conv_3", "skip_conv_4", "to_k", "to_q", "to_v", "to_out.0"),
]
_UNET_TARGETS = (
    *("to_k", "to_q", "to_v", "to_out.0", "conv", "conv1", "conv2", "conv_in", "conv_shortcut"),
    *("conv_out", "proj_in", "proj_out", "ff.net.2", "ff.net.0.proj"),
)
_UNET_PARTS = {
    "encoder": ("l_target_modules_encoder", "sd_encoder"),
    "decoder": ("l_target_modules_decoder", "sd_decoder"),
    "others": ("l_modules_others", "sd_other"),
}


def save_pipeline(folder: Path, *, width: int = 8, seed: int = 0, shallow: bool = False) -> Path:
    """Build a pipeline like Stable Diffusion Turbo's with random weights, and save it.

    A shallow one halves images once instead of three times, and computes in a fraction of the time.
    """
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        unet = UNet2DConditionModel(
            block_out_channels=(width,) if shallow else (width, 2 * width),
            layers_per_block=1,
            sample_size=8,
            norm_num_groups=4,
            down_block_types=("CrossAttnDownBlock2D",)
            if shallow
            else ("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D",) if shallow else ("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=16,
            attention_head_dim=2,
            use_linear_projection=True,
        )
        vae = AutoencoderKL(
            block_out_channels=(width, 2 * width) if shallow else (width, 2 * width, 2 * width, 2 * width),
            down_block_types=("DownEncoderBlock2D",) * (2 if shallow else 4),
            up_block_types=("UpDecoderBlock2D",) * (2 if shallow else 4),
            layers_per_block=1,
            norm_num_groups=4,
            sample_size=32,
        )
        text = CLIPTextModel(
            CLIPTextConfig(
                vocab_size=60,
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=77,
                bos_token_id=0,
                eos_token_id=1,
                pad_token_id=1,
            )
        )
    unet.save_pretrained(folder / "unet")
    vae.save_pretrained(folder / "vae")
    text.save_pretrained(folder / "text_encoder")
    DDPMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False
    ).save_pretrained(folder / "scheduler")
    _save_tokenizer(folder / "tokenizer")
    return folder


def _save_tokenizer(folder: Path) -> None:
    """Write a tokenizer of single letters, as the files that any version reads."""
    folder.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    (folder / "vocab.json").write_text(json.dumps({word: number for number, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    special = {
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
    }
    configuration = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(configuration))
    (folder / "special_tokens_map.json").write_text(json.dumps(special))


def load_parts(folder: Path) -> tuple[Any, Any]:
    """Return UNet and autoencoder of a saved pipeline."""
    from diffusers import AutoencoderKL, UNet2DConditionModel

    return (
        UNet2DConditionModel.from_pretrained(folder / "unet").eval(),
        AutoencoderKL.from_pretrained(folder / "vae").eval(),
    )


def published_checkpoint(folder: Path, *, seed: int = 1, strength: float = 0.2) -> dict[str, Any]:
    """Return a random checkpoint in the published layout for a saved pipeline.

    ``strength`` scales the LoRA weights and the skip connections; 0 makes a checkpoint that changes nothing.
    """
    unet, vae = load_parts(folder)
    generator = torch.Generator().manual_seed(seed)
    content: dict[str, Any] = {
        "rank_unet": UNET_RANK,
        "rank_vae": VAE_RANK,
        "vae_lora_target_modules": list(_VAE_TARGETS),
    }
    for part, (names_key, weights_key) in _UNET_PARTS.items():
        modules = {
            name: module
            for name, module in unet.named_modules()
            if isinstance(module, nn.Conv2d | nn.Linear)
            and _part(name) == part
            and any(name == end or name.endswith(f".{end}") for end in _UNET_TARGETS)
        }
        content[names_key] = list(modules)
        content[weights_key] = {
            f"{name}.{side}.weight": weight
            for name, module in modules.items()
            for side, weight in _lora(module, UNET_RANK, strength, generator).items()
        }
    whole: dict[str, torch.Tensor] = {}
    for prefix in ("vae", "vae_b2a"):
        state = _autoencoder_state(vae, strength, generator)
        whole.update({f"{prefix}.{name}": tensor for name, tensor in state.items()})
    content["sd_vae_enc"] = content["sd_vae_dec"] = whole
    return content


def _part(name: str) -> str:
    if name.startswith("down_blocks.") or name == "conv_in":
        return "encoder"
    return "decoder" if name.startswith("up_blocks.") else "others"


def _lora(
    module: nn.Module, rank: int, strength: float, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    rows, columns, *kernel = weight.shape
    down = torch.randn(rank, columns, *kernel, generator=generator) / rank
    up = torch.randn(rows, rank, *([1] * len(kernel)), generator=generator) * strength / rank
    return {"lora_A": down, "lora_B": up}


def _autoencoder_state(vae: Any, strength: float, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Return an autoencoder's weights under the names that they have with adapters and skip connections."""
    modules = {
        name: module for name, module in vae.named_modules() if isinstance(module, nn.Conv2d | nn.Linear)
    }
    widths = list(vae.config.block_out_channels)
    for number, (before, after) in enumerate(
        [(widths[2], widths[3]), (widths[1], widths[3]), (widths[0], widths[2]), (widths[0], widths[1])], 1
    ):
        connection = nn.Conv2d(before, after, 1, bias=False)
        connection.weight.data = torch.randn(after, before, 1, 1, generator=generator) * strength
        modules[f"decoder.skip_conv_{number}"] = connection
    state = {}
    adapted = {
        name: module
        for name, module in modules.items()
        if any(name.endswith(f".{end}") for end in _VAE_TARGETS)
    }
    for name, tensor in vae.state_dict().items():
        stem, _, last = name.rpartition(".")
        state[f"{stem}.base_layer.{last}" if stem in adapted else name] = tensor
    for name, module in adapted.items():
        if "skip_conv" in name:
            state[f"{name}.base_layer.weight"] = module.weight.data
        for side, weight in _lora(module, VAE_RANK, strength, generator).items():
            state[f"{name}.{side}.vae_skip.weight"] = weight
    return state


def reference(
    folder: Path,
    checkpoint: dict[str, Any],
    image: torch.Tensor,
    caption: torch.Tensor,
    direction: str,
) -> torch.Tensor:
    """Return what a checkpoint makes of an image, by diffusers' own forward passes.

    LoRA weights are added to the weights they adapt, hooks carry the skips, and the scheduler makes the step.
    """
    from diffusers import DDPMScheduler

    unet, vae = load_parts(folder)
    lora = {
        name: value
        for key in ("sd_encoder", "sd_decoder", "sd_other")
        for name, value in checkpoint[key].items()
    }
    for name in {name.rpartition(".lora_")[0] for name in lora}:
        change = _product(lora[f"{name}.lora_A.weight"], lora[f"{name}.lora_B.weight"])
        unet.get_submodule(name).weight.data += change
    prefix = {"a2b": "vae.", "b2a": "vae_b2a."}[direction]
    state = {n.removeprefix(prefix): v for n, v in checkpoint["sd_vae_dec"].items() if n.startswith(prefix)}
    merged = {}
    for name, tensor in state.items():
        if ".lora_" in name:
            continue
        plain = name.replace(".base_layer.", ".")
        stem = plain.removesuffix(".weight")
        if f"{stem}.lora_A.vae_skip.weight" in state and plain.endswith(".weight"):
            tensor = tensor + VAE_SCALE * _product(
                state[f"{stem}.lora_A.vae_skip.weight"], state[f"{stem}.lora_B.vae_skip.weight"]
            )
        merged[plain] = tensor
    connections = [merged.pop(f"decoder.skip_conv_{number}.weight") for number in (1, 2, 3, 4)]
    vae.load_state_dict(merged)
    scheduler = DDPMScheduler.from_pretrained(folder / "scheduler", timestep_spacing="trailing")
    scheduler.set_timesteps(1)
    seen: list[torch.Tensor] = []
    with torch.no_grad(), ExitStack() as hooks:
        for block in vae.encoder.down_blocks:
            handle = block.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
            hooks.callback(handle.remove)
        for block, connection in zip(vae.decoder.up_blocks, connections, strict=True):
            handle = block.register_forward_pre_hook(
                lambda _, given, weight=connection: (
                    given[0] + nn.functional.conv2d(seen.pop(), weight),
                    *given[1:],
                )
            )
            hooks.callback(handle.remove)
        latent = vae.encode(image).latent_dist.mean * vae.config.scaling_factor
        predicted = unet(latent, 999, encoder_hidden_states=caption).sample
        latent = scheduler.step(predicted, torch.tensor(999), latent).prev_sample
        made: torch.Tensor = vae.decode(latent / vae.config.scaling_factor).sample.clamp(-1, 1)
    return made


def _product(down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.einsum("or,r...->o...", up.flatten(1), down)
