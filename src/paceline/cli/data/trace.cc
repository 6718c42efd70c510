// An ElasticLoader does not record what it reads: its order is computed, and its position is in
// every checkpoint. So a trace inverts the order, and compares the sample's place in it with the
// positions in the checkpoints that still exist. The rank is certain only if the checkpoints before
// and after the sample are of one generation, and ranks shared the step evenly.

#include "paceline/cli/data/trace.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/whole.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/data/batch_cut.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kEpochsMax = 10'000;

// A position of a loader, and the checkpoint the first checkpoint that has the sample.
struct Position {
  std::string checkpoint;
  int64_t step = 0;  // of the checkpoint
  uint64_t generation = 0;
  uint64_t world_size = 0;
  uint64_t epoch = 0;
  uint64_t consumed = 0;
  uint64_t global_batch = 0;
  bool drops_last = false;
  bool is_even = true;
  Json terms;
  std::string name;

  bool Has(uint64_t in_epoch, uint64_t ordinal) const {
    return in_epoch < epoch || (in_epoch == epoch && ordinal < consumed);
  }
};

std::optional<Position> PositionIn(const std::string& key, const Json& entry) {
  if (!entry.is_object() || JsonText(entry, "schema") != "paceline.data/1") return std::nullopt;
  const auto order = entry.find("order");
  if (order == entry.end() || !order->is_object()) return std::nullopt;
  const std::string name = JsonText(*order, "name");
  const auto drops = entry.find("drop_last");
  Position found{.epoch = JsonInt<uint64_t>(entry, "epoch"),
                 .consumed = JsonInt<uint64_t>(entry, "consumed"),
                 .global_batch = JsonInt<uint64_t>(entry, "global_batch"),
                 .drops_last = drops != entry.end() && drops->is_boolean() && drops->get<bool>(),
                 .is_even = !entry.contains("cut"),
                 .terms = *order,
                 .name = name.empty() ? key : name};
  if (found.global_batch == 0) return std::nullopt;
  return found;
}

// The positions in the checkpoints, the oldest first. Checkpoints that cannot be read are skipped.
std::vector<Position> PositionsIn(ckpt::Store* store, const std::vector<ckpt::Listed>& all,
                                  const std::string& data_set) {
  std::vector<Position> positions;
  for (const ckpt::Listed& one : all) {
    const auto reader = ckpt::WholeReader::Open(store, one.name);
    if (!reader.ok()) continue;
    const Json notes = ParseOrderedJson((*reader)->notes());
    const auto entries = notes.is_object() ? notes.find("entries") : notes.end();
    if (entries == notes.end() || !entries->is_object()) continue;
    for (const auto& [key, entry] : entries->items()) {
      auto position = PositionIn(key, entry);
      if (!position) continue;
      if (!data_set.empty() && data_set != position->name && data_set != key) continue;
      position->checkpoint = one.name;
      position->step = one.manifest.step;
      position->generation = one.manifest.generation;
      position->world_size = one.manifest.world_size;
      positions.push_back(*std::move(position));
    }
  }
  std::stable_sort(positions.begin(), positions.end(),
                   [](const Position& a, const Position& b) { return a.step < b.step; });
  return positions;
}

// One step that read the sample.
struct Reading {
  uint64_t epoch = 0;
  uint64_t ordinal = 0;
  const Position* first = nullptr;   // that has it
  const Position* before = nullptr;  // the checkpoint before `first`
};

std::optional<uint64_t> RankOf(const Reading& reading) {
  const Position& at = *reading.first;
  if (reading.before == nullptr || reading.before->generation != at.generation) return std::nullopt;
  if (!at.is_even || at.world_size == 0) return std::nullopt;
  const uint64_t begin = reading.ordinal / at.global_batch * at.global_batch;
  const OrdinalRange step{
      begin, std::min(begin + at.global_batch, JsonInt<uint64_t>(at.terms, "samples"))};
  for (uint64_t rank = 0; rank < at.world_size; ++rank) {
    const OrdinalRange share = CutEvenly(step, {.number = rank, .of = at.world_size});
    if (share.begin <= reading.ordinal && reading.ordinal < share.end) return rank;
  }
  return std::nullopt;
}

