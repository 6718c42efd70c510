#include "paceline/plan/devices.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::plan {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr uint64_t kGibi = uint64_t{1} << 30;
// Memory that plans cannot use: a process's context, buffers of its communicators, and
// fragmentation.
constexpr uint64_t kReservedBytes = 2 * kGibi;
constexpr double kFragmented = 0.04;
constexpr double kLaunchSeconds = 1e-4;  // some ten kernels and the host's work for them
constexpr double kInnerSeconds = 1e-5;
constexpr double kOuterSeconds = 3e-5;
constexpr uint32_t kCountMax = 1'000'000;
// Fitted, one number a type: for A100 to table 1 of Narayanan et al. 2021, and for H100 to the
// table of Megatron-Core 0.8 (bench/plans/published_tables.py, T1 and T3).
constexpr double kOwnReachedA100 = 0.78;
constexpr double kOwnReachedH100 = 0.74;

constexpr DeviceRow kCatalogue[] = {
    {"P100-16G", 21.2 * kTera, 10.6 * kTera, 732 * kGiga, 16, 80 * kGiga,
     "NVIDIA Tesla P100 data sheet, SXM2", false},
    {"V100-16G", 125 * kTera, 15.7 * kTera, 900 * kGiga, 16, 150 * kGiga,
     "NVIDIA V100 data sheet, SXM2", false},
    {"V100-32G", 125 * kTera, 15.7 * kTera, 900 * kGiga, 32, 150 * kGiga,
     "NVIDIA V100 data sheet, SXM2", false},
    {"T4-16G", 65 * kTera, 8.1 * kTera, 320 * kGiga, 16, 16 * kGiga, "NVIDIA T4 data sheet", false},
    {"A10-24G", 125 * kTera, 31.2 * kTera, 600 * kGiga, 24, 32 * kGiga, "NVIDIA A10 data sheet"},
    {"L4-24G", 121 * kTera, 30.3 * kTera, 300 * kGiga, 24, 32 * kGiga, "NVIDIA L4 data sheet"},
    {"A100-40G", 312 * kTera, 19.5 * kTera, 1555 * kGiga, 40, 300 * kGiga,
     "NVIDIA A100 data sheet, SXM", true, kOwnReachedA100},
    {"A100-80G", 312 * kTera, 19.5 * kTera, 2039 * kGiga, 80, 300 * kGiga,
     "NVIDIA A100 data sheet, SXM", true, kOwnReachedA100},
    {"L40S-48G", 362 * kTera, 91.6 * kTera, 864 * kGiga, 48, 32 * kGiga, "NVIDIA L40S data sheet"},
    {"H100-80G", 989 * kTera, 67 * kTera, 3350 * kGiga, 80, 450 * kGiga,
     "NVIDIA H100 data sheet, SXM", true, kOwnReachedH100},
    {"H200-141G", 989 * kTera, 67 * kTera, 4800 * kGiga, 141, 450 * kGiga,
     "NVIDIA H200 data sheet, SXM", true, kOwnReachedH100},
    {"B200-180G", 2250 * kTera, 75 * kTera, 7700 * kGiga, 180, 900 * kGiga,
     "NVIDIA DGX B200 data sheet"},
    {"MI300X-192G", 1307 * kTera, 163.4 * kTera, 5300 * kGiga, 192, 448 * kGiga,
     "AMD Instinct MI300X data sheet"},
};

Failure NoCluster(std::string why) {
  return {.kind = FailureKind::kInvalid, .message = std::move(why)};
}

std::string InCapitals(std::string_view word) {
  std::string text(word);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

// Whether the catalogue's name is this word and a memory: "A100-80G" of "A100".
bool IsVariantOf(std::string_view name, std::string_view word) {
  return !word.empty() && name.starts_with(word) && name.size() > word.size() &&
         name[word.size()] == '-';
}

// "A100 is taken as the variant with the most memory, beside A100-40G"; "" if there is no choice.
std::string ChoiceText(std::string_view word, const DeviceRow& taken) {
  const std::string said = InCapitals(word);
  std::vector<std::string_view> others;
  for (const DeviceRow& row : kCatalogue) {
    if (&row != &taken && IsVariantOf(row.name, said)) others.push_back(row.name);
  }
  if (others.empty() || !IsVariantOf(taken.name, said)) return "";
  return Concat("; \"", said, "\" means the one with the most memory, and not ",
                JoinWith(others, " or "));
}

std::string KnownNames() {
  std::vector<std::string_view> names;
  for (const DeviceRow& row : kCatalogue) names.push_back(row.name);
  return JoinWith(names, ", ");
}

DeviceType TypeOf(const DeviceRow& row, const ClusterWishes& wishes) {
  const std::string& precision = wishes.precision;
  const double reached = wishes.execution->has_own_layers ? row.own_reached : kReachedFlops;
  const auto memory = static_cast<double>(row.gibibytes * kGibi);
  return {.name = std::string(row.name),
          .flops = reached * (precision == "fp32" ? row.full_flops : row.half_flops),
          .bandwidth = kReachedBandwidth * row.bandwidth,
          .launch = kLaunchSeconds,
          .memory = static_cast<uint64_t>(memory * (1 - kFragmented)) - kReservedBytes,
          .source = Concat("catalogue: ", row.source,
                           precision == "bf16" && !row.has_bf16
                               ? "; it has no bf16, and this is the rate of fp16"
                               : "")};
}

}  // namespace

