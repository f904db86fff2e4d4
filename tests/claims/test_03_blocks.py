"""What the four documents claim about attention, the MLP and the block, measured."""

from __future__ import annotations

import math

import pytest
import torch
from einops import rearrange
from helpers import WORDS, last_gradient, loud, normal, tiny_lm, untrained
from scipy.optimize import linprog
from torch import Tensor, nn

from tfcourse.architectures import DecoderLM
from tfcourse.attention import MultiHeadAttention
from tfcourse.blocks import Block
from tfcourse.config import ModelConfig, TrainConfig
from tfcourse.data.batching import EmailData
from tfcourse.feedforward import FeedForward
from tfcourse.norms import LayerNorm
from tfcourse.probes import record_stream
from tfcourse.training import train


def part(kind, **fields) -> nn.Module:
    """A part of a block with loud weights, 64 features wide."""
    config = ModelConfig(**(dict(vocab_size=2, d_model=64, n_heads=4) | fields))
    return loud(kind(config)).requires_grad_(False)


def in_hull(point: Tensor, corners: Tensor) -> bool:
    """Ask a linear program whether `point` is a mean of `corners`, to 1e-4."""
    n, slack = len(corners), 1e-4
    a = torch.cat([corners.T, -corners.T]).double().numpy()
    b = torch.cat([point + slack, slack - point]).double().numpy()
    ones = torch.ones(1, n).double().numpy()
    return linprog([0.0] * n, A_ub=a, b_ub=b, A_eq=ones, b_eq=[1.0], bounds=(0, 1)).status == 0


def test_one_head_stays_in_the_hull_of_its_values_and_the_layer_does_not(record):
    """Catches: weights that do not add up to 1; heads that share one set of weights."""
    layer, x = part(MultiHeadAttention), normal(1, 6, 64)
    weights = layer.with_weights(x)[1][0]  # [H L L]
    values = rearrange(layer.qkv(x)[0].chunk(3, -1)[2], "l (h k) -> h l k", h=4)
    heads = weights @ values  # [H L d_k]
    places = range(1, 6)  # the first position reads itself alone
    inside = sum(in_hull(heads[h, i], values[h]) for h in range(4) for i in places)
    together, of_all = (rearrange(t, "h l k -> l (h k)") for t in (heads, values))
    joined = sum(in_hull(together[i], of_all) for i in places)
    after = sum(in_hull(layer(x)[0, i], x[0]) for i in places)
    assert (inside, joined, after) == (20, 0, 0)
    record(
        f"inside the hull: {inside} of 20 head outputs, each among its head's values; "
        f"{joined} of 5 positions once heads are joined, {after} of 5 after the output projection"
    )


def test_only_the_mlp_collapses_without_its_activation(record):
    """Catches: an MLP that keeps a bend; attention whose weights do not depend on the input."""
    a, b = normal(2, 2, 10, 64)
    mlp = part(FeedForward)
    mlp.activation = nn.Identity()
    attention = part(MultiHeadAttention)

    def miss(f) -> float:
        return float((f(a + b) - f(a) - f(b)).norm() / f(a + b).norm())

    assert miss(mlp) < 1e-5
    assert miss(attention) > 0.1
    one = mlp.down.weight @ mlp.up.weight
    torch.testing.assert_close(mlp(a), a @ one.T, atol=1e-3, rtol=1e-4)
    record("f(a + b) = f(a) + f(b) to 1e-5 for the MLP, off by more than 10 % for attention")


def test_two_thirds_of_a_blocks_matrices_are_the_mlps(record):
    """Catches: another default width; a third matrix with the width of two."""
    for activation in ("gelu", "swiglu"):
        block = Block(ModelConfig(vocab_size=2, d_model=96, activation=activation))
        sizes = [sum(p.numel() for p in b.sublayer.parameters()) / 96**2 for b in block.branches]
        assert sizes == [4, 8]
    record("4 d² in attention, 8 d² in the MLP, with two matrices of 4 d or three of 8/3 d")


