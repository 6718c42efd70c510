// `paceline data`: the data sets that a job leases, their progress, and which worker consumed a
// sample. It asks the master if one runs. Otherwise, and for the history of a sample, it reads the
// journal of leases in the run directory.

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/data/trace.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/settings/value.h"
#include "paceline/data/epoch_order.h"
#include "paceline/data/lease/lease_book.h"
#include "paceline/master/job_file.h"
#include "paceline/master/leases/lease_host.h"
#include "paceline/master/leases/lease_journal.h"
#include "paceline/wire/bulk/lease_socket.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration kAnswerMax = Duration::Seconds(2);
// An incarnation has the generation above this many low bits.
constexpr int kIncarnationBits = 42;

constexpr Flag kDataFlags[] = {
    {.dest = "data_set",
     .spellings = {"--data"},
     .metavar = "NAME",
     .help = "only this data set, for `trace`; all of the job by default"},
    {.dest = "checkpoint",
     .spellings = {"--checkpoint"},
     .metavar = "DIR",
     .help =
         "for data of an ElasticLoader: trace by the positions in this directory of checkpoints"},
};

std::string JournalOf(const JobPlace& place) { return place.run_dir + "/data.db"; }

Problem NoData(const JobPlace& place, const std::string& why) {
  return {.code = "PL-E085",
          .what = "this job leases no data",
          .where = JournalOf(place),
          .why = why,
          .fix =
              "lease data by paceline.data.shards(dataset) in the script; for samples of an "
              "ElasticLoader: paceline data trace SAMPLE --checkpoint DIR"};
}

Problem CannotReadData(const JobPlace& place, const absl::Status& status) {
  return {.code = "PL-E086",
          .what = "the leases of the job cannot be read",
          .where = JournalOf(place),
          .why = std::string(status.message()),
          .fix = "try again; if the error comes back, keep the file for analysis"};
}