std::span<const DeviceRow> DeviceCatalogue() { return kCatalogue; }

const DeviceRow* FindDevice(std::string_view name) {
  std::string word = InCapitals(name);
  if (word.ends_with("GB")) word.pop_back();
  const DeviceRow* found = nullptr;
  for (const DeviceRow& row : kCatalogue) {
    if (row.name == word) return &row;
    const bool is_larger = found == nullptr || row.gibibytes > found->gibibytes;
    if (IsVariantOf(row.name, word) && is_larger) found = &row;
  }
  return found;
}

const DeviceRow* DeviceOfProgram(std::string_view name) {
  const std::string said = InCapitals(name);
  std::vector<std::string> words;
  for (const std::string_view part : SplitParts(said, " ")) {
    for (const std::string_view word : SplitParts(part, "-")) words.emplace_back(word);
  }
  const auto has = [&](std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (has("PCIE") || has("NVL") || has("MIG")) return nullptr;
  const DeviceRow* found = nullptr;
  for (const DeviceRow& row : kCatalogue) {
    const size_t dash = row.name.find('-');
    if (!has(row.name.substr(0, dash))) continue;
    if (has(Concat(row.name.substr(dash + 1), "B"))) return &row;
    found = &row;  // its variants have the same peaks
  }
  return found;
}

std::optional<double> PeakFlops(std::string_view name, std::string_view precision) {
  const auto is_it = [&](const DeviceRow& row) { return row.name == name; };
  const auto* row = std::find_if(std::begin(kCatalogue), std::end(kCatalogue), is_it);
  if (row == std::end(kCatalogue)) row = DeviceOfProgram(name);
  if (row == nullptr) return std::nullopt;
  return precision == "fp32" ? row->full_flops : row->half_flops;
}

Result<Cluster> ClusterFromLine(std::string_view line, const ClusterWishes& wishes) {
  Cluster cluster;
  double link = 0;
  for (const std::string_view part : SplitParts(line, ",")) {
    const size_t colon = part.rfind(':');
    const std::string_view name = Trimmed(part.substr(0, colon));
    const auto count = colon == std::string_view::npos
                           ? std::optional<uint32_t>(1)
                           : ParseWhole<uint32_t>(Trimmed(part.substr(colon + 1)));
    if (count && *count > kCountMax) {
      return NoCluster(Concat(*count, " devices are more than ", kCountMax));
    }
    if (!count || *count == 0) {
      return NoCluster(Concat("\"", part.substr(0, 60), "\" is not TYPE:COUNT, as H100-80G:64 is"));
    }
    const DeviceRow* const row = FindDevice(name);
    if (row == nullptr) {
      return NoCluster(
          Concat("\"", name.substr(0, 60), "\" is no type of the catalogue: ", KnownNames()));
    }
    const auto known = std::find_if(cluster.types.begin(), cluster.types.end(),
                                    [&](const DeviceType& type) { return type.name == row->name; });
    const auto type = static_cast<uint32_t>(known - cluster.types.begin());
    if (known == cluster.types.end()) cluster.types.push_back(TypeOf(*row, wishes));
    const std::string choice = ChoiceText(name, *row);
    std::string& source = cluster.types[type].source;
    if (source.find(choice) == std::string::npos) source += choice;
    cluster.runs.push_back({type, *count});
    link = link == 0 ? row->link : std::min(link, row->link);
  }
  if (cluster.runs.empty()) return NoCluster("the cluster has no device");
  cluster.node = wishes.node;
  cluster.inner = {kInnerSeconds, kReachedLink * link};
  cluster.outer = {kOuterSeconds, kReachedLink * std::min(link, wishes.network)};
  return cluster;
}

}  // namespace paceline::plan
