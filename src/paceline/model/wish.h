#pragma once

// The nodes that the master asks of the platform which starts them: the launcher of one machine, or
// a cluster's operator.
//
// A wish is complete, never a change. It replaces the one before and is repeated to each new
// connection, so a lost, late or repeated wish does no harm. Nodes are node0, node1, … A replaced
// node gets a higher incarnation under its old name, so that its old ranks differ from its new ones
// wherever they still run.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct Wish {
  enum class Intent {
    kRun,
    kDrain,  // the job ends: no node is started any more
  };
  uint64_t seq = 0;  // of the journal's last record; a higher one is newer
  Intent intent = Intent::kRun;
  uint32_t size = 0;                          // largest number of training nodes
  uint32_t spares = 0;                        // further nodes in reserve
  std::map<uint32_t, uint32_t> incarnations;  // by index, if not 0
  std::set<uint32_t> absent;                  // indexes below size + spares that are not wished for
  std::vector<std::string> excluded;          // hosts on which no further node is to be started

  uint32_t IncarnationOf(uint32_t index) const {
    const auto found = incarnations.find(index);
    return found == incarnations.end() ? 0 : found->second;
  }
  bool operator==(const Wish&) const = default;
};

// The number at the end of a node's name; none if there is none.
inline std::optional<uint32_t> IndexOfNode(std::string_view name) {
  constexpr size_t kDigitsMax = 6;
  size_t begin = name.size();
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  const std::string_view digits = name.substr(begin);
  const bool has_zero_in_front = digits.size() > 1 && digits.front() == '0';
  if (digits.empty() || digits.size() > kDigitsMax || has_zero_in_front) return std::nullopt;
  uint32_t index = 0;
  for (const char digit : digits) index = index * 10 + static_cast<uint32_t>(digit - '0');
  return index;
}

// The name of a node that a platform starts.
inline std::string NameOfNode(uint32_t index) { return "node" + std::to_string(index); }

}  // namespace paceline
