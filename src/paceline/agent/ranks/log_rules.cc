#include "paceline/agent/ranks/log_rules.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>

#include "paceline/base/file_text.h"
#include "paceline/logclass/builtin.h"
#include "paceline/model/problem.h"

namespace paceline::agent {
namespace {

constexpr size_t kRuleBytesMax = 1 << 20;

// Why the file cannot be read as text of at most kRuleBytesMax; "": it can.
std::string WhyUnreadable(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return std::strerror(errno);
  if (!S_ISREG(file.st_mode)) return "it is no file";
  if (static_cast<size_t>(file.st_size) > kRuleBytesMax) return "it is larger than 1 MiB";
  return ::access(path.c_str(), R_OK) == 0 ? "" : std::strerror(errno);
}

}  // namespace

absl::StatusOr<logclass::RuleSet> ReadLogRules(const std::vector<std::string>& paths) {
  std::list<std::string> owned;  // the texts that `texts` looks into
  std::vector<logclass::RuleText> texts;
  for (const std::string& path : paths) {
    if (std::string why = WhyUnreadable(path); !why.empty()) {
      return ToStatus(absl::StatusCode::kInvalidArgument,
                      {.code = "PL-E239",
                       .what = "a file of rules for failures cannot be read",
                       .where = path,
                       .why = std::move(why),
                       .fix = "give the path that the file has on each host: [log] rules"});
    }
    owned.push_back(ReadText(path, kRuleBytesMax));
    texts.push_back({path, owned.back()});
  }
  for (logclass::RuleText& text : logclass::BuiltinTexts()) texts.push_back(std::move(text));
  return logclass::MakeRules(texts);
}

}  // namespace paceline::agent