// From the master, because only the master knows open leases. Nothing if it does not answer.
std::optional<std::vector<Json>> AskMaster(const JobPlace& place) {
  const auto options = ControlOptions(place, kAnswerMax);
  const auto address = master::ReadMasterAddress(place.run_dir);
  if (!place.has_master() || !options.ok() || !address.ok() || address->leases.empty()) return {};
  auto socket = wire::LeaseSocket::Dial(address->leases, options->credentials, kAnswerMax);
  if (!socket.ok()) return {};
  (*socket)->Add({.op = LeaseOp::kShow});
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::vector<LeaseFrame> frames;
  std::vector<Json> found;
  while ((*socket)->Flush().ok() && std::chrono::steady_clock::now() < until) {
    frames.clear();
    const bool is_over = !(*socket)->Receive(&frames).ok();
    for (const LeaseFrame& frame : frames) {
      if (frame.op != LeaseOp::kShown) continue;
      if (frame.text.empty()) return found;
      found.push_back(ParseOrderedJson(frame.text));
    }
    if (is_over) return {};
    const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return {};
}

Result<std::vector<Json>> DataSets(const JobPlace& place) {
  auto told = AskMaster(place);
  if (!told) {
    const auto stored = master::ReadLeases(JournalOf(place));
    if (absl::IsNotFound(stored.status())) return NoData(place, "no data was leased yet");
    if (!stored.ok()) return CannotReadData(place, stored.status());
    told.emplace();
    for (const DataSetView& view : master::FoldLeases(*stored).Views()) {
      Json json = ParseOrderedJson(master::DataSetJson(view));
      json["open_leases"] = nullptr;  // not known without a master
      json["leased"] = nullptr;
      json["workers"] = nullptr;
      told->push_back(std::move(json));
    }
  }
  if (told->empty()) return NoData(place, "no data was leased yet");
  return *std::move(told);
}

std::string TextOf(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return "–";
  return found->is_string() ? found->get<std::string>() : PrintJson(*found);
}

std::string PositionText(const Json& one) {
  const uint64_t all = JsonInt<uint64_t>(one, "ordinals");
  const uint64_t done = JsonInt<uint64_t>(one, "done");
  const uint64_t samples = one.contains("terms") && one["terms"].is_object()
                               ? JsonInt<uint64_t>(one["terms"], "samples")
                               : uint64_t{0};
  if (one.contains("partitions")) {
    return Concat(done, " of ", all, " records, ", one["partitions"].size(), " partitions");
  }
  std::string text = Concat(done, " of ", all);
  if (samples > 0 && all > samples)
    Append(&text, ", ", done / samples, " of ", all / samples, " epochs");
  return text;
}

uint64_t CountOf(const std::string& ranges) {
  uint64_t count = 0;
  const auto parsed = RangesFromText(ranges);
  if (!parsed) return 0;
  for (const OrdinalRange& range : *parsed) count += range.size();
  return count;
}

int LsData(Invocation& invocation, const JobPlace& place) {
  Output& out = invocation.out;
  const auto sets = DataSets(place);
  if (!sets.ok()) return out.Fail(sets.problem());
  if (out.is_json()) {
    out.DataLine(
        PrintJson(Json{{"schema", "paceline.data_ls/1"}, {"job", place.id}, {"data_sets", *sets}}));
    return kExitDone;
  }
  std::vector<std::vector<std::string>> rows = {
      {"DATA SET", "DONE", "OPEN LEASES", "WORKERS", "QUARANTINE", "STATE"}};
  for (const Json& one : *sets) {
    const bool is_complete = JsonBool(one, "is_complete", false);
    const uint64_t bad = CountOf(TextOf(one, "quarantined"));
    rows.push_back({Visible(TextOf(one, "name")), PositionText(one), TextOf(one, "open_leases"),
                    TextOf(one, "workers"), std::to_string(bad),
                    one.contains("partitions") ? "live"
                    : !is_complete             ? "incomplete"
                    : bad == 0                 ? "complete"
                                               : Concat("complete except ", bad)});
  }
  out.Rows(rows);
  return kExitDone;
}

// The rows of a stream: each partition, where it stands, who reads it, and how far behind.
void ShowStream(const Json& one, Output& out) {
  std::vector<std::vector<std::string>> rows = {{"PARTITION", "OFFSET", "HOLDER", "LAG"}};
  for (const Json& part : one["partitions"]) {
    const bool is_over = JsonBool(part, "is_over", false);
    const std::string holder = TextOf(part, "holder");
    rows.push_back({Visible(TextOf(part, "name")), TextOf(part, "offset"),
                    is_over         ? "done"
                    : holder == "–" ? holder
                                    : "rank " + holder,
                    TextOf(part, "lag")});
  }
  out.Rows(rows);
  const std::string bad = TextOf(one, "quarantined");
  out.DataLine(Concat("  quarantine    ", CountOf(bad), " records that decode refused"));
  if (const auto reasons = one.find("reasons"); reasons != one.end()) {
    for (const Json& reason : *reasons) {
      if (reason.is_string()) out.DataLine("                " + Visible(reason.get<std::string>()));
    }
  }
  out.DataLine(Concat("  gaps          ", TextOf(one, "gaps"), " records lost to retention"));
}

// Without a name: all data sets.
int ShowData(Invocation& invocation, const JobPlace& place,
             const std::optional<std::string>& name) {
  Output& out = invocation.out;
  const auto sets = DataSets(place);
  if (!sets.ok()) return out.Fail(sets.problem());
  bool is_found = false;
  for (const Json& one : *sets) {
    if (name && TextOf(one, "name") != *name) continue;
    is_found = true;
    if (out.is_json()) {
      Json json = one;
      json["schema"] = "paceline.data_show/1";
      out.DataLine(PrintJson(json));
      continue;
    }
    out.DataLine(Visible(TextOf(one, "name")) + ": " + PositionText(one));
    const bool is_stream = one.contains("partitions");
    out.DataLine("  open leases   " + TextOf(one, "open_leases") +
                 (is_stream ? ", " : " on " + TextOf(one, "leased") + " samples, ") +
                 TextOf(one, "workers") + " workers");
    const bool follows = JsonBool(one, "follows_checkpoints", false);
    out.DataLine(std::string("  resumes       ") +
                 (follows ? "at the position in the restored checkpoint"
                          : "after the acknowledged samples"));
    const std::string bad = TextOf(one, "quarantined");
    if (is_stream) {
      ShowStream(one, out);
    } else {
      out.DataLine("  quarantine    " + (bad.empty() ? "nothing" : "ordinals " + bad));
    }
    out.DataLine("  order         " + Visible(TextOf(one, "terms")));
  }
  if (is_found) return kExitDone;
  return out.Fail({.code = "PL-E085",
                   .what = "the job has no data set " + name.value_or(""),
                   .where = JournalOf(place),
                   .why = "it has " + std::to_string(sets->size()) + " others",
                   .fix = "paceline data ls"});
}

// ---- trace ----

// One passage of a sample through a worker.
struct Passage {
  std::string data_set;
  uint64_t epoch = 0;
  LeaseFact acked;
  Instant at;
  std::optional<uint64_t> step;  // of the first checkpoint of that worker that has it
  bool counts = true;            // false: a restore went back to before it
};

struct Traced {
  std::string name;
  uint64_t samples = 0;
  std::vector<uint64_t> ordinals;  // of the sample, one for each epoch
};

// Nothing if paceline does not compute its order, or it has no such sample.
std::optional<Traced> Trace(const LeaseFact& opened, uint64_t sample) {
  const size_t line = opened.text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  const Json terms = ParseOrderedJson(opened.text.substr(line + 1));
  if (!terms.is_object()) return std::nullopt;
  Traced traced{.name = opened.text.substr(0, line),
                .samples = JsonInt<uint64_t>(terms, "samples")};
  if (traced.samples == 0 || sample >= traced.samples) return std::nullopt;
  constexpr uint64_t kEpochsMax = 10'000;
  const uint64_t epochs = std::min(opened.end / traced.samples, kEpochsMax);
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = OrderOf(terms, epoch);
    if (!order) return std::nullopt;
    traced.ordinals.push_back(epoch * traced.samples + order->OrdinalOf(sample));
  }
  return traced;
}

