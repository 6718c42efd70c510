"""Which modules tensor parallelism divides: what transformers says, and what it leaves open."""

from typing import Any

import pytest
import torch
from paceline.parallel import PlanError, describe
from paceline.parallel.execute import Stepper
from paceline.parallel.tensor import division_of, sequence_of
from torch import nn
from torch.nn.functional import mse_loss


def llama(**options: Any) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "vocab_size": 32,
             "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **options}))


def summary_of(model: nn.Module) -> dict[str, Any]:
    tokens = torch.zeros(2, 6, dtype=torch.long)
    return describe(model, {"input_ids": tokens, "labels": tokens},
                    lambda output, _: output.float().mean())  # fmt: skip


def test_a_model_of_transformers_is_divided_as_it_says() -> None:
    found = division_of(llama())
    assert found.styles["model.layers.2.self_attn.o_proj"] == "rowwise"
    assert found.styles["lm_head"] == "colwise_gather_output"
    assert len(found.styles) == 3 * 7 + 1
    assert (found.divides, found.why) == (2, ""), "two heads of keys and values"


def test_the_summary_says_what_is_divided() -> None:
    summary = summary_of(llama())
    embedding, block, norm, head = summary["layers"]
    assert "tensor" not in embedding and "tensor" not in norm
    # All but the two norms of 16 numbers.
    assert block["tensor"]["parameters"] == block["parameters"] - 32
    assert block["tensor"]["flops"] == block["flops"]
    assert 0 < block["tensor"]["saved"] < block["saved"]
    # Five modules add up gradients of their inputs, two add up outputs.
    assert block["tensor"]["exchanges"] == 4
    assert head["tensor"]["parameters"] == 32 * 16
    assert (summary["tensor_divides"], summary["no_tensor"]) == (2, "")


def test_the_summary_says_what_divided_sequences_and_kept_products_need() -> None:
    summary = summary_of(llama())
    embedding, block, _, head = summary["layers"]
    assert summary["sequence_divides"] == 6, "the tokens of a sample"
    gathered = 2 * block["output"]
    assert block["tensor"]["sequence"] == {"exchanges": 2, "gathered": gathered}
    assert not any("sequence" in row.get("tensor", {}) for row in (embedding, head))
    # A token's queries (16 values), keys and values (8 each), attention (16, and a sum for each of
    # four heads), both outputs (16 each), and two products of the gate (24 each).
    each = 16 + 2 * 8 + 16 + 4 + 2 * 16 + 2 * 24
    assert block["selective"] == {"kept": 6 * 4 * each, "flops": 0}
    assert block["tensor"]["kept"] == 6 * 4 * (each - 2 * 16)
    assert block["selective"]["kept"] < block["saved"] / 2
    assert "selective" not in embedding


def test_attention_without_a_kernel_is_computed_again() -> None:
    found = [summary_of(llama(attn_implementation=kind))["layers"][1] for kind in ("sdpa", "eager")]
    kernel, eager = found
    assert eager["flops"] == kernel["flops"]
    # Two products of 6 × 6 scores with 4 heads of 4 values.
    assert eager["selective"]["flops"] == 2 * 2 * 6 * 6 * 16
    assert eager["selective"]["kept"] < kernel["selective"]["kept"]
    assert eager["saved"] > kernel["saved"]


def test_a_layer_that_adds_weights_of_its_own_keeps_its_sequence() -> None:
    model: Any = llama()
    model.model.layers[0].scale = nn.Parameter(torch.ones(16))
    division = division_of(model)
    assert sequence_of("model.layers.0", model.model.layers[0], division) is None
    assert sequence_of("model.layers.1", model.model.layers[1], division) is not None
    model.model.layers[1].mixer = nn.Linear(16, 16)
    assert sequence_of("model.layers.1", model.model.layers[1], division) is None
    assert sequence_of("lm_head", model.lm_head, division) is None


def test_a_weight_of_two_modules_leaves_the_axis_out() -> None:
    summary = summary_of(llama(tie_word_embeddings=True))
    assert summary["no_tensor"] == "lm_head and model.embed_tokens share a weight"
    assert not any("tensor" in row for row in summary["layers"])


def test_a_style_that_is_not_known_leaves_the_axis_out() -> None:
    model: Any = llama()
    model.config.base_model_tp_plan = {"layers.*.mlp.up_proj": "packed_colwise"}
    found = division_of(model)
    assert found.styles == {}
    assert found.why == (
        "transformers divides model.layers.*.mlp.up_proj as packed_colwise, which is not built")


def test_a_module_that_cannot_be_divided_so_leaves_the_axis_out() -> None:
    model: Any = llama()
    model.config.base_model_tp_plan = {"layers.*.input_layernorm": "colwise"}
    why = "model.layers.0.input_layernorm is LlamaRMSNorm, which cannot be divided as colwise"
    assert division_of(model).why == why


def test_a_tensor_of_a_plan_leaves_the_axis_out() -> None:
    model: Any = llama()
    model.config.base_model_tp_plan = {"layers.*.mlp.up_proj.weight": "rowwise"}
    why = "transformers divides the tensor model.layers.*.mlp.up_proj.weight itself, which is not"
    assert division_of(model).why.startswith(why)


def test_a_model_without_a_plan_says_so() -> None:
    found = division_of(nn.Sequential(nn.Linear(4, 4)))
    assert found.why.startswith("Sequential has neither a tensor-parallel plan of transformers")
    small = describe(nn.Linear(4, 4), (torch.zeros(2, 4), torch.zeros(2, 4)), mse_loss)
    assert "neither" in small["no_tensor"]


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}], ids=str)
def test_an_optimizer_steps_kinds_of_tensors_apart_and_its_hooks_once(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        return net, torch.optim.AdamW(net.parameters(), lr=0.1, **options)

    (one, plain), (other, parted) = made(), made()
    stepper = Stepper(parted, list(other.parameters()))
    monkeypatch.setattr(stepper, "_kinds", [list(part.parameters()) for part in other.children()])
    steps: list[int] = []
    parted.register_step_post_hook(lambda *_: steps.append(1))
    for net, step in ((one, plain.step), (other, stepper.step)):
        for _ in range(3):
            net(torch.ones(3, 4)).square().sum().backward()
            step()
    assert len(steps) == 3
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    assert all(parameter.grad is not None for parameter in other.parameters())


def test_ranks_of_one_replica_between_those_of_another_cannot_shard() -> None:
    from paceline.parallel.execute.tensor import rows_of

    assert rows_of([[2, 3], [0, 1]]) == [[0, 1], [2, 3]]
    assert rows_of([[0, 2], [1, 3]]) == [[0, 2], [1, 3]]
    with pytest.raises(PlanError, match="lie between those of another"):
        rows_of([[0, 3], [1, 2]], "data 2 × tensor 2 (shard)")
