// `paceline serve`: the versions that a training publishes for serving (docs/formats/serve.md).

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "paceline/base/fd.h"
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
  nlohmann::json position;  // null: not known
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

// A list of data sets with partitions or ranges, as in docs/formats/serve.md.
bool IsPosition(const nlohmann::json& json) {
  if (!json.is_array()) return false;
  return std::all_of(json.begin(), json.end(), [](const nlohmann::json& one) {
    if (!one.is_object() || !one.contains("data_set") || !one["data_set"].is_string()) return false;
    if (!one.contains("partitions")) return one.contains("ranges") && one["ranges"].is_array();
    return one["partitions"].is_array() &&
           std::all_of(
               one["partitions"].begin(), one["partitions"].end(), [](const nlohmann::json& part) {
                 return part.is_object() && part.contains("name") && part["name"].is_string() &&
                        part.contains("offset") && part["offset"].is_number_unsigned();
               });
  });
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
    const auto position = manifest.find("position");
    if (position != manifest.end() && IsPosition(*position)) version.position = *position;
    found.push_back(std::move(version));
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

// Where the served version stands in each data set. It has at least these records.
void ShowPosition(const nlohmann::json& position, Output& out) {
  if (!position.is_array() || position.empty()) return;
  constexpr size_t kPartitionsShown = 40;
  std::vector<std::vector<std::string>> rows = {{"DATA SET", "PARTITION", "OFFSET"}};
  size_t left_out = 0;
  for (const nlohmann::json& one : position) {
    const std::string name = Visible(one["data_set"].get<std::string>());
    if (!one.contains("partitions")) {
      uint64_t samples = 0;
      for (const nlohmann::json& range : one["ranges"]) {
        const bool is_range = range.is_array() && range.size() == 2 &&
                              range[0].is_number_unsigned() && range[1].is_number_unsigned();
        if (is_range) samples += range[1].get<uint64_t>() - range[0].get<uint64_t>();
      }
      rows.push_back({name, "-", Concat(samples, " samples")});
      continue;
    }
    for (const nlohmann::json& part : one["partitions"]) {
      if (rows.size() > kPartitionsShown) {
        ++left_out;
        continue;
      }
      rows.push_back({name, Visible(part["name"].get<std::string>()),
                      std::to_string(part["offset"].get<uint64_t>())});
    }
    if (const auto whole = JsonInt<uint64_t>(one, "whole"); whole > 0) {
      rows.push_back({name, Concat(whole, " read whole"), "-"});
    }
  }
  out.DataLine("");
  out.Data(Table(rows, out.width()));
  if (left_out > 0) out.DataLine(Concat("and ", left_out, " partitions more; --json has all"));
}

void ShowServed(const Served& served, const std::vector<ServedVersion>& versions, Output& out) {
  if (out.is_json()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ServedVersion& one : versions) {
      list.push_back({{"version", one.number},
                      {"made", one.made},
                      {"is_whole", one.is_whole},
                      {"rows", one.rows},
                      {"position", one.position}});
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
  if (current != versions.end()) ShowPosition(current->position, out);
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

// Held while CURRENT is read and written, as a training that publishes does. Not held if the user
// may not write there: writing CURRENT then fails with its reason.
Fd LockCurrent(const std::string& directory) {
  Fd lock(::open((directory + "/CURRENT.lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                 kCurrentMode));
  if (lock.is_open()) ::flock(lock.get(), LOCK_EX);
  return lock;
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
  if (!ReadServed(directory)) {
    return out.Fail(NothingPublished(directory, "it has no readable file CURRENT"));
  }
  const Fd lock = action == "status" ? Fd() : LockCurrent(directory);
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
