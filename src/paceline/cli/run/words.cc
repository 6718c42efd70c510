// Parsers of values of flags: addresses, streams and names.

#include <algorithm>
#include <cctype>
#include <csignal>
#include <map>

#include "paceline/base/host_text.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/run/request.h"
#include "paceline/cli/settings/value.h"

namespace paceline::cli {
namespace {

constexpr int64_t kLocalRanksMax = 64;  // slots of a progress page

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

std::optional<std::vector<int>> ParseStopSignals(std::string_view names) {
  static const std::map<std::string_view, int> kSignals = {
      {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},   {"SIGHUP", SIGHUP},
      {"SIGQUIT", SIGQUIT}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
      {"SIGXCPU", SIGXCPU}, {"SIGALRM", SIGALRM}, {"SIGCONT", SIGCONT}};
  std::vector<int> signals = {SIGINT, SIGTERM};
  for (const std::string& item : Split(names, ',')) {
    const auto found = kSignals.find(Trimmed(item));
    if (found == kSignals.end()) return std::nullopt;
    if (std::find(signals.begin(), signals.end(), found->second) == signals.end()) {
      signals.push_back(found->second);
    }
  }
  return signals;
}

std::string ToText(const Endpoint& endpoint) {
  return Concat(Bracketed(endpoint.host), ":", endpoint.port);
}

Result<Endpoint> ParseEndpoint(const std::string& text, uint16_t default_port,
                               std::string_view flag) {
  Endpoint endpoint{.port = default_port};
  std::string port;
  const size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with("[");
  if (bracketed) {
    const size_t close = text.find(']');
    if (close != std::string::npos) {
      endpoint.host = text.substr(1, close - 1);
      if (close + 1 < text.size()) port = text.substr(close + 1);
    }
  } else if (colon != std::string::npos && text.find(':') == colon) {
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon);
  } else {
    endpoint.host = text;  // no port, or an IPv6 address without brackets
  }
  const auto number = port.empty() ? default_port : ParseInteger(port.substr(1));
  const bool port_shape = port.empty() || port.starts_with(":");
  const bool host_shape = !endpoint.host.empty() &&
                          endpoint.host.find_first_of(" \t\n/\\@") == std::string::npos &&
                          endpoint.host.size() <= 253;
  if (!host_shape || !port_shape || !number || *number < 0 || *number > 65535) {
    return Problem{.code = "PL-E043",
                   .what = "\"" + text + "\" is no address",
                   .where = std::string(flag),
                   .why = "it takes HOST:PORT with a port up to 65535; IPv6 stands in brackets",
                   .fix = Concat(flag, " host0:", default_port)};
  }
  endpoint.port = static_cast<uint16_t>(*number);
  return endpoint;
}

std::optional<StreamChoice> ParseStreams(std::string_view text) {
  const auto stream = [](std::string_view digit) -> std::optional<Streams> {
    if (digit.size() != 1 || digit[0] < '0' || digit[0] > '3') return std::nullopt;
    return static_cast<Streams>(digit[0] - '0');
  };
  StreamChoice choice;
  if (text.find(':') == std::string_view::npos) {
    const auto all = stream(text);
    if (!all.has_value()) return std::nullopt;
    choice.all = *all;
    return choice;
  }
  for (const std::string& item : Split(text, ',')) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    const auto rank = ParseInteger(item.substr(0, colon));
    const auto streams = stream(std::string_view(item).substr(colon + 1));
    if (!rank || *rank < 0 || *rank >= kLocalRanksMax || !streams) return std::nullopt;
    choice.by_local_rank[static_cast<uint32_t>(*rank)] = *streams;
  }
  return choice;
}

std::optional<bool> ParseTorchBool(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text == "t" || text == "y") return true;
  if (text == "f" || text == "n") return false;
  return ParseOnOff(text);
}

bool IsModuleName(const std::string& text) {
  const auto is_part = [](const std::string& part) {
    return !part.empty() && (part[0] < '0' || part[0] > '9') &&
           part.find_first_of(" \t\n\"'\\/;:-+*=()[]{}<>") == std::string::npos;
  };
  return std::ranges::all_of(Split(text, '.'), is_part);
}

std::string ToName(std::string_view text) {
  std::string name;
  for (const char c : text) name += IsNameCharacter(c) ? c : '-';
  name.erase(0, std::min(name.find_first_not_of('.'), name.size()));
  name.resize(std::min<size_t>(name.size(), 64));
  return name.empty() ? "job" : name;
}

}  // namespace paceline::cli
