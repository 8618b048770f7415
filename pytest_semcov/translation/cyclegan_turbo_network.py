"""CycleGAN-Turbo's network (Parmar et al., "One-Step Image Translation with Text-to-Image Models", 2024).

A one-step diffusion model as a generator: an autoencoder makes a latent of the image, the UNet denoises it
once at the last timestep under the caption of the target domain, the autoencoder decodes the result. Skip
connections carry the encoder's activations to the decoder, so that small things stay where they are. One UNet
serves both directions; each direction has its own autoencoder. All training is in LoRA adapters, the skip
connections and the UNet's first convolution.

Unlike the published code, nothing is patched and no state is kept between calls: :func:`encode` returns the
skips and :func:`decode` takes them. The latent is the posterior's mean and not a sample of it, so an output
depends on its image alone.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pytest_semcov.embedding.running import seeded
from pytest_semcov.errors import ModelError

if TYPE_CHECKING:
    import torch

    from pytest_semcov.translation.diffusion_base import DiffusionBase

DIRECTIONS = ("a2b", "b2a")

UNET_ADAPTERS = ("default_encoder", "default_decoder", "default_others")
VAE_ADAPTER = "vae_skip"

PUBLISHED_VAE_ALPHA = 8
"""The published code leaves the autoencoders' LoRA alpha at peft's default; with rank 4 their scale is 2."""

_SKIP_START = 1e-5

_UNET_MODULES = (
    "to_k",
    "to_q",
    "to_v",
    "to_out.0",
    "conv",
    "proj_in",
    "proj_out",
    "ff.net.2",
    "ff.net.0.proj",
)
"""Parts of the names of the UNet's modules that get adapters; those with ``norm`` in their names do not."""

_VAE_MODULES = (
    *("conv1", "conv2", "conv_in", "conv_shortcut", "conv", "conv_out"),
    *("to_k", "to_q", "to_v", "to_out.0"),
)


