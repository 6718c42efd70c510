#include "paceline/cli/page/page_data.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "paceline/base/json.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/cli/show/account.h"
#include "paceline/cli/show/explain.h"
#include "paceline/cli/show/failure_class.h"
#include "paceline/cli/show/goodput_json.h"
#include "paceline/cli/show/log_files.h"
#include "paceline/cli/show/why_json.h"
#include "paceline/core/goodput/timeline.h"
#include "paceline/plan/json.h"
#include "paceline/wire/codec/control_json.h"

namespace paceline::cli {
namespace {

using PageJson = nlohmann::ordered_json;

constexpr Duration kPictureLength = Duration::Seconds(30 * 60);
constexpr size_t kPageIncidentsMax = 50;
constexpr size_t kPageLogLines = 20;
constexpr size_t kPageLineBytesMax = 2000;

double EpochSeconds(Instant at) { return static_cast<double>(at.nanoseconds()) / 1e9; }

// "running", "finished", … or, of a job that is over, how it ended.
std::string StateWord(const PageSource& source) {
  const wire::JobStatus& status = source.status;
  if (status.phase != "finished") return status.phase;
  const bool was_asked =
      std::any_of(source.records.begin(), source.records.end(), [](const core::Record& record) {
        const auto* stop = std::get_if<core::StopDecided>(&record.fact);
        return stop != nullptr && stop->is_asked;
      });
  if (status.exit_code.value_or(0) == 0) return was_asked ? "stopped" : "finished";
  return was_asked ? "stopped" : "failed";
}

PageJson TimelineJson(const core::Timeline& timeline, Instant now) {
  const core::Timeline::Picture picture = timeline.Last(kPictureLength, now);
  PageJson json = {{"from", EpochSeconds(picture.from)}, {"until", EpochSeconds(picture.until)}};
  json["stretches"] = PageJson::array();
  for (const core::TimelineStretch& stretch : picture.stretches) {
    const auto& text = core::TimeClassTexts()[static_cast<size_t>(stretch.time_class)];
    json["stretches"].push_back({{"from", EpochSeconds(stretch.from)},
                                 {"until", EpochSeconds(stretch.until)},
                                 {"class", std::string(text.name)}});
  }
  json["lanes"] = PageJson::array();
  for (const core::TimelineLane& lane : picture.lanes) {
    PageJson parts = PageJson::array();
    for (const core::TimelineLane::Part& part : lane.parts) {
      parts.push_back({{"from", EpochSeconds(part.from)},
                       {"until", EpochSeconds(part.until)},
                       {"is_seated", part.is_seated}});
    }
    json["lanes"].push_back({{"node", lane.node}, {"parts", std::move(parts)}});
  }
  return json;
}

// The newest world: which ranks each host has.
PageJson SeatsJson(const PageSource& source) {
  PageJson json = PageJson::array();
  const auto is_world = [](const wire::JobEvent& event) { return event.kind == "world_formed"; };
  const auto formed = std::find_if(source.events.rbegin(), source.events.rend(), is_world);
  if (formed == source.events.rend()) return json;
  for (const wire::WorldMember& one : formed->members) {
    json.push_back({{"node", one.node}, {"first_rank", one.first_rank}, {"ranks", one.ranks}});
  }
  return json;
}

// The pipeline stages by the plan of the newest world. Null: it has no plan, or a plan that is too
// long for the journal.
PageJson TopologyJson(const PageSource& source) {
  Generation world;
  const core::ParallelPlanChosen* chosen = nullptr;
  for (const core::Record& record : source.records) {
    if (const auto* formed = std::get_if<core::WorldFormed>(&record.fact)) {
      world = formed->world.generation;
    }
    if (const auto* plan = std::get_if<core::ParallelPlanChosen>(&record.fact)) chosen = plan;
  }
  if (chosen == nullptr || chosen->generation != world || chosen->plan.empty()) return {};
  const auto plan = plan::ReadPlan(chosen->plan);
  if (!plan.ok()) return {};
  PageJson json = {{"tensor", plan->tensor}, {"stages", PageJson::array()}};
  for (const PlanStage& stage : plan->stages) json["stages"].push_back(stage.ranks);
  return json;
}

PageJson ClassesJson() {
  PageJson json = PageJson::array();
  for (const core::TimeClassText& text : core::TimeClassTexts()) {
    json.push_back({{"name", std::string(text.name)},
                    {"words", std::string(text.words)},
                    {"hint", std::string(text.hint)}});
  }
  return json;
}

// The last lines that the failed rank wrote to stderr, or to stdout if that is empty.
std::vector<std::string> LastLinesOf(const std::string& run_dir, const wire::JobEvent& failure) {
  const LogSelection selection{.node = failure.node,
                               .rank = static_cast<int64_t>(failure.rank.value_or(0)),
                               .generation = static_cast<int64_t>(WorldNumber(failure.generation))};
  const auto files = FindLogFiles(LogRoot(run_dir), selection);
  for (const bool is_error : {true, false}) {
    for (const LogFile& file : files) {
      if (file.is_error != is_error) continue;
      std::vector<std::string> lines = ReadLastLines(file.path, kPageLogLines).lines;
      for (std::string& line : lines) {
        if (line.size() > kPageLineBytesMax) line = line.substr(0, kPageLineBytesMax) + " …";
      }
      if (!lines.empty()) return lines;
    }
  }
  return {};
}

// What `paceline why SEQ` prints, for a mail or an issue.
std::string PlainText(const Explanation& why, const Account& account,
                      const std::string& traceback) {
  std::string text;
  const auto line = [&text](const std::string& one) { text += one + "\n"; };
  line(account.cause.has_value() ? CauseText(*account.cause) : why.event.sentence);
  const std::string failure_class = ClassText(why.first_fault);
  if (!failure_class.empty()) line("class: " + failure_class);
  if (!account.cost.empty()) line("cost: " + account.cost);
  for (const wire::JobEvent& event : why.tried) line("tried before: " + EventLine(event));
  for (const wire::JobEvent& event : why.evidence) line(EventLine(event));
  line(EventLine(why.event));
  for (const wire::JobEvent& event : why.outcome) line(EventLine(event));
  if (!traceback.empty()) line("\n" + traceback);
  if (!why.next.empty()) line("next: " + why.next);
  return text;
}

// When a hang began and how long it lasted, until it ended by itself or its world ended. Of one
// that lasts, until now.
struct HangTime {
  Instant began;
  Duration lasted;
};
std::optional<HangTime> HangTimeOf(const PageSource& source, uint64_t seq) {
  const auto is_it = [seq](const core::Record& record) { return record.seq == RecordSeq(seq); };
  const auto told = std::find_if(source.records.begin(), source.records.end(), is_it);
  if (told == source.records.end()) return std::nullopt;
  const auto* hang = std::get_if<core::HangJudged>(&told->fact);
  if (hang == nullptr || hang->quiet_for <= Duration()) return std::nullopt;
  const auto ends = [](const core::Record& record) {
    return std::holds_alternative<core::HangEnded>(record.fact) ||
           std::holds_alternative<core::WorldEnded>(record.fact) ||
           std::holds_alternative<core::JobFinished>(record.fact);
  };
  const auto end = std::find_if(told + 1, source.records.end(), ends);
  const bool has_end = end != source.records.end();
  // An older release did not record the end of a hang.
  if (!has_end && !hang->end_follows) return std::nullopt;
  const Instant began = told->at - hang->quiet_for;
  return HangTime{began, std::max(Duration(), (has_end ? end->at : source.now) - began)};
}

std::optional<PageJson> IncidentJson(const PageSource& source, uint64_t seq) {
  const auto why = Explain(source.events, seq, source.run_dir);
  if (!why.has_value()) return std::nullopt;
  const Account account = AccountOf(*why, source.events, source.status);
  const bool has_fault = why->first_fault.has_value() && why->first_fault->rank.has_value();
  const std::string traceback = has_fault ? TracebackOf(source.run_dir, *why->first_fault) : "";
  PageJson json = WhyJson(source.job_id, *why, account, traceback);
  json["title"] = account.cause.has_value() ? account.cause->sentence : why->event.sentence;
  json["at"] = static_cast<double>(account.cause.value_or(why->event).time_ns) / 1e9;
  json["lasted_seconds"] = PageJson();
  if (why->hang.has_value()) {
    if (const auto time = HangTimeOf(source, why->hang->seq)) {
      json["at"] = EpochSeconds(time->began);
      json["lasted_seconds"] = time->lasted.ToSecondsF();
    }
  }
  json["cost"] = account.cost;
  json["verdict"] = why->hang.has_value() ? PageJson(why->hang->sentence) : PageJson();
  json["log"] =
      has_fault ? LastLinesOf(source.run_dir, *why->first_fault) : std::vector<std::string>();
  json["text"] = PlainText(*why, account, traceback);
  json["rank_seconds"] = PageJson();
  json["is_open"] = false;
  return json;
}

// What the incident is sorted by.
RecordSeq NewestOf(const core::IncidentCost& cost) {
  return std::max(cost.world_ended, cost.cause);
}

// The newest first: each end of a world and each hang, and the last incident if it is neither.
PageJson IncidentsJson(const PageSource& source, const TimeAccount& account) {
  std::vector<core::IncidentCost> costs = account.report.incidents;
  std::sort(costs.begin(), costs.end(),
            [](const auto& a, const auto& b) { return NewestOf(a) > NewestOf(b); });
  PageJson json = PageJson::array();
  const std::optional<uint64_t> last = LastIncident(source.events);
  const uint64_t newest = costs.empty() ? 0 : NewestOf(costs.front()).value();
  if (last.has_value() && *last > newest) {
    if (auto incident = IncidentJson(source, *last)) {
      const std::string& phase = source.status.phase;
      (*incident)["is_open"] = phase != "running" && phase != "finished";
      json.push_back(std::move(*incident));
    }
  }
  for (const core::IncidentCost& cost : costs) {
    const core::Record* told = ToldRecord(account, cost);
    if (json.size() == kPageIncidentsMax || told == nullptr) continue;
    // The newest decision and the end of its world have one cause.
    if (!json.empty() && json.back()["cause"] == told->seq.value()) {
      json.back()["rank_seconds"] = cost.slot_seconds;
      json.back()["is_open"] = !cost.is_over && !account.is_over;
      continue;
    }
    auto incident = IncidentJson(source, told->seq.value());
    if (!incident.has_value()) continue;
    (*incident)["rank_seconds"] = cost.slot_seconds;
    (*incident)["is_open"] = !cost.is_over && !account.is_over;
    json.push_back(std::move(*incident));
  }
  return json;
}

}  // namespace

PageJson PageData(const PageSource& source) {
  const wire::JobStatus& status = source.status;
  const TimeAccount account = AccountOfTime(source.records, source.now);
  core::Timeline timeline;
  for (const core::Record& record : source.records) timeline.Fold(record);
  const bool is_live = status.master_pid > 0 && status.phase != "finished";
  const Instant newest = source.records.empty() ? source.now : source.records.back().at;
  PageJson json = {
      {"schema", "paceline.page/1"},
      {"job", source.job_id},
      {"name", source.name},
      {"made_at", EpochSeconds(source.now)},
      {"seq", source.records.empty() ? 0 : source.records.back().seq.value()},
      {"data_at", EpochSeconds(is_live ? source.now : newest)},
      {"is_live", is_live},
      {"state", StateWord(source)},
      {"sentence", status.final_reason.empty() ? status.pending : status.final_reason}};
  json["troubles"] = source.troubles;
  json["status"] = ParseOrderedJson(wire::StatusJson(status));
  json["goodput"] = GoodputJson(source.job_id, account);
  json["classes"] = ClassesJson();
  json["seats"] = SeatsJson(source);
  json["topology"] = TopologyJson(source);
  json["timeline"] = TimelineJson(timeline, source.now);
  json["incidents"] = IncidentsJson(source, account);
  return json;
}

}  // namespace paceline::cli
