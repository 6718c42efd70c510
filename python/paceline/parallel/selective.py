"""What selective recomputation keeps of a forward pass.

Kept are the results of products with weights, of attention kernels, and of sums over the ranks that
share layers. The backward pass computes all else again: norms, activations, positions, and the
scores of attention that has no kernel of its own. Kept results take most of a pass to compute and
about half of its memory.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# By namespace of torch.ops. A torch that lacks one of these calls has no such operation to keep.
_PRODUCTS = ("mm", "addmm", "linear", "convolution")
_ATTENTION = (
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
)
_SUMS = ("all_reduce", "reduce_scatter_tensor")


def _found(namespace: Any, names: tuple[str, ...]) -> set[Any]:
    return {getattr(namespace, name) for name in names if hasattr(namespace, name)}


def kept_calls() -> set[Any]:
    """The operations whose results are kept, of one rank's work."""
    return _found(torch.ops.aten, _PRODUCTS + _ATTENTION)


def kept_sums() -> set[Any]:
    """The sums over ranks whose results are kept."""
    return _found(torch.ops._c10d_functional, _SUMS)


def contexts() -> Any:
    """The contexts of a forward pass and of its recomputation, for torch's checkpoint."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

    kept = kept_calls() | kept_sums()

    def policy(_: Any, call: Any, *_args: Any, **_options: Any) -> Any:
        is_kept = call.overloadpacket in kept
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


class Keeping(TorchDispatchMode):
    """Tells `keep` the results of the operations that are kept, as they are computed."""

    def __init__(self, keep: Any) -> None:
        super().__init__()
        self._calls, self._keep = kept_calls(), keep

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if func.overloadpacket in self._calls:
            for one in found if isinstance(found, (tuple, list)) else (found,):
                if isinstance(one, torch.Tensor):
                    self._keep(one)
        return found

