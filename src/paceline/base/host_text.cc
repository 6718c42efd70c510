#include "paceline/base/host_text.h"

#include <unistd.h>

#include <array>

#include "paceline/base/text.h"

namespace paceline {

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string Bracketed(const std::string& host) {
  const bool is_bare = host.find(':') != std::string::npos && host.front() != '[';
  return is_bare ? Concat("[", host, "]") : host;
}

}  // namespace paceline