def test_an_mlp_row_sees_no_other_row_and_attention_moves_later_rows_alone(record):
    """Catches: an MLP with one set of weights per position; a mask the wrong way round."""
    x = normal(1, 5, 64)
    changed = x.clone()
    changed[0, 2] += 1
    moved = {}
    for name, kind in (("MLP", FeedForward), ("attention", MultiHeadAttention)):
        f = part(kind)
        rows = (f(changed) - f(x))[0].abs().amax(-1) > 1e-5
        moved[name] = [i + 1 for i in range(5) if rows[i]]
    assert moved == {"MLP": [3], "attention": [3, 4, 5]}
    record("row 3 of 5 changed: the MLP moves row 3, causal attention rows 3, 4 and 5")


def test_a_masked_weight_is_exactly_zero(record):
    """Catches: −1e4 in place of −∞, in a head with large scores."""
    layer = part(MultiHeadAttention)
    layer.qkv.weight *= 30
    weights = layer.with_weights(normal(2, 8, 64))[1]
    above = torch.ones(8, 8, dtype=torch.bool).triu(1)
    assert (weights[..., above] == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 8))
    record("all weights above the diagonal are 0, also where scores are in the hundreds")


def test_inside_a_block_the_shape_does_change(record):
    """Catches: an MLP without its wider middle."""
    block = Block(ModelConfig(vocab_size=2, d_model=64, n_heads=4))
    shapes = []
    up = block.feed_forward.sublayer.up
    up.register_forward_hook(lambda m, i, o: shapes.append(tuple(o.shape)))
    x = normal(1, 5, 64)
    weights = block.attention.sublayer.with_weights(x)[1]
    assert block(x).shape == x.shape and shapes == [(1, 5, 256)]
    assert tuple(weights.shape) == (1, 4, 5, 5)
    record("5 positions of 64 features go in and out; inside there are 4 heads of 16, and 5 × 256")


def test_the_order_of_the_norm_changes_the_values(record):
    """Catches: a switch that is not read."""
    pair = [loud(Block(ModelConfig(vocab_size=2, d_model=64, norm_position=o))) for o in
            ("pre", "post")]  # fmt: skip
    pair[1].load_state_dict(pair[0].state_dict())
    x = normal(4, 10, 64)
    with torch.no_grad():
        cosine = float(nn.functional.cosine_similarity(pair[0](x), pair[1](x), dim=-1).mean())
    assert cosine < 0.9
    record("same weights, same input: the mean cosine between the two results is below 0.9")


def mean_gradients(order: str, weights: str, depths=(6, 24)) -> list[float]:
    return [
        sum(last_gradient(untrained(n, order, weights, seed)) for seed in range(3)) / 3
        for n in depths
    ]


def test_which_order_has_the_larger_gradient_depends_on_the_initialization(record):
    """Catches: gradients of another layer than the last; Xavier weights, but small inputs."""
    post, pre = (mean_gradients(order, "xavier") for order in ("post", "pre"))
    assert post[1] == pytest.approx(post[0], rel=0.2)
    assert 0.35 < pre[1] / pre[0] < 0.65 and pre[0] < 0.7 * post[0]
    small_post, small_pre = (mean_gradients(order, "0.02") for order in ("post", "pre"))
    assert min(small_pre) > 3 * max(small_post)
    record(
        f"gradient of the last MLP, 6 and 24 blocks: Xavier post-norm {post[0]:.2f}, "
        f"{post[1]:.2f}, "
        f"pre-norm {pre[0]:.2f}, {pre[1]:.2f}; weights of 0.02 post-norm {small_post[0]:.2f}, "
        f"{small_post[1]:.2f}, pre-norm {small_pre[0]:.1f}, {small_pre[1]:.1f}"
    )


def profile(stack: DecoderLM) -> Tensor:
    return record_stream(stack, WORDS[:, :-1])[::2].square().mean(dim=(1, 2, 3)).sqrt()


def test_how_much_the_stream_grows_depends_on_the_initialization(record):
    """Catches: an initialization of the package that grows with depth."""
    ratios = {}
    for weights in ("xavier", "0.02", "package"):
        sizes = [profile(untrained(n, weights=weights)) for n in (6, 24)]
        ratios[weights] = [float(s[-1] / s[0]) for s in sizes]
    assert 1.8 < ratios["xavier"][0] < 2.8 and 4 < ratios["xavier"][1] < 6
    assert ratios["0.02"][1] > 1.5 * ratios["0.02"][0]
    assert ratios["package"] == pytest.approx([1.4, 1.4], abs=0.1)
    shown = "; ".join(f"{k} {a:.0f}×, {b:.0f}×" for k, (a, b) in ratios.items() if k != "package")
    record(
        f"size of the stream, at the end over at the start, 6 and 24 untrained blocks: {shown}; "
        f"the package {ratios['package'][0]:.1f}×, {ratios['package'][1]:.1f}×"
    )