@dataclass(frozen=True, slots=True)
class AdapterLayout:
    """Where the LoRA adapters sit, and how large they are.

    Parameters
    ----------
    unet_rank
        Rank of the UNet's adapters; their alpha is the rank, so their scale is 1.
    unet_targets
        Adapter (of :data:`UNET_ADAPTERS`) → names of the modules that it changes.
    vae_rank, vae_alpha
        Rank and alpha of the autoencoders' adapters; their scale is ``vae_alpha / vae_rank``.
    vae_targets
        Last parts of the names of the autoencoders' modules that have adapters.
    """

    unet_rank: int
    unet_targets: Mapping[str, Sequence[str]]
    vae_rank: int
    vae_targets: Sequence[str]
    vae_alpha: int = PUBLISHED_VAE_ALPHA

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python."""
        return asdict(self)


def published_layout(base: DiffusionBase, *, unet_rank: int, vae_rank: int) -> AdapterLayout:
    """Return the layout of adapters that the published training gives a base model.

    Parameters
    ----------
    base
        Says which modules there are.
    unet_rank, vae_rank
        As in :class:`AdapterLayout`; published: 128 and 4.
    """
    import torch

    targets: dict[str, list[str]] = {adapter: [] for adapter in UNET_ADAPTERS}
    for name, module in base.unet.named_modules():
        adapted = isinstance(module, torch.nn.Conv2d | torch.nn.Linear) and "norm" not in name
        if not adapted or not any(part in name for part in _UNET_MODULES):
            continue
        if "down_blocks" in name or "conv_in" in name:
            targets["default_encoder"].append(name)
        else:
            targets["default_decoder" if "up_blocks" in name else "default_others"].append(name)
    skips = [f"skip_conv_{number + 1}" for number in range(len(base.vae.config.block_out_channels))]
    return AdapterLayout(unet_rank, targets, vae_rank, [*_VAE_MODULES, *skips])


def trainable(network: CycleGanTurboNetwork) -> dict[str, torch.nn.Parameter]:
    """Return what training changes, each parameter once, by its name in ``network.modules``.

    These are the adapters, the skip connections and the UNet's first convolution. The published code means to
    train the skip connections too, but peft freezes all but their adapters.
    """
    return {
        name: parameter
        for name, parameter in network.modules.named_parameters()
        if ".lora_" in name or ".skip_conv_" in name or name.startswith("unet.conv_in.")
    }


@dataclass(frozen=True, slots=True, eq=False)
class CycleGanTurboNetwork:
    """The parts that translate; see :func:`generate`.

    Parameters
    ----------
    modules
        A ``ModuleDict`` with ``unet``, ``vae_a2b`` and ``vae_b2a``. The UNet may be in half precision; the
        autoencoders are in float32, because they overflow in half precision.
    alpha
        Share of signal in the last timestep's variance (``alphas_cumprod``).
    prediction
        What the UNet predicts: ``"epsilon"``, ``"v_prediction"`` or ``"sample"``.
    clip
        Range that the denoised latent is cut to, if the scheduler says so.
    timestep
        The last timestep.
    """

    modules: torch.nn.ModuleDict
    alpha: float
    prediction: str
    clip: float | None
    timestep: int

    @property
    def multiple(self) -> int:
        """Height and width of images must be multiples of this (8 for Stable Diffusion)."""
        vae: Any = self.modules["vae_a2b"]
        return int(2 ** (len(vae.config.block_out_channels) - 1))


def build_network(base: DiffusionBase, layout: AdapterLayout, *, spec: str) -> CycleGanTurboNetwork:
    """Add skip connections and adapters to a base model, whose parts are used, not copied.

    The UNet's adapters change nothing before weights are loaded or trained.

    Raises
    ------
    ModelError
        If the base has none of the modules that an adapter changes, or a scheduler that is not supported.
    """
    import torch

    alpha, prediction, clip = schedule_of(base.scheduler, spec)
    autoencoders = (base.vae, copy.deepcopy(base.vae))
    with seeded():
        for adapter in UNET_ADAPTERS:
            _add_adapter(
                base.unet, adapter, layout.unet_targets[adapter], layout.unet_rank, layout.unet_rank, spec
            )
        _activate(base.unet, UNET_ADAPTERS)
        for vae in autoencoders:
            add_skips(vae)
            _add_adapter(vae, VAE_ADAPTER, layout.vae_targets, layout.vae_rank, layout.vae_alpha, spec)
    parts = {
        "unet": base.unet,
        **{f"vae_{each}": vae for each, vae in zip(DIRECTIONS, autoencoders, strict=True)},
    }
    modules = torch.nn.ModuleDict(parts).requires_grad_(False).eval()
    return CycleGanTurboNetwork(
        modules, alpha, prediction, clip, int(base.scheduler.config.num_train_timesteps) - 1
    )


def generate(
    network: CycleGanTurboNetwork, images: torch.Tensor, caption: torch.Tensor, direction: str
) -> torch.Tensor:
    """Translate images.

    Parameters
    ----------
    network
        See :class:`CycleGanTurboNetwork`.
    images
        ``(n, 3, height, width)`` float32 in [-1, 1]; height and width are multiples of ``network.multiple``.
    caption
        ``(1, tokens, width)``: what the text encoder makes of the target domain's caption.
    direction
        ``"a2b"`` or ``"b2a"``: which autoencoder.

    Returns
    -------
    tensor
        Of the shape of ``images``, float32 in [-1, 1].
    """
    import torch

    unet: Any = network.modules["unet"]
    vae = network.modules[f"vae_{direction}"]
    latent, skips = encode(vae, images)
    timesteps = torch.full((len(images),), network.timestep, device=images.device, dtype=torch.long)
    precision = next(unet.parameters()).dtype
    captions = caption.expand(len(images), -1, -1).to(precision)
    predicted = unet(latent.to(precision), timesteps, encoder_hidden_states=captions).sample
    # In float32 even under autocast: little signal at the last timestep magnifies rounding errors.
    clean = denoised(network, latent.float(), predicted.float())
    return decode(vae, clean, skips).clamp(-1, 1)


def denoised(network: CycleGanTurboNetwork, latent: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    """Return the clean latent that the UNet's prediction means, in closed form.

    With ``a`` the share of signal: ``(z - sqrt(1 - a) e) / sqrt(a)`` for a prediction ``e`` of the noise (Ho
    et al., "Denoising Diffusion Probabilistic Models", 2020, equation 15), ``sqrt(a) z - sqrt(1 - a) v`` for
    one of the velocity. One step from the last timestep to the end gives just that.

    Parameters
    ----------
    network
        Says what the UNet predicts.
    latent, predicted
        ``(n, channels, height, width)``: the UNet's input and output.
    """
    signal, noise = math.sqrt(network.alpha), math.sqrt(1 - network.alpha)
    if network.prediction == "epsilon":
        clean = (latent - noise * predicted) / signal
    elif network.prediction == "v_prediction":
        clean = signal * latent - noise * predicted
    else:
        clean = predicted
    return clean if network.clip is None else clean.clamp(-network.clip, network.clip)


def encode(vae: Any, images: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Encode images.

    Parameters
    ----------
    vae
        An ``AutoencoderKL``.
    images
        ``(n, 3, height, width)`` in [-1, 1].

    Returns
    -------
    latent
        Mean of the posterior, scaled as the UNet takes it.
    skips
        What enters each of the encoder's blocks, from fine to coarse.
    """
    encoder = vae.encoder
    hidden = encoder.conv_in(images)
    skips = []
    for block in encoder.down_blocks:
        skips.append(hidden)
        hidden = block(hidden)
    hidden = encoder.conv_out(encoder.conv_act(encoder.conv_norm_out(encoder.mid_block(hidden))))
    moments = hidden if vae.quant_conv is None else vae.quant_conv(hidden)
    mean, _ = moments.chunk(2, dim=1)
    return mean * vae.config.scaling_factor, skips