class Tracer {
 public:
  Tracer(uint64_t sample, std::string name) : sample_(sample), name_(std::move(name)) {}

  void See(const master::StoredFact& stored) {
    const LeaseFact& fact = stored.fact;
    using Kind = LeaseFact::Kind;
    book_.Restore(fact);
    if (fact.kind == Kind::kOpened) {
      const auto traced = Trace(fact, sample_);
      if (traced && (name_.empty() || name_ == traced->name)) sets_[fact.set] = *traced;
    }
    const auto found = sets_.find(fact.set);
    if (found == sets_.end()) return;
    const Traced& set = found->second;
    if (fact.kind == Kind::kAcked) {
      for (const uint64_t ordinal : set.ordinals) {
        if (ordinal < fact.begin || ordinal >= fact.end) continue;
        passages_.push_back(
            {.data_set = set.name, .epoch = ordinal / set.samples, .acked = fact, .at = stored.at});
      }
    } else if (fact.kind == Kind::kMarked) {
      for (Passage& one : passages_) {
        const bool is_its = one.acked.set == fact.set && one.acked.worker == fact.worker;
        if (is_its && one.counts && !one.step) one.step = fact.begin;
      }
    } else if (fact.kind == Kind::kRewound || fact.kind == Kind::kUndone) {
      for (Passage& one : passages_) {
        if (one.acked.set != fact.set) continue;
        one.counts = one.counts && book_.IsDone(fact.set, set.ordinals[one.epoch]);
      }
    }
  }

  const std::vector<Passage>& passages() const { return passages_; }
  bool has_sets() const { return !sets_.empty(); }

 private:
  const uint64_t sample_;
  const std::string name_;
  LeaseBook book_;
  std::map<uint32_t, Traced> sets_;
  std::vector<Passage> passages_;
};

