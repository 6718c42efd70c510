#include "paceline/core/testing/scenario.h"

#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>

namespace paceline::core::testing {

namespace {

using Words = std::vector<std::string>;

Words Split(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The words from `first` on, as one text.
std::string Rest(const Words& words, size_t first) {
  std::string text;
  for (size_t i = first; i < words.size(); ++i) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

int64_t Number(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 10); }

// 250ms, 3s, 1.5s, 10min
Duration Time(const std::string& text) {
  char* unit = nullptr;
  const double value = std::strtod(text.c_str(), &unit);
  const std::string name(unit);
  const double scale = name == "ms" ? 1e-3 : name == "min" ? 60 : 1;
  return Duration::Milliseconds(static_cast<int64_t>(value * scale * 1e3 + 0.5));
}

ExitCause Cause(ExitCause::Kind kind, int code, const std::string& text) {
  ExitCause cause;
  cause.kind = kind;
  cause.code = code;
  cause.headline = text;
  cause.fingerprint = text;
  return cause;
}

class Script {
 public:
  explicit Script(const ScenarioOptions& options) : options_(options) {
    spec_.job_id = "demo";
    spec_.nodes_min = 0;
  }

  ScenarioResult Run(const std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line) && error_.empty();) {
      const Words words = Split(line);
      if (words.empty() || words[0][0] == '#') continue;
      if (words[0] == "---") break;
      Take(words);
    }
    return Play();
  }

 private:
  void Take(const Words& words) {
    if (words[0] == "at" && words.size() > 2) {
      steps_.push_back({Time(words[1]), Words(words.begin() + 2, words.end())});
    } else if (words[0] == "until" && words.size() == 2) {
      until_ = Time(words[1]);
    } else if (!TakeJob(words) && !TakeTraining(words)) {
      error_ = "unknown line: " + Rest(words, 0);
    }
  }

  // nodes 3 min 2 max 3 spares 1 slots 2
  bool TakeJob(const Words& words) {
    if (words.size() < 2) return false;
    for (size_t i = 0; i + 1 < words.size(); i += 2) {
      const std::string& key = words[i];
      const std::string& value = words[i + 1];
      const auto number = static_cast<uint32_t>(Number(value));
      if (key == "nodes")
        nodes_ = number;
      else if (key == "slots")
        slots_ = number;
      else if (key == "min")
        spec_.nodes_min = number;
      else if (key == "max")
        spec_.nodes_max = number;
      else if (key == "unit")
        spec_.unit = number;
      else if (key == "spares")
        spec_.spares = number;
      else if (key == "max-restarts")
        spec_.max_restarts = number;
      else if (key == "replace-nodes")
        spec_.replace_nodes = value == "on";
      else if (key == "join-window")
        spec_.timers.join_window = Time(value);
      else if (key == "shrink-after")
        spec_.timers.shrink_after = Time(value);
      else if (key == "orphan-after")
        spec_.timers.orphan_after = Time(value);
      else if (key == "grow")
        spec_.grow = Policy(value);
      else
        return false;
    }
    return true;
  }

  static GrowPolicy Policy(const std::string& word) {
    if (word == "now") return GrowPolicy::kNow;
    return word == "never" ? GrowPolicy::kNever : GrowPolicy::kCheckpoint;
  }

  bool TakeTraining(const Words& words) {
    if (words.size() < 2) return false;
    const std::string& key = words[0];
    if (key == "save")
      training_.save_every = Number(words[1]);
    else if (key == "done")
      training_.done_at = Number(words[1]);
    else if (key == "tells-steps")
      training_.tells_steps = words[1] == "on";
    else if (key == "steps")
      training_.steps = words[1] == "on";
    else if (key == "ignores-sigterm")
      training_.ignores_sigterm = words[1] == "on";
    else if (key == "cascade")
      training_.cascade = Time(words[1]);
    else if (key == "imports")
      training_.imports = Time(words[1]);
    else if (key == "ports-taken")
      training_.ports_taken = static_cast<uint32_t>(Number(words[1]));
    else if (key == "unstartable" && words.size() > 2)
      training_.unstartable[words[1]] = Rest(words, 2);
    else if (key == "broken" && words.size() > 2)
      training_.broken[words[1]] = Rest(words, 2);
    else if (key == "bug" && words.size() > 3) {
      training_.bugs.push_back(
          {Number(words[1]), words[2] == "all" ? -1 : Number(words[2]), Rest(words, 3)});
    } else {
      return false;
    }
    return true;
  }

