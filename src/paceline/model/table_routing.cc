#include "paceline/model/table_routing.h"

#include <algorithm>
#include <utility>

#include "paceline/base/text.h"

namespace paceline {
namespace {

// None: a word is no number up to `most`.
std::optional<std::vector<uint64_t>> NumbersOf(std::string_view line, uint64_t most) {
  std::vector<uint64_t> numbers;
  for (const std::string_view word : SplitParts(line, " ")) {
    const auto number = ParseWhole<uint64_t>(word);
    if (!number || *number > most) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

TableRouting::TableRouting(uint32_t servers) : version_(1) {
  servers_.resize(kTablePartitions);
  for (uint32_t i = 0; i < kTablePartitions; ++i) servers_[i] = static_cast<uint16_t>(i % servers);
}

std::optional<TableRouting> TableRouting::Of(uint64_t version, std::vector<uint16_t> servers) {
  const bool is_right =
      servers.size() == kTablePartitions &&
      std::all_of(servers.begin(), servers.end(), [](uint16_t s) { return s < kTableServersMax; });
  if (!is_right) return std::nullopt;
  TableRouting routing;
  routing.version_ = version;
  routing.servers_ = std::move(servers);
  return routing;
}

uint32_t TableRouting::CountOf(uint32_t server) const {
  return static_cast<uint32_t>(std::count(servers_.begin(), servers_.end(), server));
}

uint32_t TableRouting::end() const {
  return servers_.empty() ? 0u : *std::max_element(servers_.begin(), servers_.end()) + 1u;
}

void TableRouting::Move(const std::vector<uint32_t>& partitions, uint32_t to) {
  if (servers_.empty() || to >= kTableServersMax) return;  // only in a damaged journal
  for (const uint32_t partition : partitions) {
    if (partition < kTablePartitions) servers_[partition] = static_cast<uint16_t>(to);
  }
  ++version_;
}

std::optional<TableMove> NextTableMove(const TableRouting& routing, uint32_t servers, uint64_t id) {
  if (routing.empty() || servers == 0) return std::nullopt;
  const uint32_t known = std::max(servers, routing.end());
  std::vector<uint32_t> has(known, 0);
  for (const uint16_t server : routing.servers()) ++has[server];
  const auto target = [&](uint32_t server) {
    if (server >= servers) return 0u;
    return kTablePartitions / servers + (server < kTablePartitions % servers ? 1 : 0);
  };
  // The last one of those with most to give, and the first one of those that lack most. A server
  // that is to end comes before all others.
  uint32_t from = 0;
  uint32_t surplus = 0;
  uint32_t to = 0;
  uint32_t lack = 0;
  for (uint32_t server = 0; server < known; ++server) {
    const uint32_t wanted = target(server);
    const bool is_to_end = server >= servers && has[server] > 0;
    if (has[server] > wanted && (is_to_end || has[server] - wanted > surplus)) {
      from = server;
      surplus = has[server] - wanted;
    }
    if (wanted > has[server] && wanted - has[server] > lack) {
      to = server;
      lack = wanted - has[server];
    }
  }
  const uint32_t count = std::min({surplus, lack, kMovedAtOnceMax});
  if (count == 0) return std::nullopt;
  TableMove move{.id = id, .from = from, .to = to};
  for (uint32_t i = 0; i < kTablePartitions && move.partitions.size() < count; ++i) {
    if (routing.Of(i) == from) move.partitions.push_back(i);
  }
  return move;
}

// Lines: the id; the version; the server of each partition; id, from, to and partitions of a move.
std::string EncodeNews(const RoutingNews& news) {
  std::string text = Concat(news.id, "\n", news.routing.version(), "\n");
  for (const uint16_t server : news.routing.servers()) Append(&text, server, " ");
  Append(&text, "\n");
  if (!news.move) return text;
  Append(&text, news.move->from, " ", news.move->to);
  for (const uint32_t partition : news.move->partitions) Append(&text, " ", partition);
  Append(&text, "\n");
  return text;
}

std::optional<RoutingNews> ParseNews(std::string_view text) {
  const std::vector<std::string_view> lines = SplitParts(text, "\n");
  if (lines.size() < 3 || lines.size() > 4) return std::nullopt;
  const auto id = ParseWhole<uint64_t>(lines[0]);
  const auto version = ParseWhole<uint64_t>(lines[1]);
  const auto servers = NumbersOf(lines[2], kTableServersMax - 1);
  if (!id || !version || !servers) return std::nullopt;
  const auto routing = TableRouting::Of(*version, {servers->begin(), servers->end()});
  if (!routing) return std::nullopt;
  RoutingNews news{.id = *id, .routing = *routing};
  if (lines.size() == 3) return news;
  const auto move = NumbersOf(lines[3], kTablePartitions - 1);
  if (!move || move->size() < 3 || move->size() > kMovedAtOnceMax + 2) return std::nullopt;
  news.move = TableMove{.id = *id,
                        .from = static_cast<uint32_t>((*move)[0]),
                        .to = static_cast<uint32_t>((*move)[1])};
  news.move->partitions.assign(move->begin() + 2, move->end());
  return news;
}

std::string EncodeTaken(const PartitionsTaken& taken) {
  return Concat(taken.id, " ", taken.from, " ", taken.to, " ", taken.count, " ",
                taken.from_generation, " ", taken.to_generation);
}

std::optional<PartitionsTaken> ParseTaken(std::string_view text) {
  const auto numbers = NumbersOf(text, UINT64_MAX);
  if (!numbers || numbers->size() != 6) return std::nullopt;
  const std::vector<uint64_t>& all = *numbers;
  if (all[1] >= kTableServersMax || all[2] >= kTableServersMax || all[3] > kMovedAtOnceMax) {
    return std::nullopt;
  }
  return PartitionsTaken{.id = all[0],
                         .from = static_cast<uint32_t>(all[1]),
                         .to = static_cast<uint32_t>(all[2]),
                         .count = static_cast<uint32_t>(all[3]),
                         .from_generation = all[4],
                         .to_generation = all[5]};
}

}  // namespace paceline
