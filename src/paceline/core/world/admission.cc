#include "paceline/core/world/admission.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "paceline/base/mark.h"
#include "paceline/core/world/membership.h"
#include "paceline/core/world/name_contest.h"
#include "paceline/core/world/wish.h"
#include "paceline/model/version.h"

namespace paceline::core {

namespace {

RefuseNode Refusal(ConnectionId connection, std::string code) {
  RefuseNode refusal;
  refusal.connection = connection;
  refusal.code = std::move(code);
  return refusal;
}

}  // namespace

bool IsNodeName(const std::string& name) {
  if (name.empty() || name.size() > kNameLengthMax || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool CheckReport(Turn& turn, const NodeRegistered& event) {
  const NodeReport& report = event.report;
  RefuseNode refusal = Refusal(event.connection, "");
  if (report.term > turn.state().term) {
    // This master was believed dead, and it is not: it must not judge anything any more.
    MARK("node of a newer master refused");
    refusal.code = "PL-E111";
    refusal.what = "the job has a newer master";
    refusal.why = "node " + report.name + " has been connected to the master of term " +
                  std::to_string(report.term) + ", and this one is of term " +
                  std::to_string(turn.state().term);
    refusal.fix = "nothing to do: the agent asks again, and finds the newer one";
    refusal.retry = true;
  } else if (turn.state().phase == Phase::kEmpty) {
    refusal.code = "PL-E030";
    refusal.what = "the master has no job yet";
    refusal.why = "node " + report.name + " came before the job was submitted";
    refusal.fix = "nothing to do: the agent tries again";
    refusal.retry = true;
  } else if (!report.job_id.empty() && report.job_id != turn.state().spec.job_id) {
    // The agent's master is gone, and this one has its address. The worlds and ranks are of another
    // job.
    MARK("agent of another job refused");
    refusal.code = "PL-E049";
    refusal.what = "this address belongs to another job now";
    refusal.why = "node " + report.name + " is of job " + report.job_id +
                  ", and the master is of " + turn.state().spec.job_id;
    refusal.fix = "run the same command again, and it joins the new job";
  } else if (!IsNodeName(report.name)) {
    refusal.code = "PL-E037";
    refusal.what = "the name of the node is not valid";
    refusal.why = "a name has 1 to 128 letters, digits, '.', '_' or '-', and no '.' in front";
    refusal.fix = "give another --node-name";
  } else if (report.version_major != kVersionMajor ||
             (report.version_minor != kVersionMinor && report.version_minor + 1 != kVersionMinor)) {
    refusal.code = "PL-E036";
    refusal.what = "node " + report.name + " runs another release";
    refusal.why =
        "the master has " + std::to_string(kVersionMajor) + "." + std::to_string(kVersionMinor) +
        " and the agent " + std::to_string(report.version_major) + "." +
        std::to_string(report.version_minor) + "; equal or one minor version behind is allowed";
    refusal.fix = "install the same release on every host";
  } else if (report.slots == 0 || report.slots > kSlotsMax) {
    refusal.code = "PL-E038";
    refusal.what = "node " + report.name + " offers " + std::to_string(report.slots) + " ranks";
    refusal.why = "a node holds 1 to " + std::to_string(kSlotsMax) + " ranks";
    refusal.fix = "set --nproc-per-node";
  } else if (report.slots < turn.state().spec.nproc_per_node) {
    MARK("small node refused");
    refusal.code = "PL-E038";
    refusal.what = "node " + report.name + " offers fewer ranks than the job asks of a node";
    refusal.why = "it offers " + std::to_string(report.slots) + ", the job was submitted with " +
                  std::to_string(turn.state().spec.nproc_per_node) + " ranks a node";
    refusal.fix = "give the same --nproc-per-node on every host";
  } else {
    return true;
  }
  turn.Do(std::move(refusal));
  return false;
}

bool CheckIdentity(Turn& turn, const NodeRegistered& event, const NodeState* node) {
  const NodeReport& report = event.report;
  RefuseNode refusal = Refusal(event.connection, "");
  const JobState& state = turn.state();
  const bool over = state.phase == Phase::kStopping || state.phase == Phase::kFinished;
  if (node == nullptr) {
    if (!over && state.nodes.size() < kNodesMax) return true;
    refusal.code = "PL-E039";
    refusal.what = over ? "the job has ended" : "the job has too many nodes";
    refusal.why = over ? state.final_reason : "no more than " + std::to_string(kNodesMax);
    refusal.fix =
        over ? "start a new job" : "give the node a name that an earlier node of the job had";
    turn.Do(std::move(refusal));
    return false;
  }
  if (IsSuccessor(state, turn.Link(node->id), report)) return true;
  if (std::optional<RefuseNode> taken = ContestName(turn, event, *node)) {
    turn.Do(*std::move(taken));
    return false;
  }
  if (report.generation <= state.generation) return true;
  refusal.code = "PL-E034";
  refusal.what = "node " + report.name + " has been in a newer world of this job";
  refusal.why = "it has carried out generation " + ToString(report.generation) +
                ", the journal ends with " + ToString(state.generation);
  refusal.fix = "the journal is an old copy: stop that agent, or resume from the newest journal";
  turn.Do(std::move(refusal));
  return false;
}

}  // namespace paceline::core
