#include "paceline/wire/security/unproven.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"
#include "paceline/wire/security/peer_limits.h"

namespace paceline::wire {
namespace {

std::string HostOf(const std::string& key) { return key.substr(0, key.rfind(':')); }

// gRPC writes IPv6 addresses as a URI: "ipv6:%5Bfe80::1%252%5D:4711".
std::string PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(&text[i + 1], &text[i + 3], value, 16).ptr == &text[i + 3];
    decoded += is_code ? static_cast<char>(value) : text[i];
    if (is_code) i += 2;
  }
  return decoded;
}

// A descriptor of our own, because gRPC may close its own at any time, and the number may be used
// again. Closed if gRPC's is not that socket any more.
Fd OwnDescriptor(const Connection& connection) {
  Fd own(fcntl(connection.fd, F_DUPFD_CLOEXEC, 0));
  struct stat found {};
  if (!own.is_open() || fstat(own.get(), &found) != 0) return Fd();
  if (!S_ISSOCK(found.st_mode) || found.st_ino != connection.inode) return Fd();
  return own;
}

// None: the connection is closed.
std::optional<uint64_t> BytesReceived(const Connection& connection) {
  const Fd own = OwnDescriptor(connection);
  if (!own.is_open()) return std::nullopt;
  tcp_info info{};
  socklen_t size = sizeof(info);
  const bool is_known = getsockopt(own.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
  return is_known ? info.tcpi_bytes_received : 0;
}

}  // namespace

std::string PeerKey(std::string_view peer) {
  if (peer.starts_with("ipv4:")) return std::string(peer.substr(5));
  if (!peer.starts_with("ipv6:")) return "";
  std::string key = PercentDecoded(peer.substr(5));
  const size_t scope = key.find('%');
  const size_t end = key.find(']');
  if (scope != std::string::npos && end != std::string::npos && scope < end) {
    key.erase(scope, end - scope);
  }
  return key;
}

std::string PeerKey(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return Concat(text.data(), ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  const in6_addr& host = v6.sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&host)) {
    inet_ntop(AF_INET, &host.s6_addr[12], text.data(), text.size());
    return Concat(text.data(), ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &host, text.data(), text.size());
  return Concat("[", text.data(), "]:", ntohs(v6.sin6_port));
}

void ShutDown(const Connection& connection) {
  if (const Fd own = OwnDescriptor(connection); own.is_open()) shutdown(own.get(), SHUT_RDWR);
}

uint64_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

UnprovenConnections::Bounds UnprovenConnections::BoundsFor(std::string_view listen, uint32_t asked,
                                                           uint32_t all, uint64_t descriptors) {
  constexpr uint32_t kPerHost = 1024;
  all = std::max(all, kPerHost);  // a small server also needs places for handshakes
  all = static_cast<uint32_t>(std::min<uint64_t>(all, descriptors / 2));
  const uint32_t per_host = asked > 0 ? asked : IsLoopbackAddress(listen) ? all : kPerHost;
  return {.per_host = std::min(per_host, all), .in_all = all};
}

// The lock must be held.
Connection UnprovenConnections::Remove(Order order) {
  auto node = connections_.extract(order);
  Connection connection = std::move(node.mapped());
  by_peer_.erase(connection.peer);
  const auto host = by_host_.find(HostOf(connection.peer));
  host->second.erase(order);
  if (host->second.empty()) by_host_.erase(host);
  return connection;
}

std::optional<Connection> UnprovenConnections::Add(Connection connection) {
  const std::lock_guard lock(mutex_);
  // The same port again: the earlier connection has ended.
  if (const auto former = by_peer_.find(connection.peer); former != by_peer_.end()) {
    Remove(former->second);
  }
  std::optional<Connection> out;
  const std::string host = HostOf(connection.peer);
  if (const auto of_host = by_host_.find(host);
      of_host != by_host_.end() && of_host->second.size() >= bounds_.per_host) {
    out = Remove(*of_host->second.begin());
  } else if (!connections_.empty() && connections_.size() >= bounds_.in_all) {
    out = Remove(connections_.begin()->first);
  }
  const Order order = ++last_;
  by_peer_[connection.peer] = order;
  by_host_[host].insert(order);
  connections_[order] = std::move(connection);
  return out;
}

void UnprovenConnections::Prove(std::string_view peer) {
  const std::string key = PeerKey(peer);
  const std::lock_guard lock(mutex_);
  const auto found = by_peer_.find(key);
  if (found != by_peer_.end()) Remove(found->second);
}

std::optional<Connection> UnprovenConnections::TakeOldest() {
  const std::lock_guard lock(mutex_);
  if (connections_.empty()) return std::nullopt;
  return Remove(connections_.begin()->first);
}

std::vector<Connection> UnprovenConnections::TakeGreedy() {
  constexpr size_t kLooksMax = 2'000;  // a few milliseconds
  std::vector<Connection> greedy;
  const std::lock_guard lock(mutex_);
  const size_t looks = std::min(kLooksMax, connections_.size());
  auto at = connections_.upper_bound(looked_at_);
  for (size_t i = 0; i < looks; ++i) {
    if (at == connections_.end()) at = connections_.begin();
    looked_at_ = at->first;
    const std::optional<uint64_t> received = BytesReceived(at->second);
    ++at;
    if (received.has_value() && *received <= kUnprovenBytesMax) continue;
    Connection gone = Remove(looked_at_);
    if (received.has_value()) greedy.push_back(std::move(gone));
  }
  return greedy;
}

size_t UnprovenConnections::size() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

}  // namespace paceline::wire