  ScenarioResult Play() {
    ScenarioResult result;
    result.error = error_;
    if (!error_.empty()) return result;
    if (spec_.nodes_max < 2 && nodes_ > 1) spec_.nodes_max = nodes_ - spec_.spares;
    if (spec_.nodes_min == 0) spec_.nodes_min = spec_.nodes_max;
    cluster_ = std::make_unique<Cluster>(spec_);
    cluster_->training() = training_;
    cluster_->CrashMasterAt(options_.crash_at_record);
    cluster_->StartMaster();
    for (uint32_t i = 1; i <= nodes_; ++i) {
      const std::string name = "n" + std::to_string(i);
      cluster_->At(Instant() + Duration::Milliseconds(i),
                   [this, name] { cluster_->StartNode(name, slots_); });
    }
    for (const Step& step : steps_) {
      cluster_->At(Instant() + step.when, [this, words = step.words] { Do(words); });
    }
    cluster_->RunUntil(Instant() + until_ + options_.more);
    result.error = error_;
    result.journal = cluster_->journal();
    result.phase = cluster_->job().state().phase;
    result.exit_code = cluster_->job().state().exit_code;
    result.final_reason = cluster_->job().state().final_reason;
    result.step = cluster_->step_max();
    for (const auto& [name, id] : cluster_->job().state().by_name) {
      if (cluster_->job().state().Find(id)->IsMember()) result.members.push_back(name);
    }
    for (const Step& step : steps_) result.has_master_fault |= ActsOnMaster(step.words);
    result.living_ranks = cluster_->LivingRanks();
    result.rank_conflict = cluster_->RankConflict();
    result.trace = cluster_->trace();
    result.trace.push_back("      end  " + End());
    return result;
  }

  std::string End() const {
    const Job& job = cluster_->job();
    std::string text(PhaseName(job.state().phase));
    if (job.state().world) {
      text += ", world " + std::to_string(WorldNumber(job.state().world->generation)) + " on";
      for (const Seat& seat : job.state().world->seats) {
        text += " " + job.state().NameOf(seat.node);
      }
    }
    text += ", step " + std::to_string(cluster_->step_max()) + ", " +
            std::to_string(cluster_->LivingRanks()) + " ranks alive";
    return text + "; " + job.Pending();
  }

