#include "paceline/cli/run/node_names.h"

#include <algorithm>
#include <set>

#include "paceline/base/text.h"
#include "paceline/cli/run/request.h"

namespace paceline::cli {

std::vector<std::string> NodesNamed(const std::string& name, uint32_t count) {
  std::vector<std::string> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    if (name.empty()) {
      nodes.push_back(Concat("node", i));
    } else {
      nodes.push_back(count == 1 ? name : Concat(name, "-", i));
    }
  }
  return nodes;
}

std::string FreeNodeName(const std::string& host_name, uint32_t count,
                         const std::vector<std::pair<std::string, JobCard>>& registered) {
  std::set<std::string> taken;
  for (const auto& [run_dir, card] : registered) {
    if (agent::IsAlive(card.launcher)) taken.insert(card.nodes.begin(), card.nodes.end());
  }
  const std::string usual = ToName(host_name);
  std::string name = usual;
  const auto is_taken = [&](const std::string& node) { return taken.contains(node); };
  for (int number = 2;; ++number) {
    const std::vector<std::string> nodes = NodesNamed(name, count);
    if (std::none_of(nodes.begin(), nodes.end(), is_taken)) return name;
    name = Concat(usual, "-", number);
  }
}

}  // namespace paceline::cli
