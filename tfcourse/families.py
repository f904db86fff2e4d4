"""Families of public checkpoints: their settings, and their names for our tensors.

The names are those in the files that Hugging Face's `save_pretrained` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tfcourse.architectures import DecoderLM, Encoder, EncoderDecoder, Model, VisionTransformer
from tfcourse.config import ModelConfig
from tfcourse.positions import angle_table

Settings = dict[str, Any]
Names = Iterator[tuple[str, list[str], str]]
"""Our tensor, theirs, and how: "same", "transposed", "stacked" by rows, or "patches"."""


@dataclass(frozen=True)
class Family:
    """How one family of public checkpoints maps to a model of this course."""

    architecture: type[Model]
    names: Callable[[ModelConfig], Names]
    fields: dict[str, str]  # our field, their setting of the same meaning
    always: Settings  # our fields that the family leaves no choice about
    supported: Settings  # their settings that we can follow only with these values
    read: Callable[[Settings], Settings] = lambda theirs: {}  # our fields that need more
    write: Callable[[ModelConfig], Settings] = lambda ours: {}
    prefix: str = ""  # files of some versions lack it
    unused: str = r"(?!)"  # tensors that carry nothing that the model needs

    def read_config(self, theirs: Settings) -> ModelConfig:
        """Translate their settings.

        Raises:
            ValueError: a setting is missing, or has a value that this package cannot follow.
        """
        for name, wanted in self.supported.items():
            choices = wanted if isinstance(wanted, tuple) else (wanted,)
            if name in theirs and theirs[name] not in choices:
                only = " or ".join(repr(choice) for choice in choices)
                raise ValueError(f"{name}={theirs[name]!r} is not supported; only {only} is")
        if missing := [name for name in self.fields.values() if theirs.get(name) is None]:
            raise ValueError(f"config.json has no {missing[0]}")
        ours = {field: theirs[name] for field, name in self.fields.items()}
        given = ours | self.always | self.read(theirs)
        return ModelConfig(**{name: value for name, value in given.items() if value is not None})

    def write_config(self, ours: ModelConfig) -> Settings:
        """Translate our config back."""
        theirs = {name: getattr(ours, field) for field, name in self.fields.items()}
        required = {
            name: wanted[-1] if isinstance(wanted, tuple) else wanted
            for name, wanted in self.supported.items()
        }
        return required | theirs | self.write(ours)


def _both(ours: str, theirs: list[str], how: str = "same", bias: bool = True) -> Names:
    """A weight, and the bias beside it, which is a vector and never transposed."""
    yield f"{ours}.weight", [f"{name}.weight" for name in theirs], how
    if bias:
        how = "stacked" if how == "stacked" else "same"
        yield f"{ours}.bias", [f"{name}.bias" for name in theirs], how


# --- GPT-2


def _names_gpt2(c: ModelConfig) -> Names:
    yield "stack.embedding.weight", ["transformer.wte.weight"], "same"
    yield "stack.positions.embedding.weight", ["transformer.wpe.weight"], "same"
    yield from _both("stack.final_norm", ["transformer.ln_f"])
    for i in range(c.n_layers):
        ours, theirs = f"stack.blocks.{i}", f"transformer.h.{i}"
        yield from _both(f"{ours}.attention.norm", [f"{theirs}.ln_1"])
        yield from _both(f"{ours}.feed_forward.norm", [f"{theirs}.ln_2"])
        for mine, other in (
            ("attention.sublayer.qkv", "attn.c_attn"),
            ("attention.sublayer.out", "attn.c_proj"),
            ("feed_forward.sublayer.up", "mlp.c_fc"),
            ("feed_forward.sublayer.down", "mlp.c_proj"),
        ):
            yield from _both(f"{ours}.{mine}", [f"{theirs}.{other}"], "transposed")


GPT2 = Family(
    DecoderLM,
    _names_gpt2,
    fields={
        "vocab_size": "vocab_size",
        "max_len": "n_positions",
        "d_model": "n_embd",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "norm_eps": "layer_norm_epsilon",
    },
    always={"activation": "gelu_tanh", "bias": True},
    supported={
        "activation_function": ("gelu_pytorch_tanh", "gelu_new"),
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    read=lambda theirs: {"d_ff": theirs.get("n_inner")},
    write=lambda ours: {"n_inner": ours.d_ff},
    prefix="transformer.",
    unused=r"attn\.(masked_)?bias$|^lm_head\.weight$",  # masks of old versions; the tied head
)


# --- Llama


def _names_llama(c: ModelConfig) -> Names:
    yield "stack.embedding.weight", ["model.embed_tokens.weight"], "same"
    yield from _both("stack.final_norm", ["model.norm"], bias=False)
    if not c.tie_embeddings:
        yield "head.weight", ["lm_head.weight"], "same"
    for i in range(c.n_layers):
        ours, theirs = f"stack.blocks.{i}", f"model.layers.{i}"
        for mine, others, how in (
            ("attention.norm", ["input_layernorm"], "same"),
            ("attention.sublayer.qkv", [f"self_attn.{n}_proj" for n in "qkv"], "stacked"),
            ("attention.sublayer.out", ["self_attn.o_proj"], "same"),
            ("feed_forward.norm", ["post_attention_layernorm"], "same"),
            ("feed_forward.sublayer.gate_up", ["mlp.gate_proj", "mlp.up_proj"], "stacked"),
            ("feed_forward.sublayer.down", ["mlp.down_proj"], "same"),
        ):
            names = [f"{theirs}.{other}" for other in others]
            yield from _both(f"{ours}.{mine}", names, how, bias=False)


def _read_rope(theirs: Settings) -> Settings:
    rope = theirs.get("rope_parameters") or theirs.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(f"rope_type={kind!r} is not supported; only 'default' is")
    return {
        "rope_theta": rope.get("rope_theta", theirs.get("rope_theta", 10_000.0)),
        "n_kv_heads": theirs.get("num_key_value_heads"),
        "head_dim": theirs.get("head_dim"),
        "tie_embeddings": theirs.get("tie_word_embeddings", False),
    }


def _write_rope(ours: ModelConfig) -> Settings:
    return {
        "rope_parameters": {"rope_type": "default", "rope_theta": ours.rope_theta},
        "num_key_value_heads": ours.n_kv_heads,
        "head_dim": ours.head_dim,
        "tie_word_embeddings": ours.tie_embeddings,
    }


LLAMA = Family(
    DecoderLM,
    _names_llama,
    fields={
        "vocab_size": "vocab_size",
        "max_len": "max_position_embeddings",
        "d_model": "hidden_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "d_ff": "intermediate_size",
        "norm_eps": "rms_norm_eps",
    },
    always={"norm": "rmsnorm", "activation": "swiglu", "position": "rope"},
    supported={"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    read=_read_rope,
    write=_write_rope,
    prefix="model.",
    unused=r"rotary_emb\.inv_freq$|^lm_head\.weight$",  # computed here; the tied head
)


# --- BERT and ViT: the same layer, after and before its norms

ENCODER = {
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "d_ff": "intermediate_size",
    "norm_eps": "layer_norm_eps",
}


def _names_layer(i: int, theirs: str, reader: str, norms: tuple[str, str]) -> Names:
    ours = f"stack.blocks.{i}"
    yield from _both(f"{ours}.attention.norm", [norms[0]])
    yield from _both(f"{ours}.feed_forward.norm", [norms[1]])
    qkv = [f"{reader}.{name}" for name in ("query", "key", "value")]
    yield from _both(f"{ours}.attention.sublayer.qkv", qkv, "stacked")
    yield from _both(f"{ours}.attention.sublayer.out", [f"{theirs}.attention.output.dense"])
    yield from _both(f"{ours}.feed_forward.sublayer.up", [f"{theirs}.intermediate.dense"])
    yield from _both(f"{ours}.feed_forward.sublayer.down", [f"{theirs}.output.dense"])


def _names_bert(c: ModelConfig) -> Names:
    yield "stack.embedding.weight", ["bert.embeddings.word_embeddings.weight"], "same"
    positions = "bert.embeddings.position_embeddings.weight"
    yield "stack.positions.embedding.weight", [positions], "same"
    yield "stack.token_types.weight", ["bert.embeddings.token_type_embeddings.weight"], "same"
    yield from _both("stack.embedding_norm", ["bert.embeddings.LayerNorm"])
    yield from _both("transform", ["cls.predictions.transform.dense"])
    yield from _both("norm", ["cls.predictions.transform.LayerNorm"])
    yield "head.bias", ["cls.predictions.bias"], "same"
    for i in range(c.n_layers):
        theirs = f"bert.encoder.layer.{i}"
        norms = (f"{theirs}.attention.output.LayerNorm", f"{theirs}.output.LayerNorm")
        yield from _names_layer(i, theirs, f"{theirs}.attention.self", norms)


BERT = Family(
    Encoder,
    _names_bert,
    fields=ENCODER
    | {
        "vocab_size": "vocab_size",
        "max_len": "max_position_embeddings",
        "n_token_types": "type_vocab_size",
    },
    always={
        "activation": "gelu",
        "bias": True,
        "causal": False,
        "norm_position": "post",
        "embedding_norm": True,
        "head_bias": True,
    },
    supported={
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "tie_word_embeddings": True,
    },
    prefix="bert.",
    # The tied head, the task of next sentences, and a layer for classes without its classifier.
    unused=r"^cls\.predictions\.decoder\.|^cls\.seq_relationship\.|position_ids$|pooler\.",
)


def _names_vit(c: ModelConfig) -> Names:
    yield "stack.embedding.first", ["vit.embeddings.cls_token"], "same"
    yield "stack.embedding.positions", ["vit.embeddings.position_embeddings"], "same"
    projection = "vit.embeddings.patch_embeddings.projection"
    yield from _both("stack.embedding.project", [projection], "patches")
    yield from _both("stack.final_norm", ["vit.layernorm"])
    yield from _both("head", ["classifier"])
    for i in range(c.n_layers):
        theirs = f"vit.encoder.layer.{i}"
        norms = (f"{theirs}.layernorm_before", f"{theirs}.layernorm_after")
        yield from _names_layer(i, theirs, f"{theirs}.attention.attention", norms)


def _read_image(theirs: Settings) -> Settings:
    size, patch = theirs["image_size"], theirs["patch_size"]
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return {
        "image_height": height,
        "image_width": width,
        "max_len": 1 + (height // patch) * (width // patch),
        "n_classes": len(theirs.get("id2label", "ab")),  # two, where the file says nothing
    }


def _write_image(ours: ModelConfig) -> Settings:
    return {
        "image_size": [ours.image_height, ours.image_width],
        "id2label": {str(i): f"LABEL_{i}" for i in range(ours.n_classes)},
    }


VIT = Family(
    VisionTransformer,
    _names_vit,
    fields=ENCODER | {"patch_size": "patch_size", "image_channels": "num_channels"},
    always={
        "activation": "gelu",
        "bias": True,
        "causal": False,
        "position": "none",
        "tie_embeddings": False,
        "head_bias": True,
    },
    supported={"hidden_act": "gelu", "qkv_bias": True},
    read=_read_image,
    write=_write_image,
    prefix="vit.",
    unused=r"pooler\.",
)


# --- Marian: the encoder–decoder of 2017


def _names_marian(c: ModelConfig) -> Names:
    yield "head.weight", ["model.shared.weight"], "same"
    yield "head.bias", ["final_logits_bias"], "same"
    for part, n_layers in (("encoder", c.n_layers), ("decoder", c.n_decoder_layers)):
        table = f"model.{part}.embed_positions.weight"
        yield f"{part}.positions.embedding.weight", [table], "same"
        for i in range(n_layers):
            ours, theirs = f"{part}.blocks.{i}", f"model.{part}.layers.{i}"
            branches = [("attention", "self_attn")]
            if part == "decoder":
                branches.append(("cross", "encoder_attn"))
            for mine, other in branches:
                yield from _both(f"{ours}.{mine}.norm", [f"{theirs}.{other}_layer_norm"])
                qkv = [f"{theirs}.{other}.{name}_proj" for name in "qkv"]
                yield from _both(f"{ours}.{mine}.sublayer.qkv", qkv, "stacked")
                yield from _both(f"{ours}.{mine}.sublayer.out", [f"{theirs}.{other}.out_proj"])
            yield from _both(f"{ours}.feed_forward.norm", [f"{theirs}.final_layer_norm"])
            yield from _both(f"{ours}.feed_forward.sublayer.up", [f"{theirs}.fc1"])
            yield from _both(f"{ours}.feed_forward.sublayer.down", [f"{theirs}.fc2"])


def _read_marian(theirs: Settings) -> Settings:
    for name in ("attention_heads", "ffn_dim"):
        ours, other = theirs[f"encoder_{name}"], theirs.get(f"decoder_{name}")
        if ours != other:
            raise ValueError(
                f"decoder_{name}={other} is not supported; only {ours}, the encoder's, is"
            )
    if theirs.get("decoder_vocab_size") not in (None, theirs["vocab_size"]):
        raise ValueError(
            "decoder_vocab_size differs from vocab_size: two vocabularies are not supported"
        )
    activation = theirs["activation_function"]
    return {"activation": "silu" if activation == "swish" else activation}


def _write_marian(ours: ModelConfig) -> Settings:
    return {
        "activation_function": ours.activation,
        "decoder_attention_heads": ours.n_heads,
        "decoder_ffn_dim": ours.d_ff,
        "decoder_vocab_size": ours.vocab_size,
        "pad_token_id": ours.vocab_size - 1,  # as in all public ones; it also starts the target
        "decoder_start_token_id": ours.vocab_size - 1,
    }


MARIAN = Family(
    EncoderDecoder,
    _names_marian,
    fields={
        "vocab_size": "vocab_size",
        "max_len": "max_position_embeddings",
        "d_model": "d_model",
        "n_layers": "encoder_layers",
        "n_decoder_layers": "decoder_layers",
        "n_heads": "encoder_attention_heads",
        "d_ff": "encoder_ffn_dim",
        "embedding_scale": "scale_embedding",
    },
    always={"norm_position": "post", "bias": True, "head_bias": True},
    supported={
        "activation_function": ("relu", "gelu", "silu", "swish"),
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
    },
    read=_read_marian,
    write=_write_marian,
    prefix="model.",
    unused=r"embed_tokens\.weight$|^lm_head\.weight$",  # all tied to model.shared
)


def fixed_tables(config: ModelConfig) -> dict[str, Tensor]:
    """Return Marian's position tables: all sines first, then all cosines, for both stacks."""
    angles = angle_table(torch.arange(config.max_len).unsqueeze(0), config.d_model, 10_000.0)[0]
    table = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return {f"model.{part}.embed_positions.weight": table for part in ("encoder", "decoder")}


FAMILIES = {"gpt2": GPT2, "llama": LLAMA, "bert": BERT, "vit": VIT, "marian": MARIAN}