  // ---- commands ----
  void Do(const Words& words) {
    const std::string& verb = words[0];
    const std::string target = words.size() > 1 ? words[1] : "";
    if (DoRank(words) || DoMaster(words)) return;
    Cluster& cluster = *cluster_;
    if (verb == "kill" && target == "agent")
      cluster.KillAgent(words[2], Time(words.at(3)));
    else if (verb == "vanish")
      cluster.Vanish(target, words.size() < 3);
    else if (verb == "reboot")
      cluster.Reboot(target, Time(words.at(2)));
    else if (verb == "freeze")
      cluster.Freeze(target, true);
    else if (verb == "thaw")
      cluster.Freeze(target, false);
    else if (verb == "cut")
      cluster.Cut(target, true, true);
    else if (verb == "deafen")
      cluster.Cut(target, true, false);
    else if (verb == "mute")
      cluster.Cut(target, false, true);
    else if (verb == "mend")
      cluster.Cut(target, false, false);
    else if (verb == "heartbeats")
      cluster.StopHeartbeats(words.at(2), target == "stop");
    else if (verb == "notice")
      cluster.Notice(target, Time(words.at(2)));
    else if (verb == "leave")
      cluster.Leave(target, Rest(words, 2));
    else if (verb == "second")
      cluster.SecondAgent(target);
    else if (verb == "join")
      cluster.StartNode(target,
                        words.size() > 2 ? static_cast<uint32_t>(Number(words[2])) : slots_);
    else if (verb == "stop" || verb == "force") {
      const bool force = verb == "force";
      cluster.Remark(force ? "the user stops the job at once" : "the user stops the job");
      cluster.Tell(StopRequested{.why = Rest(words, 3),
                                 .grace = Time(words.at(2)),
                                 .exit_code = static_cast<int>(Number(words.at(1))),
                                 .force = force});
    } else if (verb == "scale") {
      cluster.Remark("a user chooses the size " + target);
      cluster.Tell(SizeRequested{.nodes = static_cast<uint32_t>(Number(target)),
                                 .at_once = words.size() > 2 && words[2] == "now",
                                 .why = "paceline scale was typed"});
    } else if (verb == "gone") {
      cluster.Remark("a late word says that " + target + " is gone");
      cluster.Tell(NodeGone{target, "is gone", 1});
    } else if (verb == "fix") {
      cluster.Remark("the script is repaired");
      cluster.training().bugs.clear();
    } else {
      error_ = "unknown verb: " + Rest(words, 0);
    }
  }

  // kill n1/r0, segv n1/r0, exit n1/r0 3, raise n1/r0 text, cause n1/r0 cuda_oom text,
  // cascade n1/r0 connection_reset text
  bool DoRank(const Words& words) {
    if (words.size() < 2) return false;
    const size_t slash = words[1].find("/r");
    if (slash == std::string::npos) return false;
    const std::string node = words[1].substr(0, slash);
    const auto local = static_cast<uint32_t>(Number(words[1].substr(slash + 2)));
    using Kind = ExitCause::Kind;
    if (words[0] == "kill")
      cluster_->KillRank(node, local, Cause(Kind::kSignaled, 9, ""));
    else if (words[0] == "segv")
      cluster_->KillRank(node, local, Cause(Kind::kSignaled, 11, ""));
    else if (words[0] == "exit") {
      const int code = static_cast<int>(Number(words.at(2)));
      cluster_->KillRank(node, local, Cause(Kind::kExited, code, ""));
    } else if (words[0] == "raise") {
      cluster_->KillRank(node, local, Cause(Kind::kExited, 1, Rest(words, 2)));
    } else if (words[0] == "cause" || words[0] == "cascade") {
      ExitCause cause = Cause(Kind::kExited, 1, Rest(words, 3));
      cause.cause_class = words.at(2);
      cause.role = words[0] == "cause" ? ExitCause::Role::kCause : ExitCause::Role::kCascade;
      cluster_->KillRank(node, local, std::move(cause));
    } else {
      return false;
    }
    return true;
  }

  static bool ActsOnMaster(const Words& words) { return words.size() > 1 && words[1] == "master"; }

  bool DoMaster(const Words& words) {
    if (!ActsOnMaster(words)) return false;
    if (words[0] == "kill")
      cluster_->KillMaster();
    else if (words[0] == "start")
      cluster_->StartMaster();
    else if (words[0] == "lose")
      cluster_->LoseMaster(words.at(2) == "all" ? SIZE_MAX : static_cast<size_t>(Number(words[2])));
    else if (words[0] == "stall")
      cluster_->StallMaster(Time(words.at(2)));
    else
      return false;
    return true;
  }

  struct Step {
    Duration when;
    Words words;
  };
  ScenarioOptions options_;
  JobSpec spec_;
  Training training_;
  uint32_t nodes_ = 1;
  uint32_t slots_ = 2;
  Duration until_ = Duration::Seconds(10);
  std::vector<Step> steps_;
  std::string error_;
  std::unique_ptr<Cluster> cluster_;
};

}  // namespace

ScenarioResult RunScenario(const std::string& script, const ScenarioOptions& options) {
  return Script(options).Run(script);
}

}  // namespace paceline::core::testing
