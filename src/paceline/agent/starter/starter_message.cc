#include "paceline/agent/starter/starter_message.h"

#include <cstring>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"

namespace paceline::agent {
namespace {

using nlohmann::json;

StarterChild ChildOf(const json& message) {
  StarterChild child;
  child.pid = JsonInt<int32_t>(message, "pid");
  child.start_time_ticks = JsonInt<uint64_t>(message, "start_time");
  child.generation = JsonInt<uint64_t>(message, "generation");
  child.rank = JsonInt<int32_t>(message, "rank", -1);
  child.local_rank = JsonInt<uint32_t>(message, "local_rank");
  child.stopped_by = JsonInt<int32_t>(message, "stopped_by", 0);
  child.is_running = JsonBool(message, "running", false);
  if (JsonHasInt(message, "wait_status")) {
    child.wait_status = JsonInt<int32_t>(message, "wait_status");
  }
  return child;
}

StarterChildren ChildrenOf(const json& message) {
  StarterChildren result;
  const auto listed = message.find("children");
  if (listed == message.end() || !listed->is_array()) return result;
  for (const json& child : *listed) {
    if (child.is_object()) result.children.push_back(ChildOf(child));
  }
  return result;
}

StarterMessage ToMessage(const json& message) {
  const std::string type = JsonText(message, "type");
  if (type == "ready") {
    return StarterHello{.pid = JsonInt<int32_t>(message, "pid"),
                        .is_warm = JsonBool(message, "warm", false),
                        .why_cold = JsonText(message, "why_cold"),
                        .imports_ms = JsonInt<int64_t>(message, "imports_ms")};
  }
  if (type == "spawned") {
    return StarterSpawned{.id = JsonInt<uint64_t>(message, "id"),
                          .pid = JsonInt<int32_t>(message, "pid"),
                          .start_time_ticks = JsonInt<uint64_t>(message, "start_time"),
                          .how = JsonText(message, "how"),
                          .why_cold = JsonText(message, "why_cold"),
                          .took_us = JsonInt<int64_t>(message, "took_us")};
  }
  if (type == "spawn_failed") {
    return StarterSpawnFailed{JsonInt<uint64_t>(message, "id"), JsonText(message, "why")};
  }
  if (type == "exited") return StarterExited{ChildOf(message)};
  if (type == "children") return ChildrenOf(message);
  if (type == "error") return StarterRefused{JsonText(message, "why")};
  return StarterUnknown{};
}

}  // namespace

absl::StatusOr<std::optional<StarterMessage>> TakeStarterMessage(std::string* input) {
  uint32_t size = 0;
  if (input->size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, input->data(), sizeof(size));
  if (size == 0 || size > kStarterMessageBytesMax) {
    return absl::InvalidArgumentError("the starter sent a message of a forbidden size");
  }
  if (input->size() - sizeof(size) < size) return std::nullopt;
  const char* begin = input->data() + sizeof(size);
  const json message = ParseJson({begin, size});
  input->erase(0, sizeof(size) + size);
  if (!message.is_object()) {
    return absl::InvalidArgumentError("the starter sent something that is not a JSON object");
  }
  return ToMessage(message);
}

}  // namespace paceline::agent
