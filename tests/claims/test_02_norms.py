"""What the four documents say about norms, measured. Each test hands its value to `record`."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import transformers
from helpers import normal
from torch import Tensor, nn
from transformers.models.cohere.modeling_cohere import CohereLayerNorm
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RMSNorm
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.olmo.modeling_olmo import OlmoLayerNorm
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from tfcourse.architectures import DecoderLM
from tfcourse.config import ModelConfig
from tfcourse.norms import LayerNorm, RMSNorm


class BatchNorm(nn.BatchNorm1d):
    """As in the chapter: each feature over all positions of all texts."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(0, 1)).view_as(x)


def language_model(norm: str = "LayerNorm", seed: int = 0) -> DecoderLM:
    torch.manual_seed(seed)
    config = ModelConfig(vocab_size=50, d_model=32, n_layers=2, max_len=32, position="rope")
    model = DecoderLM(config).requires_grad_(False)
    if norm == "BatchNorm":
        for block in model.stack.blocks:
            for branch in block.branches:
                branch.norm = BatchNorm(32)
        model.stack.final_norm = BatchNorm(32)
    return model


def words(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(50, (rows, length), generator=torch.Generator().manual_seed(seed))


def n_moved(model: DecoderLM, a: Tensor, b: Tensor, limit: float = 1e-5) -> int:
    """Count the positions of `a` whose logits differ in `b`, which may hold more."""
    rows, length = a.shape
    difference = (model(a) - model(b)[:rows, :length]).abs().amax(dim=-1)
    return int((difference > limit).sum())


def rms(x: Tensor) -> Tensor:
    return x.pow(2).mean(dim=-1).sqrt()


def test_worked_example(record):
    """x = [1, 3] with ε = 1. Tolerance: half of the fourth decimal.

    Catches: the sample variance; an ε outside the root; a mean taken away by RMSNorm.
    """
    x = torch.tensor([1.0, 3.0])
    layer, rms_normed = LayerNorm(2, 1.0)(x), RMSNorm(2, 1.0)(x)
    torch.testing.assert_close(layer, torch.tensor([-0.7071, 0.7071]), atol=5e-5, rtol=0)
    torch.testing.assert_close(rms_normed, torch.tensor([0.4082, 1.2247]), atol=5e-5, rtol=0)
    torch.testing.assert_close(layer, F.layer_norm(x, (2,), eps=1.0))
    torch.testing.assert_close(rms_normed, F.rms_norm(x, (2,), eps=1.0))
    record(
        f"LayerNorm ±{layer[1]:.4f}; RMSNorm [{rms_normed[0]:.4f}, {rms_normed[1]:.4f}]; "
        "torch's functions agree"
    )


def test_population_variance_and_epsilon_inside_the_root(record):
    """For the vector [1, 3], where the two variances differ most, and a large ε.

    Catches: a torch whose LayerNorm divides by d − 1, or adds ε to the standard deviation.
    """
    x = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(F.layer_norm(x, (2,), eps=1.0)[1], torch.tensor(1 / 2**0.5))
    population, sample = x.var(correction=0), x.var()
    assert (float(population), float(sample)) == (1.0, 2.0)
    outside = 1 / (1 + 1)
    assert abs(float(F.layer_norm(x, (2,), eps=1.0)[1]) - outside) > 0.2
    record("torch's LayerNorm divides by the root of the sum of ε and the mean squared deviation")


def test_no_position_sees_another(record):
    """Bit-equal alone and in company. Catches: an average over positions or texts."""
    x = normal(3, 7, 32)
    for norm in (LayerNorm(32, 1e-5), RMSNorm(32, 1e-5)):
        assert torch.equal(norm(x)[1:2, 2:3], norm(x[1:2, 2:3]))
        assert norm(x).shape == x.shape
    record("LayerNorm and RMSNorm: the same bits alone and in a batch; the shape is kept")


def test_rmsnorm_keeps_the_mean_that_layernorm_removes(record):
    """Catches: an RMSNorm that centres."""
    x = normal(5, 64) + 5
    layer, kept = LayerNorm(64, 1e-5)(x), RMSNorm(64, 1e-5)(x)
    assert layer.mean(dim=-1).abs().max() < 1e-5
    assert kept.mean(dim=-1).min() > 0.9
    torch.testing.assert_close(LayerNorm(64, 1e-5)(x - 5), layer, atol=1e-4, rtol=0)
    record(
        f"5 added to all features: mean of the output 0 in LayerNorm, {kept.mean():.2f} in RMSNorm"
    )


def test_the_size_goes_away_above_the_root_of_epsilon(record):
    """Catches: a norm that does not divide; an ε that is not used."""
    norm, direction = LayerNorm(2, 1e-5).requires_grad_(False), torch.tensor([1.0, -1.0])
    out = {size: float(rms(norm(size * direction))) for size in (100.0, 1.0, 1e-5**0.5, 1e-4)}
    large, one, root, tiny = out.values()
    assert abs(large - 1) < 1e-4 and abs(one - 1) < 1e-4
    assert abs(root - 0.5**0.5) < 1e-3 and abs(tiny - 0.0316) < 1e-3
    record(
        f"with ε = 10⁻⁵ sizes 100 and 1 leave as {large:.2f} and {one:.2f}, "
        f"√ε as {root:.2f}, 0.0001 as {tiny:.2f}"
    )


def test_without_epsilon_only_exactly_constant_vectors_give_nan(record):
    """Catches: a torch that guards ε = 0."""
    x = torch.tensor([[2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.001]])
    without, usual = F.layer_norm(x, (4,), eps=0.0), F.layer_norm(x, (4,), eps=1e-5)
    by_hand = (x - x.mean(-1, keepdim=True)) / x.var(-1, correction=0, keepdim=True).sqrt()
    assert by_hand[0].isnan().all() and by_hand[1].isfinite().all()
    assert abs(float(by_hand[1, -1]) - 1.73) < 0.01
    assert without[1].isfinite().all() and usual.isfinite().all()
    assert abs(float(usual[1, -1]) - 0.235) < 0.01
    record(
        "constant: NaN without ε, 0 with; a difference of 0.001: "
        f"{by_hand[1, -1]:.1f} without ε, {usual[1, -1]:.1f} with 10⁻⁵"
    )


def test_epsilon_in_public_configurations(record):
    """Catches: a default of `transformers` that has changed."""
    eps = {
        "GPT-2": transformers.GPT2Config().layer_norm_epsilon,
        "Llama": transformers.LlamaConfig().rms_norm_eps,
        "Mistral": transformers.MistralConfig().rms_norm_eps,
        "Qwen2": transformers.Qwen2Config().rms_norm_eps,
        "Gemma": transformers.GemmaConfig().rms_norm_eps,
        "BERT": transformers.BertConfig().layer_norm_eps,
    }
    assert eps == {
        "GPT-2": 1e-5, "Llama": 1e-6, "Mistral": 1e-6, "Qwen2": 1e-6, "Gemma": 1e-6, "BERT": 1e-12,
    }  # fmt: skip
    record("defaults: GPT-2 10⁻⁵; Llama, Mistral, Qwen2, Gemma 10⁻⁶; BERT 10⁻¹²")


def test_gain_and_shift_fold_into_the_next_layer(record):
    """Random γ and β in all norms of a model; 1e-4 for logits of size one.

    Catches: a norm that no linear layer reads; a fold that forgets β.
    """
    config = ModelConfig(
        vocab_size=50, d_model=32, n_layers=2, max_len=32, bias=True, head_bias=True,
        tie_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    model = DecoderLM(config).requires_grad_(False)
    pairs = [(b.attention.norm, b.attention.sublayer.qkv) for b in model.stack.blocks]
    pairs += [(b.feed_forward.norm, b.feed_forward.sublayer.up) for b in model.stack.blocks]
    pairs += [(model.stack.final_norm, model.head)]
    for i, (norm, _) in enumerate(pairs):
        norm.weight.copy_(1 + 0.5 * normal(32, seed=i))
        norm.bias.copy_(0.5 * normal(32, seed=100 + i))
    tokens, before = words(3, 9), model(words(3, 9))
    plain = copy.deepcopy(model)
    for i, (norm, linear) in enumerate(pairs):
        linear.bias += linear.weight @ norm.bias
        linear.weight *= norm.weight
        norm.weight.fill_(1)
        norm.bias.fill_(0)
        plain_norm = [m for m in plain.modules() if isinstance(m, LayerNorm)][i]
        plain_norm.weight.fill_(1)
        plain_norm.bias.fill_(0)
    assert (plain(tokens) - before).abs().max() > 0.05  # γ and β did matter
    torch.testing.assert_close(model(tokens), before, atol=1e-4, rtol=1e-4)
    record("γ = 1 and β = 0 everywhere, the next layers changed: the same logits up to rounding")


def test_rmsnorm_has_no_shift_and_half_the_parameters(record):
    """Catches: a β in RMSNorm, ours or torch's."""
    counts = [sum(p.numel() for p in norm(512, 1e-5).parameters()) for norm in (LayerNorm, RMSNorm)]
    assert counts == [1024, 512]
    assert [n for n, _ in nn.RMSNorm(512).named_parameters()] == ["weight"]
    record(f"d = 512: LayerNorm {counts[0]} parameters, RMSNorm {counts[1]}")


def test_public_models_named_as_users_of_rmsnorm_use_it(record):
    """The classes of `transformers` beside ours, with a random gain.

    Catches: a class that centres; Gemma's gain, which is stored as γ − 1, taken for γ.
    """
    x, gain = normal(4, 32) + 1, 1 + 0.5 * normal(32, seed=1)
    ours = RMSNorm(32, 1e-6)
    ours.weight.data = gain
    classes = [
        LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm, DeepseekV3RMSNorm, Olmo2RMSNorm,
        GptOssRMSNorm, T5LayerNorm,
    ]  # fmt: skip
    for cls in classes:
        theirs = cls(32, eps=1e-6)
        theirs.weight.data = gain
        torch.testing.assert_close(theirs(x), ours(x), atol=1e-5, rtol=1e-5, msg=cls.__name__)
    gemma = GemmaRMSNorm(32, eps=1e-6)
    assert torch.equal(gemma.weight, torch.zeros(32))
    gemma.weight.data = gain - 1
    torch.testing.assert_close(gemma(x), ours(x), atol=1e-5, rtol=1e-5)
    record(
        "the RMSNorm classes of Llama, Mistral, Qwen2, Qwen3, DeepSeek-V3, OLMo 2 and gpt-oss, and "
        "T5's LayerNorm, compute ours; Gemma's does with 1 + w for γ"
    )


def test_public_models_that_take_the_mean_away(record):
    """Catches: a table that lists one of these under RMSNorm, or with other parameters."""
    x, gain = normal(4, 32) + 1, 1 + 0.5 * normal(32, seed=1)
    ours = LayerNorm(32, 1e-5)
    torch.testing.assert_close(OlmoLayerNorm(32)(x), ours(x), atol=1e-5, rtol=1e-5)
    assert list(OlmoLayerNorm(32).parameters()) == []
    cohere = CohereLayerNorm(32, eps=1e-5)
    assert [n for n, _ in cohere.named_parameters()] == ["weight"]
    cohere.weight.data = ours.weight.data = gain
    torch.testing.assert_close(cohere(x), ours(x), atol=1e-5, rtol=1e-5)
    shape = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32)
    for config in (
        transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=9),
        transformers.BertConfig(**shape, vocab_size=9),
        transformers.GPTNeoXConfig(**shape, vocab_size=9),
        transformers.PhiConfig(**shape, vocab_size=9),
        transformers.Starcoder2Config(**shape, num_key_value_heads=4, vocab_size=9),
    ):
        model = transformers.AutoModel.from_config(config)
        kinds = {type(m) for m in model.modules() if "norm" in type(m).__name__.lower()}
        assert kinds == {nn.LayerNorm}, config.model_type
        assert all(m.bias is not None for m in model.modules() if isinstance(m, nn.LayerNorm))
    record(
        "GPT-2, BERT, GPT-NeoX, Phi and StarCoder2 hold torch's LayerNorm with γ and β; "
        "Cohere's has no β; that of the first OLMo has neither"
    )