def decode(vae: Any, latent: torch.Tensor, skips: Sequence[torch.Tensor]) -> torch.Tensor:
    """Decode a latent with the activations that :func:`encode` returned with it.

    Parameters
    ----------
    vae
        An ``AutoencoderKL`` with skip connections (:func:`add_skips`).
    latent
        Scaled as the UNet gives it.
    skips
        From fine to coarse; each is added, through its connection, to what enters a block of the decoder.

    Returns
    -------
    tensor
        ``(n, 3, height, width)``, not clamped.
    """
    decoder = vae.decoder
    latent = latent / vae.config.scaling_factor
    hidden = decoder.conv_in(latent if vae.post_quant_conv is None else vae.post_quant_conv(latent))
    hidden = decoder.mid_block(hidden)
    for number, (block, skip) in enumerate(zip(decoder.up_blocks, reversed(skips), strict=True), start=1):
        hidden = block(hidden + getattr(decoder, f"skip_conv_{number}")(skip))
    image: torch.Tensor = decoder.conv_out(decoder.conv_act(decoder.conv_norm_out(hidden)))
    return image


def add_skips(vae: Any) -> None:
    """Give an ``AutoencoderKL``'s decoder the skip connections ``skip_conv_1`` (coarsest) and following.

    They are 1 x 1 convolutions without bias, and start at 1e-5 as published: next to nothing, yet with a
    gradient. Their widths follow from the autoencoder's configuration.
    """
    import torch

    widths = list(vae.config.block_out_channels)
    from_encoder = [widths[0], *widths[:-1]]
    to_decoder = [*widths[1:], widths[-1]]
    for number, (before, after) in enumerate(
        zip(reversed(from_encoder), reversed(to_decoder), strict=True), start=1
    ):
        connection = torch.nn.Conv2d(before, after, kernel_size=1, bias=False)
        torch.nn.init.constant_(connection.weight, _SKIP_START)
        vae.decoder.add_module(f"skip_conv_{number}", connection)


def _add_adapter(
    module: torch.nn.Module, name: str, targets: Sequence[str], rank: int, alpha: int, spec: str
) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=rank, lora_alpha=alpha, init_lora_weights="gaussian", target_modules=list(targets))
    try:
        with warnings.catch_warnings():
            # Several adapters in one model are meant.
            warnings.filterwarnings("ignore", message="Already found a `peft_config`")
            inject_adapter_in_model(config, module, name)
    except ValueError as error:
        raise ModelError(
            f"{spec}: the adapter {name} (of {', '.join(list(targets)[:3])} ...) does not fit the base's "
            f"{type(module).__name__}; is this the base that the checkpoint was trained on?"
        ) from error


def _activate(module: torch.nn.Module, adapters: Sequence[str]) -> None:
    """Use several adapters at once: adding one switches those before it off."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for layer in module.modules():
        if isinstance(layer, BaseTunerLayer):
            layer.set_adapter(list(adapters))


def schedule_of(scheduler: Any, spec: str) -> tuple[float, str, float | None]:
    """Return what one step with a scheduler comes to: signal share, kind of prediction, clipping range.

    Parameters
    ----------
    scheduler
        diffusers' ``DDPMScheduler``.
    spec
        What is being loaded, for messages.

    Raises
    ------
    ModelError
        If one step cannot be had in closed form.
    """
    config = scheduler.config
    alpha = float(scheduler.alphas_cumprod[-1])
    if config.prediction_type not in ("epsilon", "v_prediction", "sample"):
        raise ModelError(f"{spec}: the base's scheduler predicts {config.prediction_type!r}: not supported")
    if config.thresholding or (alpha <= 0 and config.prediction_type == "epsilon"):
        raise ModelError(
            f"{spec}: the base's scheduler thresholds, or predicts noise without any signal "
            "(rescale_betas_zero_snr): one step cannot invert that; use a base like stabilityai/sd-turbo"
        )
    return alpha, config.prediction_type, float(config.clip_sample_range) if config.clip_sample else None
