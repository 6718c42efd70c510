"""Pipeline plans for models for which transformers has none (`base_model_pp_plan`).

    plan_of("gpt2").layers  # ("wte", "h", "ln_f")

A model of transformers runs its whole forward pass in each stage, with stand-ins for the layers of
other stages. What the model does between its first and its second layer must have no effect in
later stages, so a plan here also names the modules that work there.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Names of children of the base model, and of the heads of its classes."""

    layers: tuple[str, ...]  # in the order in which they run; a list of blocks counts as its blocks
    added: tuple[str, ...] = ()  # the model adds their outputs to the first layer's
    passed: tuple[str, ...] = ()  # the sum passes through them before the second layer
    heads: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


_PLANS = {
    "gpt2": PipelinePlan(
        ("wte", "h", "ln_f"), added=("wpe",), passed=("drop",),
        heads={"GPT2LMHeadModel": ("lm_head",)},
    ),
}  # fmt: skip


def plan_of(model_type: str) -> PipelinePlan | None:
    """The plan for that `model_type` of a config; None if there is none here."""
    return _PLANS.get(model_type)


def model_types() -> list[str]:
    """The kinds of model that have a plan here."""
    return sorted(_PLANS)