def test_batchnorm_lets_the_past_see_the_future_in_training(record):
    """One word of 40 is changed, the last of row 2; five seeds.

    Catches: statistics over features; a BatchNorm that is in evaluation mode; the causal mask off.
    """
    tokens, changed = words(4, 10), words(4, 10)
    changed[1, -1] = (changed[1, -1] + 1) % 50
    moved = set()
    for seed in range(5):
        layer = language_model(seed=seed).train()
        batch = language_model("BatchNorm", seed)
        counts = [n_moved(layer, tokens, changed)]
        counts += [n_moved(batch.train(mode), tokens, changed) for mode in (True, False)]
        moved.add(tuple(counts))
    assert moved == {(1, 40, 1)}
    record("predictions that move, of 40: LayerNorm 1; BatchNorm 40 in training, 1 in evaluation")


def test_batchnorm_depends_on_padding_and_company_in_training_alone(record):
    """Catches: evaluation that looks at the batch; a LayerNorm that does. Tolerance 1e-5, for sums
    in another order."""
    row, company = words(1, 10), torch.cat([words(1, 10), words(7, 10, seed=1)])
    padded = F.pad(row, (0, 10))
    seen = {}
    for name, mode in (("LayerNorm", True), ("BatchNorm", True), ("BatchNorm", False)):
        model = language_model(name).train(mode)
        seen[name, mode] = [n_moved(model, row, rows) for rows in (company, padded)]
    assert seen == {
        ("LayerNorm", True): [0, 0], ("BatchNorm", True): [10, 10], ("BatchNorm", False): [0, 0],
    }  # fmt: skip
    record(
        "of 10 predictions, with company and with padding move: LayerNorm 0 and 0; BatchNorm in "
        "training 10 and 10, in evaluation 0 and 0"
    )


