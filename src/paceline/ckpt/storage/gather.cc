#include "paceline/ckpt/storage/gather.h"

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/ckpt/format/safetensors.h"
#include "paceline/ckpt/format/tiling.h"

namespace paceline::ckpt {
namespace {

using Shard = PersistOrder::Shard;
using FileSizes = std::map<std::string, uint64_t>;

constexpr size_t kParallelPartsMin = 32;

struct Part {
  Manifest manifest;
  std::vector<TensorBox> boxes;
  std::vector<std::string> loose;  // names of tensors that are no parameters
};

Result<FileSizes> SizesIn(Store* store, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<StoreEntry> files, store->List(folder));
  FileSizes sizes;
  for (const StoreEntry& file : files) sizes[file.name] = file.bytes;
  return sizes;
}

Result<Part> Parse(const std::string& text, const Shard& shard, SavedStep saved,
                   const FileSizes& sizes) {
  const std::string name = PartNameOf(shard.rank.value());
  Result<Manifest> parsed = ParseManifest(text);
  if (!parsed.ok()) return Annotate(parsed.failure(), name);
  Part part{.manifest = *std::move(parsed), .boxes = {}};
  const Manifest& says = part.manifest;
  const bool is_of_it = says.saved() == saved && says.ranks.size() == 1 &&
                        says.ranks[0].rank == shard.rank.value() &&
                        says.ranks[0].file == FileNameOf(shard.file_of.value());
  if (!is_of_it) return Failure{FailureKind::kInvalid, name + " is of another save"};
  for (ManifestFile& file : part.manifest.files) {
    const auto size = sizes.find(file.name);
    if (size == sizes.end() || size->second != file.bytes) {
      return Failure{FailureKind::kNotFound, file.name + " is not there as its part says"};
    }
    if (file.name == NotesNameOf(shard.rank.value())) continue;
    ASSIGN_OR_RETURN(Image head, ParseHead(std::exchange(file.head, {}), file.bytes));
    const std::vector<uint64_t> contents = std::exchange(file.contents, {});
    for (size_t i = 0; i < contents.size() && contents.size() == head.boxes.size(); ++i) {
      head.boxes[i].content = contents[i];
    }
    std::move(head.boxes.begin(), head.boxes.end(), std::back_inserter(part.boxes));
    const std::vector<std::string> loose = LooseNames(head);
    part.loose.insert(part.loose.end(), loose.begin(), loose.end());
  }
  return part;
}

// With many parts two threads parse: hundreds of parts are tens of milliseconds of JSON, and the
// commit waits for them.
std::vector<Result<Part>> ParseAll(const std::vector<std::string>& texts, const PersistOrder& order,
                                   const FileSizes& sizes) {
  std::vector<Result<Part>> parts(texts.size(), Failure{});
  const auto parse = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      parts[i] = Parse(texts[i], order.shards[i], order.saved, sizes);
    }
  };
  const size_t half = texts.size() < kParallelPartsMin ? 0 : texts.size() / 2;
  std::thread other;
  if (half > 0) other = std::thread(parse, 0, half);
  parse(half, texts.size());
  if (other.joinable()) other.join();
  return parts;
}

// A rank that shares another rank's file shares its frozen file, too.
void ShareFrozen(std::vector<ManifestRank>* ranks) {
  std::map<std::string, std::string> beside;
  for (const ManifestRank& rank : *ranks) {
    if (!rank.frozen.empty()) beside.emplace(rank.file, rank.frozen);
  }
  for (ManifestRank& rank : *ranks) {
    const auto found = beside.find(rank.file);
    if (found != beside.end()) rank.frozen = found->second;
  }
}

// Sorts differing tensors into parameters and others. `known` is of files that were linked.
Differing Sort(const std::vector<std::string>& names, const std::vector<std::string>& loose,
               Differing known) {
  std::set<std::string> parameters(known.parameters.begin(), known.parameters.end());
  std::set<std::string> others(known.others.begin(), known.others.end());
  const std::set<std::string> is_loose(loose.begin(), loose.end());
  for (const std::string& name : names)
    (is_loose.contains(name) ? others : parameters).insert(name);
  return {{parameters.begin(), parameters.end()}, {others.begin(), others.end()}};
}

void Append(std::vector<std::string>* to, const std::vector<std::string>& more) {
  to->insert(to->end(), more.begin(), more.end());
}

}  // namespace

Result<Manifest> Gather(Store* store, const CommitPlace& place) {
  const PersistOrder& order = place.order;
  Manifest whole{.job_id = place.job_id,
                 .generation = order.saved.generation,
                 .step = order.saved.step,
                 .branch = order.saved.branch,
                 .world_size = order.world_size,
                 .files = {},
                 .ranks = {}};
  std::vector<TensorBox> boxes;
  std::vector<std::string> loose;
  Differing known;
  ASSIGN_OR_RETURN(const FileSizes sizes, SizesIn(store, order.name));
  std::vector<std::string> keys;
  for (const Shard& shard : order.shards) {
    keys.push_back(Concat(order.name, "/", PartNameOf(shard.rank.value())));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, store->GetAll(keys, kManifestBytesMax));
  for (Result<Part>& part : ParseAll(texts, order, sizes)) {
    if (!part.ok()) return part.failure();
    std::move(part->boxes.begin(), part->boxes.end(), std::back_inserter(boxes));
    std::move(part->manifest.files.begin(), part->manifest.files.end(),
              std::back_inserter(whole.files));
    whole.ranks.push_back(std::move(part->manifest.ranks[0]));
    Append(&loose, part->loose);
    Append(&known.parameters, part->manifest.differing.parameters);
    Append(&known.others, part->manifest.differing.others);
  }
  ShareFrozen(&whole.ranks);
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   CheckTiling(std::move(boxes), OtherShapes::kOwn));
  whole.differing = Sort(names, loose, std::move(known));
  return whole;
}

}  // namespace paceline::ckpt
