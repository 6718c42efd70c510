"""The summary of a model, against numbers computed by hand."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from paceline.parallel import PlanError, cluster, describe
from paceline.parallel.describe import text_of
from paceline.parallel.layers import layers_of
from paceline.parallel.planner import choose
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

ADAM = torch.optim.AdamW


def made_sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Linear(32, 32),
                         nn.Linear(32, 4))  # fmt: skip


PAIR = (torch.zeros(6, 8), torch.zeros(6, 4))


SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "model.json").read_text())


def by_name(summary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in summary["layers"]}


def test_an_mlp_is_described_by_hand() -> None:
    summary = describe(mlp(), PAIR, mse_loss, optimizer=ADAM)
    Draft202012Validator(SCHEMA).validate(json.loads(text_of(summary)))
    rows = by_name(summary)
    assert rows["0"] == {"name": "0", "flops": 2 * 8 * 32, "parameters": 8 * 32 + 32,
                         "saved": 4 * 8, "output": 4 * 32}
    # ReLU keeps its result, which the next layer keeps as its input: it counts once.
    assert rows["1"] == {"name": "1", "flops": 0, "parameters": 0, "saved": 4 * 32,
                         "output": 4 * 32}
    assert rows["{}"] == {"name": "{}", "first": 2, "count": 2, "flops": 2 * 32 * 32,
                          "parameters": 32 * 32 + 32, "saved": 4 * 32 // 2, "output": 4 * 32}
    # Its input, and output and targets for the loss.
    assert rows["4"]["saved"] == 4 * 32 + 4 * 4 + 4 * 4


def test_bytes_of_a_parameter_follow_from_optimizer_and_precision() -> None:
    fp32 = describe(mlp(), PAIR, mse_loss, optimizer=ADAM)["bytes"]
    assert fp32 == {"weight": 4, "gradient": 4, "optimizer": 8, "compute": 4}
    bf16 = describe(mlp(), PAIR, mse_loss, optimizer=made_sgd, precision="bf16")
    assert bf16["bytes"] == {"weight": 4, "gradient": 4, "optimizer": 0, "compute": 2}
    assert by_name(bf16)["0"]["output"] == 2 * 32, "autocast hands on two bytes a number"


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}], ids=str)
def test_an_optimizer_of_lists_is_asked_as_any_other(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    def moments(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **options)

    assert describe(mlp(), PAIR, mse_loss, optimizer=moments)["bytes"]["optimizer"] == 4
    assert not caplog.records, "nothing is assumed"


def test_the_meta_device_gives_the_same_text() -> None:
    whole = describe(mlp(), PAIR, mse_loss, optimizer=ADAM)
    with torch.device("meta"):
        empty = describe(mlp(), (torch.zeros(6, 8), torch.zeros(6, 4)), mse_loss, optimizer=ADAM)
    assert text_of(whole) == text_of(empty)


def test_a_description_leaves_model_and_chance_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    model.eval()
    before, chance = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    describe(model, PAIR, mse_loss, optimizer=ADAM)
    assert torch.equal(torch.get_rng_state(), chance) and not model.training
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())


def llama(**options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=16, intermediate_size=40, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=2, vocab_size=64, **options))  # fmt: skip


def next_token(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(logits.flatten(0, 1), labels.flatten())


TOKENS = {"input_ids": torch.zeros(4, 10, dtype=torch.long),
          "labels": torch.zeros(4, 10, dtype=torch.long)}


def test_a_llama_is_described_by_hand() -> None:
    summary = describe(llama(tie_word_embeddings=False), TOKENS, next_token, optimizer=ADAM)
    assert [row["name"] for row in summary["layers"]] == [
        "model.embed_tokens", "model.layers.{}", "model.norm", "lm_head"]
    assert summary["no_pipeline"] == ""
    embed, block, norm, head = summary["layers"]
    h, f, s, v = 16, 40, 10, 64
    assert (block["count"], "first" in block, "cut" in block) == (3, False, False)
    # Four projections, two products of attention, three of the MLP.
    assert block["flops"] == 2 * s * (4 * h * h + 3 * h * f) + 2 * 2 * s * s * h
    assert block["parameters"] == 4 * h * h + 3 * h * f + 2 * h
    assert (embed["flops"], norm["flops"], head["flops"]) == (0, 0, 2 * s * h * v)
    assert (embed["parameters"], head["parameters"]) == (v * h, v * h)
    assert (block["output"], head["output"]) == (4 * s * h, 4 * s * v)
    # The numbers of indices are eight bytes each.
    assert embed["saved"] == 8 * s
    # At the least the inputs of the matrix products: two norms, attention, MLP twice.
    assert block["saved"] >= 4 * s * (3 * h + 3 * h + h + h + 3 * f)
    assert block["saved"] <= 4 * s * (20 * h + 5 * f)


def test_a_weight_of_the_first_and_the_last_layer_is_copied() -> None:
    summary = describe(llama(tie_word_embeddings=True), TOKENS, next_token, optimizer=ADAM)
    assert not any("cut" in row for row in summary["layers"]) and summary["no_pipeline"] == ""
    head = summary["layers"][-1]
    assert (head["parameters"], head["copied"]) == (0, 64 * 16), "it counts where it is first"


def test_weights_of_other_layers_forbid_the_cuts_between() -> None:
    layers = [nn.Linear(8, 8) for _ in range(5)]
    layers[3].weight = layers[1].weight
    summary = describe(nn.Sequential(*layers), (torch.zeros(4, 8), torch.zeros(4, 8)), mse_loss)
    sentence = "layer 1 and layer 3 share weights"
    cuts = [row.get("cut") for row in summary["layers"] for _ in range(row.get("count", 1))]
    assert cuts == [None, sentence, sentence, None, None]
    assert not any("copied" in row for row in summary["layers"])


def test_weights_of_three_layers_and_whole_modules_are_not_copied() -> None:
    pair = (torch.zeros(4, 8), torch.zeros(4, 8))
    layers = [nn.Linear(8, 8) for _ in range(3)]
    layers[1].weight = layers[2].weight = layers[0].weight
    inner = nn.Linear(8, 8)
    ends = [nn.Sequential(inner, nn.Tanh()), nn.Linear(8, 8), nn.Sequential(nn.Tanh(), inner)]
    for some in (layers, ends):
        summary = describe(nn.Sequential(*some), pair, mse_loss)
        assert summary["no_pipeline"] == "layer 0 and layer 2 share weights"
        assert not any("copied" in row for row in summary["layers"])


def gpt2(kind: str = "GPT2LMHeadModel", **options: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    return getattr(transformers, kind)(transformers.GPT2Config(
        n_embd=16, n_layer=3, n_head=2, vocab_size=64, n_positions=12, **options))  # fmt: skip


def test_a_gpt2_is_described_by_hand() -> None:
    summary = describe(gpt2(), TOKENS, next_token, optimizer=ADAM)
    assert [row["name"] for row in summary["layers"]] == [
        "transformer.wte", "transformer.h.{}", "transformer.ln_f", "lm_head"]
    assert summary["no_pipeline"] == "" and not any("cut" in row for row in summary["layers"])
    words, block, _, head = summary["layers"]
    h, s, v = 16, 10, 64
    assert words["parameters"] == (v + 12) * h, "with the table of positions"
    assert (words["output"], head["copied"]) == (4 * s * h, v * h)
    assert block["count"] == 3
    # Three projections and one; two products of attention; two of the MLP.
    assert block["flops"] == 2 * s * (4 * h * h + 8 * h * h) + 2 * 2 * s * s * h


def test_a_gpt2_with_other_uses_of_its_first_layer_is_no_pipeline() -> None:
    typed = {**TOKENS, "token_type_ids": torch.zeros(4, 10, dtype=torch.long)}
    assert describe(gpt2(), typed, next_token)["no_pipeline"] == "transformer.wte is called 2 times"
    double = layers_of(gpt2("GPT2DoubleHeadsModel"))
    assert "no pipeline plan for lm_head of GPT2DoubleHeadsModel" in double.no_pipeline


class Scaled(nn.Sequential):
    """Its forward pass is more than its children, one after the other."""

    def __init__(self, before: float, behind: float) -> None:
        super().__init__(nn.Linear(8, 8), nn.Linear(8, 4))
        self.before, self.behind = before, behind

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self[0](x)
        output = self[1](hidden if self.before == 1 else hidden * self.before)
        return output if self.behind == 1 else output * self.behind


class Skipping(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = self[0](x)
        return self[2](self[1](first), first)


@pytest.mark.parametrize(
    ("model", "why"),
    [(Scaled(1, 1), ""),
     (Scaled(2, 1), "the model computes something itself before 1"),
     (Scaled(1, 2), "the model computes something behind 1"),
     (Skipping(nn.Linear(8, 4), nn.Linear(4, 4), nn.Bilinear(4, 4, 4)),
      "2 takes more than the output of the layer before")],
)  # fmt: skip
def test_a_model_that_is_more_than_its_layers_has_no_pipeline(model: Any, why: str) -> None:
    assert describe(model, PAIR, mse_loss, optimizer=ADAM)["no_pipeline"] == why


def test_a_model_that_caps_its_logits_has_no_pipeline() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    model = transformers.Gemma2ForCausalLM(transformers.Gemma2Config(
        hidden_size=16, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=8, vocab_size=64, tie_word_embeddings=False))  # fmt: skip
    assert "computes something" in describe(model, TOKENS, next_token)["no_pipeline"]


class Twice(nn.Module):
    """A list of blocks with something before and after it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(5))
        self.enter = nn.Linear(8, 16)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.leave = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def test_a_list_of_blocks_has_layers_but_no_pipeline() -> None:
    summary = describe(Twice(), PAIR, mse_loss, optimizer=ADAM)
    assert [row["name"] for row in summary["layers"]] == ["enter", "blocks.{}", "leave"]
    assert summary["layers"][0]["parameters"] == 8 * 16 + 16 + 5
    assert summary["no_pipeline"] == (
        "the forward pass of Twice cannot be cut: it is no nn.Sequential, and has no pipeline "
        "plan of transformers")


