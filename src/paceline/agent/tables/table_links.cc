#include "paceline/agent/tables/table_links.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "paceline/agent/ranks/task_env.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/base/host_text.h"
#include "paceline/base/log.h"
#include "paceline/base/text.h"
#include "paceline/base/unix_dial.h"
#include "paceline/model/task.h"

namespace paceline::agent {
namespace {

constexpr size_t kConnectionsMax = 4'096;  // to one table server
constexpr std::chrono::milliseconds kRetry{200};
// A worker dials again at once when a connection ends. While the server is away, each attempt costs
// a handshake, so an attempt takes this long at least.
constexpr int kPauseMs = 100;

bool IsServer(const Task& task) { return KindOfTask(task.rank) == TaskKind::kPs; }

}  // namespace

WantedLinks LinksOf(const Assignment& order, const LinksPlace& place) {
  WantedLinks wanted;
  if (!place.has_tables) return wanted;
  const auto is_elsewhere = [&](const Task& task) { return task.host != place.host; };
  if (std::none_of(order.cluster.begin(), order.cluster.end(), is_elsewhere)) return wanted;
  const auto socket_of = [&](const Task& task) {
    return TableSocket(place.beside, place.run_dir, NumberOfTask(task.rank));
  };
  for (const Task& task : order.cluster) {
    if (!IsServer(task) || !is_elsewhere(task)) continue;
    wanted.sockets[socket_of(task)] = Concat(Bracketed(task.host), ":", task.port);
  }
  for (const Task& task : order.tasks) {
    if (IsServer(task)) wanted.gates[task.port] = socket_of(task);
  }
  return wanted;
}

TableLinks::~TableLinks() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TableLinks::Take(const Assignment& order) {
  WantedLinks wanted = LinksOf(order, place_);
  const std::lock_guard lock(mutex_);
  const bool is_nothing = wanted == WantedLinks{};
  if (!thread_.joinable()) {
    if (is_nothing) return;
    thread_ = std::thread([this] { Work(); });
  }
  wanted_ = std::move(wanted);
  changed_.notify_all();
}

void TableLinks::Work() {
  WantedLinks wanted;
  bool is_done = true;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [this] { return is_ending_ || wanted_.has_value(); };
      if (is_done) {
        changed_.wait(lock, has_news);
      } else {
        changed_.wait_for(lock, kRetry, has_news);
      }
      if (is_ending_) break;
      if (wanted_) wanted = *std::exchange(wanted_, std::nullopt);
    }
    is_done = Arrange(wanted);
  }
  Arrange({});
}

bool TableLinks::Arrange(const WantedLinks& wanted) {
  std::erase_if(sockets_, [&](const auto& one) {
    const auto found = wanted.sockets.find(one.first);
    return found == wanted.sockets.end() || found->second != one.second.address;
  });
  std::erase_if(gates_, [&](const auto& one) {
    const auto found = wanted.gates.find(one.first);
    return found == wanted.gates.end() || found->second != one.second.socket;
  });
  bool is_done = true;
  for (const auto& [path, address] : wanted.sockets) {
    if (!sockets_.contains(path)) is_done = OpenSocket(path, address) && is_done;
  }
  for (const auto& [port, socket] : wanted.gates) {
    if (!gates_.contains(port)) is_done = OpenGate(port, socket) && is_done;
  }
  return is_done;
}

bool TableLinks::OpenSocket(const std::string& path, const std::string& address) {
  // Listening would take the path away from a table server that still lives here, or from another
  // agent of this host.
  if (DialUnix(path, 0).is_open()) {
    TellOnce(path, "a process of this host listens there");
    return false;
  }
  if (tls_ == nullptr) {
    auto tls = wire::BulkTls::Make(credentials_);
    if (!tls.ok()) {
      TellOnce(path, std::string(tls.status().message()));
      return false;
    }
    tls_ = *std::move(tls);
  }
  auto server = LocalServer::Listen(path, kConnectionsMax, [this, address](const Fd& local) {
    const int64_t from = MonotonicNs();
    const absl::Status carried = wire::CarryToGate(local, address, credentials_, *tls_);
    if (absl::IsPermissionDenied(carried)) LogWarning("table_link", {{"why", carried}});
    const int64_t left = kPauseMs - (MonotonicNs() - from) / 1'000'000;
    if (left > 0) ::poll(nullptr, 0, static_cast<int>(left));
  });
  if (!server.ok()) {
    TellOnce(path, std::string(server.status().message()));
    return false;
  }
  LogInfo("table_link", {{"socket", path}, {"to", address}});
  sockets_[path] = {address, *std::move(server)};
  return true;
}

bool TableLinks::OpenGate(uint32_t port, const std::string& socket) {
  const std::string listen = Concat(Bracketed(place_.host), ":", port);
  auto gate =
      wire::TableGate::Start(listen, credentials_, [socket] { return DialUnix(socket, 0); });
  if (!gate.ok()) {
    TellOnce(listen, std::string(gate.status().message()));
    return false;
  }
  LogInfo("table_gate", {{"listen", listen}, {"socket", socket}});
  gates_[port] = {socket, *std::move(gate)};
  return true;
}

void TableLinks::TellOnce(const std::string& what, const std::string& why) {
  std::string& told = told_[what];
  if (told == why) return;
  told = why;
  LogWarning("table_link_waits", {{"what", what}, {"why", why}});
}

}  // namespace paceline::agent
