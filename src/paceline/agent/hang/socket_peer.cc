#include "paceline/agent/hang/socket_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/hex.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kTableMax = size_t{4} << 20;  // about 25,000 sockets
constexpr size_t kInodeColumn = 9;
constexpr uint32_t kDnsPort = 53;
constexpr size_t kWordDigits = 8;

struct Table {
  std::string_view name;
  bool is_udp;
};
constexpr std::array<Table, 4> kTables = {
    {{"tcp", false}, {"tcp6", false}, {"udp", true}, {"udp6", true}}};

}  // namespace

uint64_t SocketInode(std::string_view target) {
  if (!TakePrefix(&target, "socket:[") || !target.ends_with(']')) return 0;
  target.remove_suffix(1);
  return ParseWhole<uint64_t>(target).value_or(0);
}

std::string AddressText(std::string_view printed) {
  const size_t colon = printed.find(':');
  if (colon == std::string_view::npos) return "";
  const std::string_view digits = printed.substr(0, colon);
  const bool is_six = digits.size() == 4 * kWordDigits;
  if (!is_six && digits.size() != kWordDigits) return "";
  // The kernel prints each word of four bytes as a number of this machine's byte order.
  std::array<uint32_t, 4> words{};
  for (size_t i = 0; i * kWordDigits < digits.size(); ++i) {
    const auto word = ParseHex(digits.substr(i * kWordDigits, kWordDigits));
    if (!word.has_value()) return "";
    words[i] = static_cast<uint32_t>(*word);  // eight digits
  }
  const auto port = ParseHex(printed.substr(colon + 1));
  const bool is_zero = std::all_of(words.begin(), words.end(), [](uint32_t w) { return w == 0; });
  if (!port.has_value() || is_zero) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  // An IPv4 peer of an IPv6 socket is shown as IPv4.
  in6_addr six{};
  std::memcpy(&six, words.data(), sizeof(six));
  const bool is_mapped = is_six && IN6_IS_ADDR_V4MAPPED(&six);
  const void* const four = is_mapped ? static_cast<const void*>(&words[3]) : words.data();
  const bool shows_six = is_six && !is_mapped;
  ::inet_ntop(shows_six ? AF_INET6 : AF_INET, shows_six ? words.data() : four, text.data(),
              text.size());
  return shows_six ? Concat("[", text.data(), "]:", *port) : Concat(text.data(), ":", *port);
}

std::string PeerOf(const std::string& folder, uint64_t inode) {
  if (inode == 0) return "";
  const std::string wanted = std::to_string(inode);
  for (const Table& table : kTables) {
    const std::string text = ReadText(Concat(folder, "/net/", table.name), kTableMax);
    for (const std::string_view line : SplitParts(text, "\n")) {
      const std::vector<std::string_view> columns = SplitParts(line, " ");
      if (columns.size() <= kInodeColumn || columns[kInodeColumn] != wanted) continue;
      std::string peer = AddressText(columns[2]);
      const bool is_dns = table.is_udp && peer.ends_with(Concat(":", kDnsPort));
      return is_dns ? peer + ", a name server" : peer;
    }
  }
  return "";
}

}  // namespace paceline::agent