def test_increments_shrink_beside_the_stream_at_initialization(record):
    """Catches: increments measured against the first stream."""
    stream = record_stream(untrained(24), WORDS[:, :-1])
    size = stream[:-1].square().mean(dim=(1, 2, 3)).sqrt()
    share = (stream[1:] - stream[:-1]).square().mean(dim=(1, 2, 3)).sqrt() / size
    first, last = float(share[:4].mean()), float(share[-4:].mean())
    assert first > 2 * last
    record(
        f"24 untrained blocks (Xavier): {first:.1f} of the stream at first, {last:.1f} at the end"
    )


def test_the_shift_of_a_layernorm_is_a_bias_of_the_next_matrix(record):
    """β becomes a bias, but not any bias. Catches: a shift that is scaled by γ."""
    norm, up = loud(LayerNorm(64, 1e-5)), nn.Linear(64, 256, bias=False)
    folded = nn.Linear(64, 256)
    with torch.no_grad():
        folded.weight[:] = up.weight * norm.weight
        folded.bias[:] = up.weight @ norm.bias
        x = normal(2, 5, 64)
        bare = LayerNorm(64, 1e-5)
        torch.testing.assert_close(folded(bare(x)), up(norm(x)), atol=1e-5, rtol=1e-4)
        reach = int(torch.linalg.matrix_rank(up.weight))
    assert reach == 64 and folded.bias.numel() == 256
    record(
        "γ and β folded into the next matrix: equal to 1e-5, and β has become its bias; but of the "
        f"256 directions that a bias of its own has, β reaches {reach}"
    )


