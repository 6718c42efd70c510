"""Which tensors a save copies directly from their device, and how."""

import logging

import torch

from paceline._native import Device

# NVIDIA's driver. It is loaded if a tensor is on a GPU.
LIBRARY = "libcuda.so.1"


class TorchDevice:
    """The one device whose tensors are copied directly. Others are copied through host memory.

    `device.reads(tensor)` chooses the device of the first tensor that can be copied directly.
    """

    def __init__(self) -> None:
        self.native: Device | None = None
        self._of: torch.device | None = None
        self._is_refused = False

    def reads(self, tensor: torch.Tensor) -> bool:
        if not is_on_gpu(tensor) or self._is_refused:
            return False
        if self.native is None:
            try:
                self.native = Device.open_cuda(LIBRARY)
            except (LookupError, RuntimeError) as error:
                self._is_refused = True
                logging.getLogger("paceline").warning(
                    "saves copy tensors of %s twice, by way of pinned memory: %s",
                    tensor.device,
                    error,
                )
                return False
            self._of = tensor.device
        return tensor.device == self._of

    def stream(self) -> int:
        """The handle of the stream on which the training works now."""
        return present_stream(self._of)


# Functions of their own, so that tests without a GPU can replace them.
def is_on_gpu(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda and torch.version.hip is None


def present_stream(device: torch.device | None) -> int:
    return torch.cuda.current_stream(device).cuda_stream
