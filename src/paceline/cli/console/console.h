#pragma once

// What a person sees while a job runs: the ranks' lines, the decisions' sentences and, on a
// terminal, one live line. It has a thread of its own, so a full pipe or a stopped terminal blocks
// only this thread, and supervision goes on.
//
// Ranks' stdout goes to stdout, their stderr and all narration to stderr.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "paceline/agent/socket/reactor.h"
#include "paceline/cli/console/line_folder.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/console/trace_folder.h"
#include "paceline/cli/console/traces_shown.h"
#include "paceline/cli/show/rank_tail.h"
#include "paceline/model/job_spec.h"

namespace paceline::cli {

struct ConsoleOptions {
  std::string log_root;
  std::vector<std::string> nodes;  // of this host: whose lines are shown
  ConsoleSpec spec;
  std::string role;
  uint32_t nproc_per_node = 1;
  bool has_prefix = true;  // false: the job has one rank
  bool from_start = true;  // false: only what is printed from now on
  bool is_quiet = false;   // no narration
  bool use_color = false;
  bool has_bold_stderr = false;
  bool is_out_terminal = false;
  bool is_err_terminal = false;
  bool has_live_line = false;           // stderr is a terminal and progress is wanted
  TracesShown* traces_shown = nullptr;  // is told of each line, and read when the console has ended
};

// From the job's own settings, for this host's `nodes`, and from what stdout and stderr of this
// process are.
ConsoleOptions ConsoleFor(const std::string& run_dir, const std::vector<std::string>& nodes,
                          const JobSpec& spec, const LaunchSpec& launch,
                          const OutputOptions& output);

class Console {
 public:
  static absl::StatusOr<std::unique_ptr<Console>> Start(ConsoleOptions options);
  // Shows the remaining lines, then ends.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Any thread; never blocks.
  void Narrate(std::string text);
  // The same for the line that says which rank failed first in this generation. It stands out. The
  // traces of the other ranks are folded, and the trace of this one is shown just before it.
  void NarrateCause(std::string text, uint64_t generation, uint32_t rank);
  // Only folds and shows the traces.
  void Blame(uint64_t generation, uint32_t rank);
  void SetLiveLine(std::string text);

 private:
  explicit Console(ConsoleOptions options);
  void TakeLine(RankLine line);
  void Fold(std::vector<RankLine> lines);
  void NoteShown(const RankLine& line);
  void ShowBlamed(uint64_t generation, uint32_t rank);
  void ShowAll();
  void ShowNarration(const std::string& text);
  bool Folds() const { return options_.spec.fold && options_.has_prefix; }
  void ShowDue();
  void Show(const FoldedLine& folded);
  void TellUnshown(int error);
  void ArmTimer();
  bool IsShown(const RankLine& line) const;
  std::string Prefix(const FoldedLine& folded) const;
  void CopyFiltered(const RankLine& line) const;
  void HideLiveLine();
  void ShowLiveLine();

  ConsoleOptions options_;
  std::unique_ptr<agent::Reactor> reactor_;
  std::unique_ptr<RankTail> tail_;
  LineFolder folder_;
  TraceFolder traces_;
  agent::Reactor::TimerId timer_ = 0;
  Instant timer_due_;  // meaningful when there is a timer
  std::string live_line_;
  bool is_live_line_shown_ = false;
  bool has_told_unshown_ = false;
  std::thread thread_;
};

// torchrun's --log-line-prefix-template: $role_name, $rank, $local_rank, $hostname, also in braces.
struct PrefixNames {
  std::string role_name;
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  std::string hostname;
};
std::string FillPrefixTemplate(const std::string& pattern, const PrefixNames& names);

}  // namespace paceline::cli
