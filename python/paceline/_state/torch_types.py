"""torch's tensor types as named in a file, and tensors that a checkpoint cannot hold."""

import torch
from torch.nn.parameter import is_lazy

from paceline._base.wording import described
from paceline._state.save_plan import Box
from paceline._state.torch_state import is_sharded, local_part
from paceline.errors import CheckpointError

_NAMES: dict[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
DTYPES = {name: dtype for dtype, name in _NAMES.items()}

# Types without a name in the file. A complex number is saved as two reals on one more axis, the
# others as bytes. Notes list these tensors and their types.
_COMPLEX = {"complex32": "F16", "complex64": "F32", "complex128": "F64"}
_BYTES = ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")
_KINDS: dict[torch.dtype, tuple[str, str]] = {
    getattr(torch, kind): (kind, name)
    for kind, name in (_COMPLEX | dict.fromkeys(_BYTES, "U8")).items()
    if hasattr(torch, kind)  # an older torch lacks some types
}


def dtype_of(box: Box) -> torch.dtype:
    """The type of the box's tensor; the real type if this torch lacks the original one."""
    found = getattr(torch, box.kind, None) if box.kind else None
    return found if isinstance(found, torch.dtype) else DTYPES[box.dtype]


def shape_of(box: Box) -> tuple[int, ...]:
    """The shape of the box's whole tensor."""
    return box.whole[:-1] if dtype_of(box).is_complex else box.whole


def box_of(key: str, tensor: torch.Tensor) -> Box:
    """The part of a tensor in this process. Raises CheckpointError if it cannot be saved."""
    why = _why_not(tensor)
    if why:
        raise _refused(key, *why)
    local, offset = local_part(tensor)
    kind, name = _KINDS.get(local.dtype, ("", _NAMES.get(local.dtype, "")))
    if not name:
        raise _refused(key, f"it is a {local.dtype} tensor", "save it in another type")
    shape, whole = tuple(local.shape), tuple(tensor.shape)
    if kind in _COMPLEX:
        return Box(name, (*shape, 2), (*offset, 0), (*whole, 2), kind)
    return Box(name, shape, offset, whole, kind)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements are in memory in order, and as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def is_savable(tensor: torch.Tensor) -> bool:
    return not _why_not(tensor)


def _why_not(tensor: torch.Tensor) -> tuple[str, str] | None:
    """Why a checkpoint cannot hold the tensor, and the fix; None if it can."""
    if is_lazy(tensor):
        return "it has no shape yet", "run one forward pass of its lazy module before"
    if tensor.is_meta:
        return "it is on the meta device, and has no elements", "module.to_empty(device=…) before"
    if tensor.is_quantized:
        return f"it is a quantised {tensor.dtype} tensor", "save its int_repr(), scale, zero point"
    if tensor.is_nested:
        return "it is a nested tensor", "save the tensors that it is made of, tensor.unbind()"
    if is_sharded(tensor):
        return None
    if tensor.layout != torch.strided:
        dense = "save it by to_dense(), or its indices and values"
        return f"it is a sparse {tensor.dtype} tensor of layout {tensor.layout}", dense
    if hasattr(type(tensor), "__tensor_flatten__"):
        parts = "save the tensors that it is made of"
        return f"it is {described(tensor)}, which wraps other tensors", parts
    return None


def _refused(key: str, why: str, fix: str) -> CheckpointError:
    return CheckpointError(
        what=f"a checkpoint cannot hold {key}", where="the state", why=why, fix=fix, is_final=True
    )