def test_a_model_without_any_place_to_cut_says_why() -> None:
    words = torch.zeros(4, 5, dtype=torch.long)
    inner = nn.Sequential(nn.Embedding(16, 8))  # a module that two layers have: no copies
    model = nn.Sequential(inner, nn.Linear(8, 8), nn.Linear(8, 16, bias=False))
    model[2].weight = inner[0].weight
    model[2].words = inner

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return cross_entropy(output.flatten(0, 1), target.flatten())

    summary = describe(model, (words, words), loss, optimizer=made_sgd)
    assert summary["no_pipeline"] == "layer 0 and layer 2 share weights"
    with pytest.raises(PlanError, match="no plan is as it was asked for") as caught:
        choose(text_of(summary), cluster.without_numbers([["any", 2]]),
               {"global_batch": 4, "pipeline": [2]})  # fmt: skip
    assert "layer 0 and layer 2 share weights" in caught.value.why


def test_one_module_is_one_layer() -> None:
    summary = describe(nn.Linear(8, 4), PAIR, mse_loss, optimizer=ADAM)
    assert [row["name"] for row in summary["layers"]] == ["model"]
    assert summary["no_pipeline"] == "Linear has neither an nn.Sequential nor a list of layers"


class ByValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : int(x.sum().item())]


def test_a_forward_pass_that_reads_values_is_refused_in_four_parts() -> None:
    with pytest.raises(PlanError, match="cannot be described") as caught:
        describe(ByValue(), PAIR, mse_loss)
    assert caught.value.where == "ByValue, 2 samples"
    assert "depend on the values" in caught.value.fix


class Reader(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for one in group["params"]:
                float(one.sum())


class Stubborn(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:
        raise ValueError("not without a closure")


def test_an_optimizer_that_reads_values_gets_small_tensors(
    caplog: pytest.LogCaptureFixture
) -> None:
    summary = describe(mlp(), PAIR, mse_loss, optimizer=lambda p: Reader(p, lr=1))
    assert summary["bytes"]["optimizer"] == 0 and not caplog.records


def test_an_optimizer_that_cannot_step_is_told_and_assumed(
    caplog: pytest.LogCaptureFixture
) -> None:
    summary = describe(mlp(), PAIR, mse_loss, optimizer=lambda p: Stubborn(p, lr=1))
    assert summary["bytes"]["optimizer"] == 8
    assert "8 bytes a parameter are assumed: not without a closure" in caplog.text