def test_layernorm_is_the_same_in_both_modes_and_batchnorm_is_not(record):
    """Catches: dropout left on in the comparison; running averages that are not used."""
    tokens, moved = words(4, 10), {}
    for name in ("LayerNorm", "BatchNorm"):
        model = language_model(name)
        training = model.train()(tokens)
        evaluated = model.eval()(tokens)
        moved[name] = int(((training - evaluated).abs().amax(dim=-1) > 1e-5).sum())
    assert moved == {"LayerNorm": 0, "BatchNorm": 40}
    assert nn.BatchNorm1d(3).track_running_stats
    record("predictions that differ between the two modes, of 40: LayerNorm 0, BatchNorm 40")


def test_a_batch_of_one_is_no_problem_for_batchnorm_in_evaluation(record):
    """Catches: the claim in its usual form. In training a single row of features is refused."""
    norm = nn.BatchNorm1d(8)
    norm(normal(20, 8))  # so that the running averages are not 0 and 1
    rows = normal(16, 8, seed=1)
    norm.eval()
    assert torch.equal(norm(rows[:1]), norm(rows)[:1])
    norm.train()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(rows[:1])
    assert norm(normal(1, 8, 5)).shape == (1, 8, 5)
    record(
        "evaluation: one row gives the same bits alone and among 16; training: [1, d] is refused, "
        "[1, d, T] is not"
    )


def test_batchnorm_of_images_has_one_mean_per_channel(record):
    """Catches: another set of axes. Tolerance 1e-5, for 2,048 numbers of size one."""
    y = nn.BatchNorm2d(3)(3 + normal(8, 3, 16, 16))
    assert y.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert y.mean(dim=1).abs().max() > 0.1
    record(
        "the mean over images and places is 0 for each of the 3 channels; over channels it is not"
    )
