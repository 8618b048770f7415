"""Tiny random pipelines that make images from images, saved in diffusers' layout.

Nothing here uses the package: what it loads and computes is compared with this.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
from diffusion_pipelines import save_pipeline


def _parts(folder: Path) -> dict[str, Any]:
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTokenizer

    save_pipeline(folder)
    return {
        "vae": AutoencoderKL.from_pretrained(folder / "vae"),
        "unet": UNet2DConditionModel.from_pretrained(folder / "unet"),
        "text_encoder": CLIPTextModel.from_pretrained(folder / "text_encoder"),
        "tokenizer": CLIPTokenizer.from_pretrained(folder / "tokenizer"),
        "scheduler": EulerDiscreteScheduler(steps_offset=1),
    }


def _save(pipeline: Any, folder: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.save_pretrained(folder)
    return folder


def save_image_to_image(folder: Path, *, text_to_image: bool = False, checker: bool = False) -> Path:
    """Save Stable Diffusion as the image-to-image pipeline, or as the text-to-image one it comes from."""
    from diffusers import StableDiffusionImg2ImgPipeline, StableDiffusionPipeline

    kind = StableDiffusionPipeline if text_to_image else StableDiffusionImg2ImgPipeline
    extra = _safety_checker() if checker else {"safety_checker": None, "feature_extractor": None}
    parts = _parts(folder.with_name(f"{folder.name} parts"))
    return _save(kind(**parts, **extra, requires_safety_checker=checker), folder)


def _safety_checker() -> dict[str, Any]:
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
    from transformers import CLIPConfig, CLIPImageProcessor

    tower = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    configuration = CLIPConfig(
        vision_config={**tower, "image_size": 32, "patch_size": 16}, text_config=tower, projection_dim=8
    )
    checker = StableDiffusionSafetyChecker(configuration)
    size = {"height": 32, "width": 32}
    return {
        "safety_checker": checker,
        "feature_extractor": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size),
    }


def save_instruct(folder: Path) -> Path:
    """Save InstructPix2Pix, whose UNet takes the source's latent beside the noise."""
    from diffusers import StableDiffusionInstructPix2PixPipeline, UNet2DConditionModel

    parts = _parts(folder.with_name(f"{folder.name} parts"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        parts["unet"] = UNet2DConditionModel.from_config({**parts["unet"].config, "in_channels": 8})
    pipeline = StableDiffusionInstructPix2PixPipeline(
        **parts, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    return _save(pipeline, folder)


def save_kontext(folder: Path) -> Path:
    """Save Flux Kontext: a transformer that follows instructions."""
    from diffusers import (
        AutoencoderKL,
        FlowMatchEulerDiscreteScheduler,
        FluxKontextPipeline,
        FluxTransformer2DModel,
    )
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel, T5TokenizerFast

    parts = _parts(folder.with_name(f"{folder.name} parts"))
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    letters = [*special, *((letter, -1.0) for letter in " abcdefghijklmnopqrstuvwxyz")]
    words = Tokenizer(models.Unigram(letters, unk_id=2))
    file = folder.with_name(f"{folder.name} words.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    words.save(str(file))
    tokenizer = T5TokenizerFast(tokenizer_file=str(file), extra_ids=0, model_max_length=512)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        transformer = FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=16,
            pooled_projection_dim=16,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=True,
        )
        second = T5EncoderModel(
            T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
        )
        vae = AutoencoderKL(
            block_out_channels=(8, 8),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            layers_per_block=1,
            norm_num_groups=4,
            latent_channels=4,
            shift_factor=0.0,
            scaling_factor=1.0,
            use_quant_conv=False,
            use_post_quant_conv=False,
        )
    pipeline = FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        text_encoder=parts["text_encoder"],
        tokenizer=parts["tokenizer"],
        text_encoder_2=second,
        tokenizer_2=tokenizer,
        transformer=transformer,
    )
    return _save(pipeline, folder)


def save_qwen_edit(folder: Path) -> Path:
    """Save Qwen-Image-Edit, whose text encoder sees the image."""
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImageEditPipeline,
        QwenImageTransformer2DModel,
    )
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2Tokenizer,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    folder.parent.mkdir(parents=True, exist_ok=True)
    vocabulary, merges = (folder.with_name(f"{folder.name} {name}") for name in ("vocab.json", "merges.txt"))
    letters = [
        *(chr(code) for code in range(33, 127)),
        "\u0120",
        "\u010a",
    ]  # the names of space and line break
    vocabulary.write_text(json.dumps({letter: number for number, letter in enumerate(letters)}))
    merges.write_text("#version: 0.2\n")
    tokenizer = Qwen2Tokenizer(str(vocabulary), str(merges))
    names = ("im_start", "im_end", "vision_start", "vision_end", "image_pad", "video_pad")
    special = {name: f"<|{name}|>" for name in names}
    tokenizer.add_special_tokens({"additional_special_tokens": list(special.values())})
    token = {name: tokenizer.convert_tokens_to_ids(text) for name, text in special.items()}
    processor = Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template="not used",
    )
    configuration = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
            "bos_token_id": 0,
            "eos_token_id": 0,
        },
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 2,
            "out_hidden_size": 16,
            "fullatt_block_indexes": [0],
        },
        image_token_id=token["image_pad"],
        video_token_id=token["video_pad"],
        vision_start_token_id=token["vision_start"],
        vision_end_token_id=token["vision_end"],
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        pipeline = QwenImageEditPipeline(
            scheduler=FlowMatchEulerDiscreteScheduler(),
            vae=AutoencoderKLQwenImage(
                base_dim=4,
                z_dim=4,
                dim_mult=[1, 1, 1, 1],
                num_res_blocks=1,
                attn_scales=[],
                temperal_downsample=[False, True, True],
                latents_mean=[0.0] * 4,
                latents_std=[1.0] * 4,
            ),
            text_encoder=Qwen2_5_VLForConditionalGeneration(configuration),
            tokenizer=tokenizer,
            processor=processor,
            transformer=QwenImageTransformer2DModel(
                patch_size=2,
                in_channels=16,
                out_channels=4,
                num_layers=1,
                attention_head_dim=16,
                num_attention_heads=2,
                joint_attention_dim=16,
                axes_dims_rope=(4, 4, 8),
            ),
        )
    return _save(pipeline, folder)


def save_lora(folder: Path, pipeline: Path, *, strength: float = 1.0, other_model: bool = False) -> Path:
    """Save a random LoRA for the UNet of a saved pipeline, or one for a model of another width."""
    from diffusers import StableDiffusionImg2ImgPipeline, UNet2DConditionModel
    from peft import LoraConfig
    from peft.utils import get_peft_model_state_dict

    unet = UNet2DConditionModel.from_pretrained(pipeline / "unet")
    if other_model:
        unet = UNet2DConditionModel.from_config({**unet.config, "block_out_channels": (16, 32)})
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    generator = torch.Generator().manual_seed(5)
    layers = {
        name: strength * torch.randn(tensor.shape, generator=generator)
        for name, tensor in get_peft_model_state_dict(unet).items()
    }
    StableDiffusionImg2ImgPipeline.save_lora_weights(folder, unet_lora_layers=layers)
    return folder / "pytorch_lora_weights.safetensors"


def change_index(folder: Path, **changes: object) -> Path:
    """Change entries of ``model_index.json``."""
    file = folder / "model_index.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    return folder
