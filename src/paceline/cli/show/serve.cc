// `paceline serve`: the versions that a training publishes for serving (docs/formats/serve.md).

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/master/clock.h"

namespace paceline::cli {
namespace {

constexpr mode_t kCurrentMode = 0644;
constexpr size_t kManifestBytesMax = 16 << 20;

struct Served {
  uint64_t version = 0;
  bool is_pinned = false;
};

struct ServedVersion {
  uint64_t number = 0;
  double made = 0;
  bool is_whole = false;
  uint64_t rows = 0;
};

Problem NothingPublished(const std::string& directory, const std::string& why) {
  return {.code = "PL-E251",
          .what = "there are no versions to serve",
          .where = directory,
          .why = why,
          .fix = "paceline.embedding.Publish(\"" + directory + "\", optimizer) in the training"};
}

nlohmann::json ReadJson(const std::string& path) {
  return ParseJson(ReadText(path, kManifestBytesMax));
}

std::optional<Served> ReadServed(const std::string& directory) {
  const nlohmann::json json = ReadJson(directory + "/CURRENT");
  if (!json.is_object()) return std::nullopt;
  return Served{.version = JsonInt<uint64_t>(json, "version"),
                .is_pinned = json.contains("pinned") && json["pinned"] == true};
}

// Whole versions by rising number. One that cannot be read is left out: readers pass over it, too.
std::vector<ServedVersion> ReadVersions(const std::string& directory) {
  std::vector<ServedVersion> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/versions", error)) {
    const auto number = ParseWhole<uint64_t>(entry.path().filename().string());
    if (!number) continue;
    const nlohmann::json manifest = ReadJson(entry.path().string() + "/manifest.json");
    if (!manifest.is_object() || JsonInt<uint64_t>(manifest, "version") != *number) continue;
    ServedVersion version{.number = *number,
                          .is_whole = manifest.contains("parent") && manifest["parent"].is_null()};
    if (const auto made = manifest.find("made"); made != manifest.end() && made->is_number()) {
      version.made = made->get<double>();
    }
    if (const auto tables = manifest.find("tables"); tables != manifest.end()) {
      for (const nlohmann::json& table : *tables) {
        if (table.is_object()) version.rows += JsonInt<uint64_t>(table, "rows");
      }
    }
    found.push_back(version);
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return found;
}

std::string AgeText(double made) {
  const double now = static_cast<double>(master::Clock::WallNow().nanoseconds()) / 1e9;
  const Duration age =
      Duration::Milliseconds(static_cast<int64_t>(std::max(0.0, now - made) * 1e3));
  return ToString(age);
}

void ShowServed(const Served& served, const std::vector<ServedVersion>& versions, Output& out) {
  if (out.is_json()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ServedVersion& one : versions) {
      list.push_back({{"version", one.number},
                      {"made", one.made},
                      {"is_whole", one.is_whole},
                      {"rows", one.rows}});
    }
    out.DataLine(PrintJson(nlohmann::ordered_json{{"schema", "paceline.served/1"},
                                                  {"version", served.version},
                                                  {"is_pinned", served.is_pinned},
                                                  {"versions", std::move(list)}}));
    return;
  }
  const auto current = std::find_if(versions.begin(), versions.end(),
                                    [&](const auto& one) { return one.number == served.version; });
  out.DataLine(Concat("version ", served.version, served.is_pinned ? ", pinned" : "",
                      current == versions.end() ? ", which cannot be read"
                                                : ", " + AgeText(current->made) + " old"));
  std::vector<std::vector<std::string>> rows = {{"VERSION", "AGE", "ROWS", "CONTENT"}};
  constexpr size_t kShown = 20;
  const size_t begin = versions.size() > kShown ? versions.size() - kShown : 0;
  for (size_t i = begin; i < versions.size(); ++i) {
    const ServedVersion& one = versions[i];
    rows.push_back({std::to_string(one.number), AgeText(one.made), std::to_string(one.rows),
                    one.is_whole ? "all rows" : "changed rows"});
  }
  out.Data(Table(rows, out.width()));
}

int Point(const std::string& directory, const Served& to, Output& out) {
  const std::string text =
      PrintJson(nlohmann::ordered_json{{"version", to.version}, {"pinned", to.is_pinned}}) + "\n";
  const absl::Status written = ReplaceFile(directory + "/CURRENT", text, kCurrentMode);
  if (!written.ok()) {
    return out.Fail({.code = "PL-E252",
                     .what = "the served version cannot be changed",
                     .where = directory + "/CURRENT",
                     .why = std::string(written.message()),
                     .fix = "run this as the user who publishes"});
  }
  out.DataLine(Concat("version ", to.version,
                      to.is_pinned ? " is pinned: readers take it within a moment, and no newer "
                                     "one until `paceline serve release`"
                                   : " is the newest one, and newer ones follow"));
  return kExitDone;
}

int RollBack(const std::string& directory, const Served& served,
             const std::vector<ServedVersion>& versions, const std::string& wanted, Output& out) {
  const auto number = wanted.empty() ? std::optional<uint64_t>() : ParseWhole<uint64_t>(wanted);
  const auto found = std::find_if(versions.rbegin(), versions.rend(), [&](const auto& one) {
    return wanted.empty() ? one.number < served.version : number == one.number;
  });
  if (found == versions.rend()) {
    return out.Fail({.code = "PL-E252",
                     .what = "the served version cannot be changed",
                     .where = directory,
                     .why = wanted.empty() ? Concat("there is none before version ", served.version)
                                           : "there is no version " + Visible(wanted),
                     .fix = "paceline serve status " + directory + " lists the versions"});
  }
  return Point(directory, {.version = found->number, .is_pinned = true}, out);
}

}  // namespace

int RunServe(Invocation& invocation) {
  Output& out = invocation.out;
  const std::vector<std::string>& words = invocation.line.positionals;
  const std::string action = words.empty() ? "" : words[0];
  const bool is_known = action == "status" || action == "rollback" || action == "release";
  if (!is_known || words.size() < 2 || (words.size() > 2 && action != "rollback")) {
    return out.Fail({.code = "PL-E001",
                     .what = "serve needs an action and a directory",
                     .where = "paceline serve",
                     .why = "its actions are status, rollback and release",
                     .fix = "paceline serve status DIR"});
  }
  const std::string& directory = words[1];
  const auto served = ReadServed(directory);
  if (!served) {
    return out.Fail(NothingPublished(directory, "it has no readable file CURRENT"));
  }
  const std::vector<ServedVersion> versions = ReadVersions(directory);
  if (versions.empty()) {
    return out.Fail(NothingPublished(directory, "it has no version that can be read"));
  }
  if (action == "rollback") {
    return RollBack(directory, *served, versions, words.size() > 2 ? words[2] : "", out);
  }
  if (action == "release") return Point(directory, {.version = versions.back().number}, out);
  ShowServed(*served, versions, out);
  return kExitDone;
}

}  // namespace paceline::cli