// The readings of the sample in one data set. Its positions come in order, the oldest first.
std::vector<Reading> ReadingsOf(const std::vector<const Position*>& positions, uint64_t sample) {
  std::vector<Reading> readings;
  const Position& newest = *positions.back();
  const uint64_t samples = JsonInt<uint64_t>(newest.terms, "samples");
  const uint64_t whole = samples / newest.global_batch * newest.global_batch;
  const uint64_t oldest = newest.epoch >= kEpochsMax ? newest.epoch - kEpochsMax + 1 : 0;
  for (uint64_t epoch = oldest; epoch <= newest.epoch; ++epoch) {
    const auto order = OrderOf(newest.terms, epoch);
    if (!order) return {};
    Reading reading{.epoch = epoch, .ordinal = order->OrdinalOf(sample)};
    if (!newest.Has(epoch, reading.ordinal)) continue;
    if (newest.drops_last && reading.ordinal >= whole) continue;
    for (const Position* one : positions) {
      if (one->terms == newest.terms && one->Has(epoch, reading.ordinal)) {
        reading.first = one;
        break;
      }
      reading.before = one;
    }
    readings.push_back(reading);
  }
  return readings;
}

struct Answer {
  Json readings = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"DATA SET", "EPOCH", "STEP OF EPOCH", "RANK", "FIRST CHECKPOINT"}};

  void Add(const Reading& one) {
    const Position& at = *one.first;
    const std::optional<uint64_t> rank = RankOf(one);
    const uint64_t step = one.ordinal / at.global_batch;
    readings.push_back({{"data_set", at.name},
                        {"epoch", one.epoch},
                        {"ordinal", one.ordinal},
                        {"step_of_epoch", step},
                        {"rank", rank ? Json(*rank) : Json()},
                        {"checkpoint", at.checkpoint},
                        {"checkpoint_step", at.step}});
    rows.push_back({Visible(at.name), std::to_string(one.epoch), std::to_string(step),
                    rank ? Concat(*rank, " of ", at.world_size) : "–", at.checkpoint});
  }
};

Problem NoSample(const std::string& directory, const std::string& what, const std::string& why) {
  return {.code = "PL-E085",
          .what = what,
          .where = directory,
          .why = why,
          .fix = "save the loader in the Checkpointer's state; name its data set by --data"};
}

}  // namespace

std::optional<EpochOrder> OrderOf(const Json& terms, uint64_t epoch) {
  const std::string shuffle = JsonText(terms, "shuffle");
  OrderSpec spec{.samples = JsonInt<uint64_t>(terms, "samples"),
                 .seed = JsonInt<uint64_t>(terms, "seed"),
                 .epoch = epoch,
                 .block = JsonInt<uint64_t>(terms, "block"),
                 .window = JsonInt<uint64_t>(terms, "window")};
  if (shuffle == "none") {
    spec.shuffle = Shuffle::kNone;
  } else if (shuffle == "blocked") {
    spec.shuffle = Shuffle::kBlocked;
  } else if (shuffle != "whole") {
    return std::nullopt;
  }
  const auto order = EpochOrder::Make(spec);
  if (!order.ok()) return std::nullopt;
  return *order;
}

int TraceInCheckpoints(Invocation& invocation, const std::string& directory,
                       const std::string& data_set, uint64_t sample) {
  Output& out = invocation.out;
  const auto store = OpenPlace(invocation, directory);
  if (!store.ok()) return out.Fail(store.problem());
  const auto all = ckpt::List(store->get());
  if (!all.ok()) return out.Fail(StorageUnreadable(directory, all.failure()));
  if (all->empty())
    return out.Fail(NoCheckpoint(directory, "no folder in it has a complete MANIFEST.json"));
  const std::vector<Position> positions = PositionsIn(store->get(), *all, data_set);
  if (positions.empty()) {
    return out.Fail(NoSample(directory, "no checkpoint has the position of such a loader",
                             "the saved states have no ElasticLoader of that name"));
  }
  std::map<std::string, std::vector<const Position*>> by_name;
  for (const Position& one : positions) by_name[one.name].push_back(&one);
  Answer answer;
  bool has_sample = false;
  for (const auto& [name, own] : by_name) {
    const Json& terms = own.back()->terms;
    if (sample >= JsonInt<uint64_t>(terms, "samples") || !OrderOf(terms, 0)) continue;
    has_sample = true;
    for (const Reading& reading : ReadingsOf(own, sample)) answer.Add(reading);
  }
  if (!has_sample) {
    return out.Fail(
        NoSample(directory, Concat("no data set has a sample ", sample),
                 "each of them is shorter, or its order comes from a sampler or a mixture"));
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(Json{{"schema", "paceline.data_trace_steps/1"},
                                {"sample", sample},
                                {"from", "checkpoints"},
                                {"readings", answer.readings}}));
  } else if (answer.readings.empty()) {
    out.DataLine(Concat("sample ", sample, " is not in any checkpoint yet"));
  } else {
    out.Rows(answer.rows);
  }
  return kExitDone;
}

}  // namespace paceline::cli