def test_which_public_models_keep_biases(record):
    """Small models of four families, built by the library itself.

    Catches: a table that a new version of the code contradicts.
    """
    from transformers import (
        AutoModelForCausalLM,
        GPT2Config,
        LlamaConfig,
        MistralConfig,
        Qwen2Config,
        Qwen3Config,
    )

    sizes = dict(
        vocab_size=11, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    configs = {
        "GPT-2": GPT2Config(vocab_size=11, n_embd=32, n_layer=1, n_head=4),
        "Llama": LlamaConfig(**sizes),
        "Mistral": MistralConfig(**sizes),
        "Qwen2": Qwen2Config(**sizes),
        "Qwen3": Qwen3Config(**sizes),
    }
    biases = {}
    for family, config in configs.items():
        model = AutoModelForCausalLM.from_config(config)
        biases[family] = {n for n, _ in model.named_parameters() if n.endswith("bias")}
    short = {f: {n.split(".")[-2] for n in names} for f, names in biases.items()}
    assert short["Llama"] == short["Mistral"] == short["Qwen3"] == set()
    assert short["Qwen2"] == {"q_proj", "k_proj", "v_proj"}
    assert {"c_attn", "c_proj", "c_fc", "ln_1", "ln_2", "ln_f"} == short["GPT-2"]
    record(
        "in the code: GPT-2 everywhere, Qwen2 on queries, keys and values alone, "
        "Llama, Mistral and Qwen3 nowhere; no RMSNorm has a shift"
    )


def test_a_bias_is_no_operation_of_its_own(record):
    """Catches: a linear layer that multiplies, then adds."""
    x = normal(4, 64)
    names = {}
    for bias in (True, False):
        layer = nn.Linear(64, 64, bias=bias)
        with torch.no_grad(), torch.profiler.profile() as profiler:
            layer(x)
        leaves = [e.name for e in profiler.events() if e.name in ("aten::addmm", "aten::mm")]
        names[bias] = leaves
    assert names == {True: ["aten::addmm"], False: ["aten::mm"]}
    record("with a bias one `addmm`, without it one `mm`: one operation each, on a CPU")


@pytest.mark.slow
def test_a_residual_on_the_wrong_tensor_trains_as_well_at_first(record):
    """Two slips beside the real block: adding to the normed copy, and losing attention's update.

    Catches: a slip that a short training run would show.
    """

    class NormedCopy(Block):
        def forward(self, x, mask=None, rotate=None, **rest):
            for branch, context in zip(
                self.branches, ({"mask": mask, "rotate": rotate}, {}), strict=True
            ):
                x = branch.norm(x)
                x = x + branch.sublayer(x, **context)
            return x

    class LostUpdate(Block):
        def forward(self, x, mask=None, rotate=None, **rest):
            u = self.attention(x, mask=mask, rotate=rotate)
            return x + self.feed_forward.update(u)

    data = EmailData(n_held_out=50)
    plan = TrainConfig(steps=60, batch_size=16, lr=6e-3, warmup=10, device="cpu", precision="fp32")
    losses = []
    for kind in (Block, NormedCopy, LostUpdate):
        torch.manual_seed(0)
        sizes = dict(vocab_size=data.vocab_size, max_len=data.max_len, d_model=32, n_layers=2)
        model = DecoderLM(ModelConfig(**sizes, position="rope"))
        for i, block in enumerate(model.stack.blocks):
            model.stack.blocks[i] = kind(model.config)
            model.stack.blocks[i].load_state_dict(block.state_dict())
        losses.append(train(model, data, plan, progress=False).evaluation.loss)
    assert min(losses) > 2.5 and max(losses) < 3.5
    record(
        "after 60 steps on emails the losses of the block and of both slips lie between 2.5 and 3.5"
    )


def test_two_heads_and_an_output_projection_can_subtract(record):
    """Catches: an output projection that only averages."""
    x = torch.tensor([[[5.0, 1, 0, 0], [2, 0, 1, 0], [0, 0, 0, 1]]])
    layer = MultiHeadAttention(ModelConfig(vocab_size=2, d_model=4, n_heads=2))
    layer.requires_grad_(False)
    layer.qkv.weight.zero_()
    layer.out.weight.zero_()
    q, k, v = layer.qkv.weight.chunk(3)
    q[0, 3] = q[2, 3] = k[0, 2] = k[2, 1] = 10
    v[0, 0] = v[2, 0] = 1
    layer.out.weight[0, 0], layer.out.weight[0, 2] = 1, -1
    result = float(layer(x)[0, 2, 0])
    assert result == pytest.approx(-3, abs=1e-3)
    record("from 5 and 2 two heads make 2 − 5 = −3, outside every mean of the two")


def test_the_division_keeps_the_size_of_scores_from_growing_with_the_width(record):
    """Catches: a division by d_k, or none."""
    torch.manual_seed(0)
    largest = {}
    for d_k in (4, 256):
        s = (torch.randn(2000, 1, d_k) @ torch.randn(2000, 10, d_k).mT)[:, 0]
        pair = (s, s / math.sqrt(d_k))
        largest[d_k] = [float(z.softmax(-1).amax(-1).mean()) for z in pair]
    assert largest[256][0] > 0.9 and largest[256][1] < 0.35 and largest[4][1] < 0.35
    record(
        f"largest of 10 weights, width 256: {largest[256][0]:.1f} without the division, "
        f"{largest[256][1]:.1f} with it; width 4 with it: {largest[4][1]:.1f}"
    )


def test_the_mlp_is_not_the_only_nonlinear_step_on_one_position(record):
    """Catches: a norm that is linear."""
    norm = LayerNorm(64, 1e-5).requires_grad_(False)
    a, b = normal(2, 1, 5, 64)
    miss = float((norm(a + b) - norm(a) - norm(b)).norm() / norm(a + b).norm())
    assert miss > 0.2
    record("a norm works on one position, too, and misses additivity by more than 20 %")


def test_a_post_norm_model_has_no_exact_sum_and_a_pre_norm_model_has(record):
    """The identity path: untouched, or renormalized. Catches: a pre-norm branch that rescales."""
    for order, kept in (("pre", True), ("post", False)):
        model = tiny_lm(norm_position=order)
        for block in model.stack.blocks:
            for branch in block.branches:
                nn.init.zeros_(
                    branch.sublayer.get_submodule(
                        "out" if isinstance(branch.sublayer, MultiHeadAttention) else "down"
                    ).weight
                )
        stream = record_stream(model, torch.arange(6)[None])
        assert bool(torch.equal(stream[0], stream[-1])) == kept
    record(
        "with all updates 0 the pre-norm stream leaves as it came, the post-norm stream does not"
    )