std::string TimeText(Instant at) {
  const std::time_t seconds = at.nanoseconds() / 1'000'000'000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

Json PassageJson(const Passage& one) {
  return {{"data_set", one.data_set},
          {"epoch", one.epoch},
          {"rank", one.acked.worker.worker},
          {"generation", one.acked.worker.incarnation >> kIncarnationBits},
          {"lease", one.acked.lease},
          {"first", one.acked.begin},
          {"end", one.acked.end},
          {"at", TimeText(one.at)},
          {"step", one.step ? Json(*one.step) : Json()},
          {"counts", one.counts}};
}

int TraceSample(Invocation& invocation, const JobPlace& place, uint64_t sample) {
  Output& out = invocation.out;
  Tracer tracer(sample, invocation.line.Text("data_set"));
  const absl::Status status = master::ReadLeaseHistory(
      JournalOf(place), [&tracer](const master::StoredFact& fact) { tracer.See(fact); });
  if (absl::IsNotFound(status)) return out.Fail(NoData(place, "no data was leased yet"));
  if (!status.ok()) return out.Fail(CannotReadData(place, status));
  if (!tracer.has_sets()) {
    return out.Fail(
        {.code = "PL-E085",
         .what = Concat("no data set of the job has a sample ", sample),
         .where = JournalOf(place),
         .why = "each of them is shorter, or its order comes from a sampler of the script",
         .fix = "paceline data ls"});
  }
  Json json = {{"schema", "paceline.data_trace/1"}, {"sample", sample}, {"from", "leases"}};
  json["passages"] = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"DATA SET", "EPOCH", "RANK", "GENERATION", "LEASE", "ACKNOWLEDGED", "CHECKPOINT", "COUNTS"}};
  for (const Passage& one : tracer.passages()) {
    json["passages"].push_back(PassageJson(one));
    rows.push_back({Visible(one.data_set), std::to_string(one.epoch),
                    std::to_string(one.acked.worker.worker),
                    std::to_string(one.acked.worker.incarnation >> kIncarnationBits),
                    std::to_string(one.acked.lease), TimeText(one.at),
                    one.step ? "step " + std::to_string(*one.step) : "–",
                    one.counts ? "yes" : "no: a restore went back to before it"});
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else if (tracer.passages().empty()) {
    out.DataLine(Concat("sample ", sample,
                        " was not acknowledged yet, or so long ago that its "
                        "history is gone"));
  } else {
    out.Rows(rows);
  }
  return kExitDone;
}

Problem Misused(const std::string& why) {
  return {.code = "PL-E010",
          .what = "paceline data needs a subcommand",
          .where = "the command line",
          .why = why,
          .fix = "paceline data ls, paceline data show [NAME] or paceline data trace SAMPLE"};
}

}  // namespace

FlagTable DataFlags() { return kDataFlags; }

int RunData(Invocation& invocation) {
  const std::vector<std::string>& words = invocation.line.positionals;
  Output& out = invocation.out;
  if (words.empty()) return out.Fail(Misused("it needs ls, show or trace"));
  const bool is_ls = words[0] == "ls";
  if (!is_ls && words[0] != "show" && words[0] != "trace") {
    return out.Fail(Misused(words[0] + " is not ls, show or trace"));
  }
  const bool is_show_all = words[0] == "show" && words.size() == 1;
  if (words.size() != (is_ls ? 1u : 2u) && !is_show_all) {
    return out.Fail(Misused(is_ls ? "ls takes no argument" : words[0] + " takes one argument"));
  }
  const Given* checkpoint = invocation.line.Find("checkpoint");
  if (checkpoint != nullptr) {
    const auto sample = words[0] == "trace" ? ParseWhole<uint64_t>(words[1]) : std::nullopt;
    if (!sample)
      return out.Fail(Misused("--checkpoint is for `trace` with the number of a sample"));
    return TraceInCheckpoints(invocation, checkpoint->value, invocation.line.Text("data_set"),
                              *sample);
  }
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  if (is_ls) return LsData(invocation, *place);
  if (words[0] == "show") {
    return ShowData(invocation, *place,
                    is_show_all ? std::nullopt : std::optional<std::string>(words[1]));
  }
  const auto sample = ParseWhole<uint64_t>(words[1]);
  if (!sample) return out.Fail(Misused(words[1] + " is not a sample: samples are numbered from 0"));
  return TraceSample(invocation, *place, *sample);
}

}  // namespace paceline::cli
