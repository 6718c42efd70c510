#include "paceline/wire/security/socket_owner.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/text.h"
#include "paceline/model/problem.h"

namespace paceline::wire {
namespace {

constexpr size_t kTableBytesMax = size_t{64} << 20;  // 400,000 sockets

// One end of a connection. An IPv4 address has one word, an IPv6 address four.
struct End {
  int family = AF_UNSPEC;
  std::array<uint32_t, 4> words{};
  uint16_t port = 0;  // in network order
};

// A socket as the kernel lists it. No process holds one without an inode: it waits to be accepted,
// or was closed.
struct Listed {
  uid_t uid = 0;
  bool is_held = false;
};

End EndOf(int fd, int (*name_of)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage found{};
  socklen_t size = sizeof(found);
  End end;
  if (name_of(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0) return end;
  end.family = found.ss_family;
  if (found.ss_family == AF_INET) {
    const auto& at = reinterpret_cast<const sockaddr_in&>(found);
    end.words[0] = at.sin_addr.s_addr;
    end.port = at.sin_port;
  } else if (found.ss_family == AF_INET6) {
    const auto& at = reinterpret_cast<const sockaddr_in6&>(found);
    std::memcpy(end.words.data(), &at.sin6_addr, sizeof(at.sin6_addr));
    end.port = at.sin6_port;
  }
  return end;
}

// The socket at `local`, connected to `remote`. Without a remote port: the one that listens.
std::optional<Listed> AskKernel(int netlink, const End& local, const End& remote) {
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 body{};
  } request;
  request.header.nlmsg_len = sizeof(request);
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<uint8_t>(local.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  request.body.id.idiag_sport = local.port;
  request.body.id.idiag_dport = remote.port;
  std::memcpy(request.body.id.idiag_src, local.words.data(), sizeof(local.words));
  std::memcpy(request.body.id.idiag_dst, remote.words.data(), sizeof(remote.words));
  request.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink, &request, sizeof(request), 0) < 0) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 8192> answer;
  // The kernel has answered before send returns.
  const ssize_t got = recv(netlink, answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr header{};
  inet_diag_msg socket{};
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN + sizeof(socket))) return std::nullopt;
  std::memcpy(&header, answer.data(), sizeof(header));
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  std::memcpy(&socket, answer.data() + NLMSG_HDRLEN, sizeof(socket));
  return Listed{.uid = socket.idiag_uid, .is_held = socket.idiag_inode != 0};
}

// As in /proc/net/tcp: each word of the address in this machine's order, the port as a number.
std::string InTable(const End& end) {
  std::string text;
  std::array<char, 16> piece;
  for (size_t i = 0; i < (end.family == AF_INET ? 1 : 4); ++i) {
    std::snprintf(piece.data(), piece.size(), "%08X", end.words[i]);
    text += piece.data();
  }
  std::snprintf(piece.data(), piece.size(), ":%04X", ntohs(end.port));
  return text + piece.data();
}

// An IPv4 connection of an IPv6 socket is listed as ::ffff:a.b.c.d.
bool IsAt(std::string_view listed, std::string_view end) {
  constexpr std::string_view kMapped = "0000000000000000FFFF0000";
  if (listed.size() > end.size()) TakePrefix(&listed, kMapped);
  return listed == end;
}

bool IsAnyAddress(std::string_view listed) {
  return listed.find_first_not_of('0') == listed.find(':');
}

// Listening first: a connection that is not accepted at the second look belongs to a socket that
// has been listening since before the first look. So that one was seen.
std::optional<uid_t> OwnerOf(std::optional<Listed> listener, std::optional<Listed> connection) {
  if (!connection) return std::nullopt;
  if (connection->is_held) return connection->uid;
  return listener ? std::optional(listener->uid) : std::nullopt;
}

}  // namespace

SocketLists AskKernelForPeer(int fd) {
  const Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink.is_open()) return {};
  const End peer = EndOf(fd, getpeername);
  const auto listener = AskKernel(netlink.get(), peer, {});
  const auto connection = AskKernel(netlink.get(), peer, EndOf(fd, getsockname));
  // A kernel without this service also answers that there is no such socket.
  return {.is_readable = connection.has_value(), .owner = OwnerOf(listener, connection)};
}

SocketLists ReadTablesForPeer(int fd) {
  const End peer = EndOf(fd, getpeername);
  const std::string local = InTable(peer);
  const std::string remote = InTable(EndOf(fd, getsockname));
  const std::string port = local.substr(local.rfind(':'));
  std::optional<Listed> listener;
  std::optional<Listed> connection;
  bool is_readable = false;
  // The kernel lists the listening sockets first.
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadText(table, kTableBytesMax);
    is_readable = is_readable || !text.empty();
    for (const std::string_view line : SplitParts(text, "\n")) {
      const std::vector<std::string_view> fields = SplitParts(line, " ");
      if (fields.size() < 10 || !fields[1].ends_with(port)) continue;
      const Listed listed{.uid = static_cast<uid_t>(ParseWhole<uint32_t>(fields[7]).value_or(~0u)),
                          .is_held = fields[9] != "0"};
      if (fields[3] == "0A" && (IsAt(fields[1], local) || IsAnyAddress(fields[1]))) {
        listener = listed;
      } else if (IsAt(fields[1], local) && IsAt(fields[2], remote)) {
        connection = listed;
      }
    }
  }
  return {.is_readable = is_readable, .owner = OwnerOf(listener, connection)};
}

absl::Status CheckPeerIsOurs(int fd, const std::string& address) {
  SocketLists lists = AskKernelForPeer(fd);
  if (!lists.is_readable) lists = ReadTablesForPeer(fd);
  if (lists.is_readable && !lists.owner)
    return absl::UnavailableError("the master does not answer");
  if (lists.owner && (*lists.owner == geteuid() || *lists.owner == 0)) return absl::OkStatus();
  Problem problem{.code = "PL-E107",
                  .what = Concat("another user holds the master's port at ", address),
                  .where = address,
                  .fix = "the owner of the job: start it again with --tls, or stop that process"};
  if (lists.owner) {
    problem.why = Concat("the process that listens there belongs to user id ", *lists.owner,
                         ", this one to ", geteuid(), "; the token was not sent");
  } else {
    problem.what = Concat("the user that holds the master's port at ", address, " is unknown");
    problem.why = "this system lists no sockets in /proc/net/tcp; the token was not sent";
  }
  return ToStatus(absl::StatusCode::kFailedPrecondition, problem);
}

}  // namespace paceline::wire
