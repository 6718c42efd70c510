#include "paceline/cli/drill/kinds.h"

#include <algorithm>
#include <vector>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

constexpr Duration kSoon = Duration::Seconds(20);
constexpr Duration kHangSoon = Duration::Seconds(90);  // three times as long on a pressed host
constexpr Duration kLater = Duration::Seconds(120);
constexpr std::string_view kRestart = "restart process";
constexpr std::string_view kReplace = "replace node";

// To add a kind: a row here, and what it does by that name in python/paceline/_drill. Expectations
// are what docs/failure-model.md promises, not what was seen.
constexpr DrillKind kDrillKinds[] = {
    // ---- a rank ends ----
    {"sigkill", "SIGKILL to a rank", Strike::kStep, "killed", kRestart, kSoon, "crash_rank"},
    {"sigsegv", "a rank reads address 0", Strike::kStep, "segfault", kRestart, kSoon, "crash_rank"},
    {"exit", "a rank ends with exit code 3 and says nothing", Strike::kStep, "exited", kRestart,
     kSoon, "crash_rank"},
    {"exception", "a rank raises a ValueError", Strike::kStep, "script_error", kRestart, kSoon,
     "crash_rank"},
    {"raises_and_lingers", "a rank raises, and a thread keeps its process alive", Strike::kStep,
     "ending", kRestart, kHangSoon, ""},
    {"memory_limit", "a rank takes more memory than a limit of its process allows", Strike::kStep,
     "host_alloc_failed", kRestart, kSoon, ""},
    {"disk_full", "a rank writes to a full device", Strike::kStep, "disk_full", kRestart, kSoon,
     ""},
    {"loader_exit", "the worker of a rank's DataLoader ends", Strike::kJob, "loader_worker_died",
     kRestart, kHangSoon, ""},
    {"xid_79", "the kernel's log tells of a lost GPU, and a rank crashes", Strike::kStep, "xid_79",
     kRestart, kSoon, "", Needs::kKernelLog},
    // ---- a rank lives and does not go on ----
    {"sigstop", "SIGSTOP to a rank", Strike::kStep, "stopped", kRestart, kHangSoon, "freeze_rank"},
    {"gil_lock", "C code of a rank sleeps with the interpreter's lock", Strike::kStep, "blocked",
     kRestart, kHangSoon, ""},
    {"c_loop", "C code of a rank computes for ever", Strike::kStep, "busy", kRestart, kHangSoon,
     ""},
    {"deadlock", "two threads of a rank wait for each other", Strike::kStep, "blocked", kRestart,
     kHangSoon, ""},
    {"blocked_read", "a rank reads a file that gives no byte", Strike::kJob, "blocked", kRestart,
     kHangSoon, ""},
    {"loader_stall", "SIGSTOP to the worker of a rank's DataLoader", Strike::kJob, "blocked",
     kRestart, kHangSoon, ""},
    {"skip_call", "a rank leaves a collective out", Strike::kJob, "mismatched call", kRestart,
     kHangSoon, ""},
    {"wrong_shape", "a rank calls all_reduce with fewer bytes", Strike::kJob, "mismatched call",
     kRestart, kHangSoon, ""},
    {"wrong_order", "a rank calls two collectives in another order", Strike::kJob,
     "mismatched order", kRestart, kHangSoon, ""},
    // ---- training goes on, and badly ----
    {"slow_rank", "a rank needs three times as long for its work", Strike::kJob, "rank_slow", "",
     kLater, ""},
    {"nan_loss", "a batch of a rank is NaN", Strike::kJob, "loss_went_bad", "", kSoon, ""},
    // ---- processes and nodes ----
    {"agent_kill", "SIGKILL to an agent", Strike::kAgent, "agent_returned", "", kSoon,
     "kill_agent"},
    {"master_kill", "SIGKILL to the master", Strike::kMaster, "master_took_over", "", kSoon,
     "crash_master"},
    {"node_kill", "SIGKILL to all processes of a node", Strike::kNode, "node_lost", kReplace, kSoon,
     "kill_node"},
    {"node_silent", "SIGSTOP to all processes of a node", Strike::kSilentNode, "node_lost",
     kReplace, kHangSoon, "freeze_node"},
};

}  // namespace

std::span<const DrillKind> DrillKinds() { return kDrillKinds; }

const DrillKind* FindDrillKind(std::string_view name) {
  const auto all = DrillKinds();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const DrillKind& kind) { return kind.name == name; });
  return found == all.end() ? nullptr : &*found;
}

Problem NoSuchKind(const std::string& asked) {
  std::vector<std::string_view> names;
  for (const DrillKind& known : DrillKinds()) names.push_back(known.name);
  const std::string_view nearest = Nearest(asked, names);
  return Problem{.code = "PL-E165",
                 .what = "there is no kind of drill " + Visible(asked),
                 .where = "paceline drill " + ShellWord(asked),
                 .why = "the kinds are " + JoinWith(names, ", "),
                 .fix = nearest.empty() ? "paceline drill lists what each kind does"
                                        : Concat("did you mean paceline drill ", nearest, "?")};
}

}  // namespace paceline::cli
