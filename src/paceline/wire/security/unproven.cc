#include "paceline/wire/security/unproven.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
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
  // First a descriptor of our own: gRPC may close its own at any time, and the number may be
  // reused.
  const Fd own(fcntl(connection.fd, F_DUPFD_CLOEXEC, 0));
  struct stat found {};
  if (!own.is_open() || fstat(own.get(), &found) != 0) return;
  if (!S_ISSOCK(found.st_mode) || found.st_ino != connection.inode) return;
  shutdown(own.get(), SHUT_RDWR);
}

UnprovenConnections::Bounds UnprovenConnections::BoundsFor(std::string_view listen, uint32_t asked,
                                                           uint32_t all) {
  constexpr uint32_t kPerHost = 1024;
  all = std::max(all, kPerHost);  // a small server also needs places for handshakes
  return {.per_host = asked > 0                   ? asked
                      : IsLoopbackAddress(listen) ? all
                                                  : kPerHost,
          .in_all = all};
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

size_t UnprovenConnections::size() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

}  // namespace paceline::wire
