"""The table of what can be carried out, against the installed transformers."""

import json

import pytest
import torch
import transformers
from paceline.parallel import own_plans, planner
from paceline.parallel.layers import layers_of
from paceline.parallel.tensor import division_of, sequence_of
from torch import nn

from paceline import _native

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32, "head_dim": 8,
         "tie_word_embeddings": False}  # fmt: skip
OTHER_SIZES = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 32, "n_positions": 8},
    "vit": {**SIZES, "image_size": 8, "patch_size": 4},
}
CLASSES = {"bert": "AutoModelForMaskedLM", "roberta": "AutoModelForMaskedLM",
           "vit": "AutoModelForImageClassification"}  # fmt: skip


def made(kind: str) -> nn.Module:
    sizes = OTHER_SIZES.get(kind, SIZES) | {"tie_word_embeddings": False}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    with torch.device("meta"):
        return getattr(transformers, CLASSES.get(kind, "AutoModelForCausalLM")).from_config(config)


@pytest.mark.parametrize("kind", sorted(_native.library_plans()))
def test_the_table_says_what_parallelize_does_with_the_family(kind: str) -> None:
    has_tensor, has_pipeline = _native.library_plans()[kind]
    model = made(kind)
    why = division_of(model).why
    assert (why == "") == has_tensor, why
    assert has_tensor or planner.lacks("tensor", kind) in why
    why = layers_of(model).no_pipeline
    assert (why == "") == has_pipeline, why
    assert has_pipeline or planner.lacks("pipeline", kind) in why


@pytest.mark.parametrize(
    "kind", sorted(kind for kind, (tensor, _) in _native.library_plans().items() if tensor)
)
def test_what_ranks_share_they_can_divide_by_tokens(kind: str) -> None:
    # `paceline plan` takes this for granted of all families with a tensor plan.
    model = made(kind)
    division = division_of(model)
    blocks = {name: one for name, one in model.named_modules() if name[:-1] == "model.layers."}
    assert len(blocks) == 2
    for name, block in blocks.items():
        parts = sequence_of(name, block, division)
        assert parts is not None
        assert parts.regions == [f"{name}.self_attn", f"{name}.mlp"]
        assert parts.norms == [f"{name}.input_layernorm", f"{name}.post_attention_layernorm"]


def test_a_plan_of_a_family_says_what_it_needs() -> None:
    plan = {
        "schema": "paceline.plan/1", "model": "", "global_batch": 2, "data": 1, "tensor": 2,
        "shard": False, "recompute": False, "micro_batches": 1, "schedule": "none",
        "stages": [{"layers": [0, 1], "ranks": [0, 1]}], "shares": [2], "unused": [],
        "predicted": {"step": 1.0, "compute": 1.0, "communication": 0.0, "bubble": 0.0,
                      "memory": [1]},
        "bound": 1.0, "because": "", "rejected": [],
    }  # fmt: skip
    text = json.dumps(plan)
    assert _native.plan_needs(text, "llama") == []
    assert _native.plan_needs(text, "gpt2") == [
        "a tensor plan for gpt2 models, which transformers does not have"
    ]
    stages = [{"layers": [0, 1], "ranks": [0]}, {"layers": [1, 2], "ranks": [1]}]
    predicted = {**plan["predicted"], "memory": [1, 1]}
    two = json.dumps({**plan, "tensor": 1, "schedule": "1f1b", "stages": stages,
                      "predicted": predicted})  # fmt: skip
    assert _native.plan_needs(two, "gpt2") == [], "paceline has one"
    assert _native.plan_needs(two, "bert") == [
        "a pipeline plan for bert models, which transformers does not have"
    ]


@pytest.mark.parametrize("kind", own_plans.model_types())
def test_transformers_has_no_plan_where_paceline_brings_one(kind: str) -> None:
    # If this fails, compare transformers' plan with the one here, and take theirs if it serves.
    model = made(kind)
    assert not getattr(model.config, "base_model_pp_plan", None)
    layers = layers_of(model)
    assert [name for name in (*layers.added, *layers.passed) if model.get_submodule(name)]
    left = {name for name, _ in model.named_parameters()}
    for inside in (*layers.names, *layers.added, *layers.passed):
        left -= {name for name in left if name.startswith(f"{inside}.")}
    assert not left, "each parameter is in a stage"
