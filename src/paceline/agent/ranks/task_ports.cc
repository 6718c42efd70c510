#include "paceline/agent/ranks/task_ports.h"

#include "paceline/base/status_macros.h"

namespace paceline::agent {

absl::Status TaskPorts::Hold(uint32_t slots) {
  for (uint32_t slot = 0; slot < slots; ++slot) {
    StorePort& port = held_.emplace_back(seed_ + slot);
    RETURN_IF_ERROR(port.Hold());
    port.Lend();
  }
  return absl::OkStatus();
}

absl::Status TaskPorts::Keep(uint32_t slot, uint32_t port) {
  if (slot >= held_.size()) return absl::OutOfRangeError("no such slot");
  RETURN_IF_ERROR(held_[slot].HoldExactly(static_cast<uint16_t>(port)));
  held_[slot].Lend();
  return absl::OkStatus();
}

std::vector<uint32_t> TaskPorts::ports() const {
  std::vector<uint32_t> ports;
  for (const StorePort& port : held_) ports.push_back(port.port());
  return ports;
}

}  // namespace paceline::agent
