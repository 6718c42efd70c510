#include "paceline/cli/show/server_counts.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <numeric>
#include <span>

#include "paceline/base/fd.h"
#include "paceline/base/fnv.h"
#include "paceline/base/hex.h"
#include "paceline/base/json.h"
#include "paceline/base/socket_bytes.h"
#include "paceline/base/text.h"
#include "paceline/base/unix_dial.h"
#include "paceline/cli/job/job_place.h"
#include "paceline/ps/frame/table_frame.h"

namespace paceline::cli {
namespace {

Fd DialServer(const std::string& path, int patience_ms) {
  Fd fd = DialUnix(path, 0);
  if (!fd.is_open()) return fd;
  const timeval patience{.tv_sec = patience_ms / 1'000, .tv_usec = patience_ms % 1'000 * 1'000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  return fd;
}

// The body of the answer; none: there was no answer of that kind.
std::optional<std::string> AskServer(int fd, ps::TableOp op, std::string_view body,
                                     ps::TableOp expected) {
  const std::string frame = ps::EncodeFrame({.op = op, .number = 1}, body);
  if (!SendAll(fd, frame.data(), frame.size())) return std::nullopt;
  std::string head(ps::kTableHeadBytes, '\0');
  if (!ReceiveAll(fd, head.data(), head.size())) return std::nullopt;
  const auto read = ps::ReadHead(std::as_bytes(std::span(head)));
  if (!read || read->head.op != expected) return std::nullopt;
  std::string answer(read->head.bytes, '\0');
  if (!ReceiveAll(fd, answer.data(), answer.size())) return std::nullopt;
  return answer;
}

ServerCounts FromJson(const nlohmann::json& json) {
  ServerCounts counts{.server = json.value("server", 0u),
                      .pulls = json.value("pulls", uint64_t{0}),
                      .applied = json.value("applied", uint64_t{0}),
                      .skipped = json.value("skipped", uint64_t{0}),
                      .refused = json.value("refused", uint64_t{0}),
                      .longest_ns = json.value("longest_ns", uint64_t{0}),
                      .partitions = json.value("partitions", uint64_t{0}),
                      .tables = {}};
  for (const nlohmann::json& one : json.value("tables", nlohmann::json::array())) {
    counts.tables.push_back({.name = one.value("name", ""),
                             .dim = one.value("dim", 0u),
                             .optimizer = one.value("optimizer", ""),
                             .rows = one.value("rows", uint64_t{0}),
                             .bytes = one.value("bytes", uint64_t{0}),
                             .budget_bytes = one.value("budget_bytes", uint64_t{0}),
                             .admitted = one.value("admitted", uint64_t{0}),
                             .refused = one.value("refused", uint64_t{0}),
                             .is_closed = one.value("is_closed", false)});
  }
  return counts;
}

}  // namespace

uint64_t ServerCounts::rows() const {
  return std::accumulate(tables.begin(), tables.end(), uint64_t{0},
                         [](uint64_t sum, const ServedTable& one) { return sum + one.rows; });
}

uint64_t ServerCounts::bytes() const {
  return std::accumulate(tables.begin(), tables.end(), uint64_t{0},
                         [](uint64_t sum, const ServedTable& one) { return sum + one.bytes; });
}

std::optional<ServerCounts> CountsOfServer(const Environment& environment,
                                           const std::string& run_dir, uint32_t server,
                                           int patience_ms) {
  for (const std::string& directory : RuntimeDirectories(environment)) {
    const Fd fd = DialServer(
        Concat(directory, "/table-", Hex(Fnv1a(run_dir)), "-", server, ".sock"), patience_ms);
    if (!fd.is_open()) continue;
    const std::string hello = ps::EncodeHello({});
    if (!AskServer(fd.get(), ps::TableOp::kHello, hello, ps::TableOp::kWelcome)) continue;
    const auto text = AskServer(fd.get(), ps::TableOp::kCounts, "", ps::TableOp::kCounted);
    if (!text) continue;
    const nlohmann::json json = ParseJson(*text);
    if (json.is_object()) return FromJson(json);
  }
  return std::nullopt;
}

}  // namespace paceline::cli
