#include <algorithm>

#include "paceline/sim/pool/policy/policy.h"

namespace paceline::sim {
namespace {

constexpr PoolPolicyEntry kPolicies[] = {
    {"static", "what the user asks for, to the end", MakeStaticPolicy},
    {"dlrover", "DLRover's constants: 4 nodes more every 300 s, memory doubled after a kill",
     MakeDlroverPolicy},
    {"ours", "paceline's own code: sizes by measurement and history, memory before the limit",
     MakeOursPolicy},
};

}  // namespace

std::span<const PoolPolicyEntry> AllPoolPolicies() { return kPolicies; }

const PoolPolicyEntry* FindPoolPolicy(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kPolicies), std::end(kPolicies),
                   [&](const PoolPolicyEntry& entry) { return entry.name == name; });
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace paceline::sim
