#include "paceline/cli/console/console.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/fd.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/model/task.h"

namespace paceline::cli {
namespace {

constexpr Duration kFoldWindow = Duration::Milliseconds(25);
// A busy machine may need seconds from a rank's end to the decision.
constexpr Duration kTracePatience = Duration::Seconds(3);
constexpr std::string_view kEraseLine = "\r\x1b[2K";
// Six hues that are readable on dark and light backgrounds; a node keeps its hue.
constexpr std::array<int, 6> kNodeColors = {36, 35, 33, 32, 34, 31};

// Returns 0, or the errno of the write that failed.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

int ColorOf(std::string_view node) {
  uint32_t sum = 0;
  for (const char c : node) sum = sum * 31 + static_cast<unsigned char>(c);
  return kNodeColors[sum % kNodeColors.size()];
}

bool Holds(Streams streams, bool is_stderr) {
  const auto wanted = static_cast<uint32_t>(is_stderr ? Streams::kErr : Streams::kOut);
  return (static_cast<uint32_t>(streams) & wanted) != 0;
}

void ReplaceName(std::string* text, std::string_view name, std::string_view value) {
  for (const std::string& form : {Concat("${", name, "}"), Concat("$", name)}) {
    for (size_t at = text->find(form); at != std::string::npos; at = text->find(form, at)) {
      text->replace(at, form.size(), value);
      at += value.size();
    }
  }
}

}  // namespace

std::string FillPrefixTemplate(const std::string& pattern, const PrefixNames& names) {
  std::string text = pattern;
  ReplaceName(&text, "role_name", names.role_name);
  ReplaceName(&text, "local_rank", Concat(names.local_rank));
  ReplaceName(&text, "rank", RankName(Rank(names.rank)));
  ReplaceName(&text, "hostname", names.hostname);
  return text;
}

ConsoleOptions ConsoleFor(const std::string& run_dir, const std::vector<std::string>& nodes,
                          const JobSpec& spec, const LaunchSpec& launch,
                          const OutputOptions& output) {
  ConsoleOptions options;
  options.log_root = launch.log_dir.empty() ? run_dir + "/logs" : launch.log_dir;
  options.nodes = nodes;
  options.spec = launch.console;
  options.role = launch.role;
  options.nproc_per_node = spec.nproc_per_node;
  options.has_prefix = spec.nodes_max * spec.nproc_per_node > 1;
  options.is_quiet = output.quiet;
  options.use_color = output.color_stdout;
  options.has_bold_stderr = output.color_stderr;
  options.is_out_terminal = ::isatty(STDOUT_FILENO) == 1;
  options.is_err_terminal = ::isatty(STDERR_FILENO) == 1;
  options.has_live_line = output.progress && options.is_err_terminal;
  return options;
}

absl::StatusOr<std::unique_ptr<Console>> Console::Start(ConsoleOptions options) {
  std::unique_ptr<Console> console(new Console(std::move(options)));
  ASSIGN_OR_RETURN(console->reactor_, agent::Reactor::Create());
  ASSIGN_OR_RETURN(
      console->tail_,
      RankTail::Start(*console->reactor_, console->options_.log_root, console->options_.nodes,
                      console->options_.from_start,
                      [raw = console.get()](RankLine line) { raw->TakeLine(std::move(line)); }));
  console->thread_ = std::thread([raw = console.get()] { raw->reactor_->Run(); });
  return console;
}

Console::Console(ConsoleOptions options)
    : options_(std::move(options)), folder_(kFoldWindow), traces_(kTracePatience) {}

Console::~Console() {
  if (!thread_.joinable()) return;
  reactor_->Post([this] {
    tail_->Drain();
    Fold(traces_.TakeAll());
    ShowAll();
    HideLiveLine();
    reactor_->Stop();
  });
  thread_.join();
  tail_.reset();
}

void Console::Narrate(std::string text) {
  if (options_.is_quiet) return;
  reactor_->Post([this, text = std::move(text)] {
    ShowAll();  // what ranks had printed before this decision
    ShowNarration(text);
  });
}

void Console::NarrateCause(std::string text, uint64_t generation, uint32_t rank) {
  reactor_->Post([this, text = std::move(text), generation, rank] {
    ShowBlamed(generation, rank);
    if (options_.is_quiet) return;
    ShowNarration(options_.has_bold_stderr ? Concat("\x1b[1;31m", text, "\x1b[0m") : text);
  });
}

void Console::Blame(uint64_t generation, uint32_t rank) {
  reactor_->Post([this, generation, rank] { ShowBlamed(generation, rank); });
}

void Console::ShowBlamed(uint64_t generation, uint32_t rank) {
  if (Folds()) {
    tail_->ReadAll();  // the failed rank has ended, so its trace is whole
    Fold(traces_.Blame(generation, rank));
  }
  ShowAll();
}

void Console::ShowAll() {
  for (const FoldedLine& line : folder_.TakeAll()) Show(line);
}

void Console::ShowNarration(const std::string& text) {
  HideLiveLine();
  WriteAll(STDERR_FILENO, text + "\n");
  ShowLiveLine();
}

void Console::SetLiveLine(std::string text) {
  if (!options_.has_live_line) return;
  reactor_->Post([this, text = std::move(text)] {
    HideLiveLine();
    live_line_ = text;
    ShowLiveLine();
  });
}

void Console::HideLiveLine() {
  if (is_live_line_shown_) WriteAll(STDERR_FILENO, kEraseLine);
  is_live_line_shown_ = false;
}

void Console::ShowLiveLine() {
  if (live_line_.empty()) return;
  WriteAll(STDERR_FILENO, live_line_);
  is_live_line_shown_ = true;
}

bool Console::IsShown(const RankLine& line) const {
  const uint32_t local_rank = line.rank % std::max(1u, options_.nproc_per_node);
  const ConsoleSpec& spec = options_.spec;
  if (!spec.local_ranks_filter.empty() &&
      std::find(spec.local_ranks_filter.begin(), spec.local_ranks_filter.end(), local_rank) ==
          spec.local_ranks_filter.end()) {
    return false;
  }
  return !Holds(spec.redirects.For(local_rank), line.is_stderr) ||
         Holds(spec.tee.For(local_rank), line.is_stderr);
}

void Console::CopyFiltered(const RankLine& line) const {
  const std::vector<std::string>& filters = line.is_stderr ? options_.spec.duplicate_stderr_filters
                                                           : options_.spec.duplicate_stdout_filters;
  const bool is_wanted = std::any_of(filters.begin(), filters.end(), [&line](const auto& filter) {
    return line.text.find(filter) != std::string::npos;
  });
  if (!is_wanted) return;
  const std::string path =
      Concat(options_.log_root, line.is_stderr ? "/filtered_stderr.log" : "/filtered_stdout.log");
  const Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (fd.is_open())
    WriteAll(fd.get(), Concat("[", RankName(Rank(line.rank)), "]: ", line.text, "\n"));
}

void Console::TakeLine(RankLine line) {
  CopyFiltered(line);
  if (!IsShown(line)) return;
  if (!Folds()) {
    NoteShown(line);
    Show({std::move(line), 1});
    return;
  }
  Fold(traces_.Add(agent::MonotonicNow(), std::move(line)));
  ShowDue();
}

void Console::Fold(std::vector<RankLine> lines) {
  for (RankLine& line : lines) {
    NoteShown(line);  // equal lines of several ranks are shown as one
    folder_.Add(agent::MonotonicNow(), std::move(line));
  }
}

void Console::NoteShown(const RankLine& line) {
  if (options_.traces_shown != nullptr) options_.traces_shown->Add(line);
}

void Console::ShowDue() {
  Fold(traces_.TakeDue(agent::MonotonicNow()));
  for (const FoldedLine& line : folder_.TakeDue(agent::MonotonicNow())) Show(line);
  ArmTimer();
}

void Console::ArmTimer() {
  const Instant deadline = std::min(folder_.NextDeadline(), traces_.NextDeadline());
  if (deadline.is_max() || (timer_ != 0 && timer_due_ <= deadline)) return;
  if (timer_ != 0) reactor_->Cancel(timer_);
  timer_due_ = deadline;
  timer_ = reactor_->CallAt(deadline.nanoseconds(), [this] {
    timer_ = 0;
    ShowDue();
  });
}

std::string Console::Prefix(const FoldedLine& folded) const {
  if (!options_.has_prefix) return "";
  const RankLine& line = folded.line;
  if (!options_.spec.line_prefix_template.empty()) {
    return FillPrefixTemplate(
        options_.spec.line_prefix_template,
        {options_.role, line.rank, line.rank % std::max(1u, options_.nproc_per_node), line.node});
  }
  std::string prefix = Concat(line.node, ":", RankName(Rank(line.rank)), "|");
  if (folded.ranks > 1) prefix = Concat(prefix, " ×", folded.ranks, " ranks |");
  if (options_.use_color) prefix = Concat("\x1b[", ColorOf(line.node), "m", prefix, "\x1b[0m");
  return prefix + " ";
}

void Console::Show(const FoldedLine& folded) {
  HideLiveLine();
  const RankLine& line = folded.line;
  const bool is_terminal = line.is_stderr ? options_.is_err_terminal : options_.is_out_terminal;
  const int error =
      WriteAll(line.is_stderr ? STDERR_FILENO : STDOUT_FILENO,
               Concat(Prefix(folded), is_terminal ? ForTerminal(line.text) : line.text, "\n"));
  if (error != 0 && error != EPIPE) TellUnshown(error);  // EPIPE: the reader has closed its end
  ShowLiveLine();
}

void Console::TellUnshown(int error) {
  if (options_.is_quiet || std::exchange(has_told_unshown_, true)) return;
  WriteAll(STDERR_FILENO,
           Concat("paceline: lines of the ranks cannot be shown here: ", std::strerror(error),
                  ". All of them are in ", options_.log_root, ".\n"));
}

}  // namespace paceline::cli
