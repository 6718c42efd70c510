#include "paceline/agent/hang/process_look.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "paceline/agent/hang/socket_peer.h"
#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/hex.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kTextMax = 4096;
constexpr size_t kListMax = 16 << 10;
constexpr size_t kDescendantsMax = 256;
// Of SettledLooks, after the first.
constexpr int kMoreLooksMax = 3;

Duration Ticks(uint64_t ticks) {
  static const int64_t kTickNs = 1'000'000'000 / ::sysconf(_SC_CLK_TCK);
  return Duration::Nanoseconds(static_cast<int64_t>(ticks) * kTickNs);
}

uint64_t ValueOf(std::string_view text, std::string_view key) {
  for (std::string_view line : SplitParts(text, "\n")) {
    if (!TakePrefix(&line, key)) continue;
    return ParseWhole<uint64_t>(Trimmed(line)).value_or(0);
  }
  return 0;
}

std::string TargetOf(const std::string& link) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlink(link.c_str(), text.data(), text.size() - 1);
  return length <= 0 ? "" : std::string(text.data(), static_cast<size_t>(length));
}

// The meaning of a system call's first argument.
enum class Argument { kOther, kDescriptor, kPolled };

struct KnownCall {
  long number;
  std::string_view text;
  Argument argument;
  std::string_view to_peer = "";  // before the address of a socket's other end
};
constexpr std::array<KnownCall, 22> kCalls = {{
    {SYS_read, "read", Argument::kDescriptor, "read from"},
    {SYS_pread64, "read", Argument::kDescriptor},
    {SYS_readv, "read", Argument::kDescriptor, "read from"},
    {SYS_write, "write", Argument::kDescriptor, "write to"},
    {SYS_pwrite64, "write", Argument::kDescriptor},
    {SYS_writev, "write", Argument::kDescriptor, "write to"},
    {SYS_fsync, "fsync", Argument::kDescriptor},
    {SYS_fdatasync, "fsync", Argument::kDescriptor},
    {SYS_flock, "flock", Argument::kDescriptor},
    {SYS_getdents64, "listing", Argument::kDescriptor},
    {SYS_recvfrom, "receive", Argument::kDescriptor, "receive from"},
    {SYS_recvmsg, "receive", Argument::kDescriptor, "receive from"},
    {SYS_sendto, "send", Argument::kDescriptor, "send to"},
    {SYS_sendmsg, "send", Argument::kDescriptor, "send to"},
    {SYS_connect, "connect", Argument::kDescriptor, "connect to"},
    {SYS_accept, "accept", Argument::kDescriptor},
    {SYS_poll, "poll", Argument::kPolled, "poll of"},
    {SYS_ppoll, "poll", Argument::kPolled, "poll of"},
    {SYS_openat, "open of a file", Argument::kOther},
    {SYS_futex, "a lock", Argument::kOther},
    {SYS_wait4, "the end of a child", Argument::kOther},
    {SYS_clock_nanosleep, "sleep", Argument::kOther},
}};

// The first descriptor of a pollfd array in the process's memory.
std::optional<int> PolledAt(const std::string& folder, uint64_t address) {
  const Fd memory(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  pollfd first{};
  const ssize_t got =
      !memory.is_open() ? -1
                        : ::pread(memory.get(), &first, sizeof(first), static_cast<off_t>(address));
  if (got != static_cast<ssize_t>(sizeof(first))) return std::nullopt;
  return first.fd;
}

// "read of /data/train.bin", "receive from 10.0.0.3:8080", or "read" alone.
std::string TextOf(const KnownCall& call, const std::string& folder, std::string_view argument) {
  TakePrefix(&argument, "0x");
  const uint64_t value = ParseHex(argument).value_or(0);
  std::optional<int> descriptor = static_cast<int>(value);
  if (call.argument == Argument::kPolled) descriptor = PolledAt(folder, value);
  if (!descriptor.has_value()) return std::string(call.text);
  const std::string target = TargetOf(Concat(folder, "/fd/", *descriptor));
  const uint64_t socket = SocketInode(target);
  if (target.empty()) return std::string(call.text);
  if (socket == 0) return Concat(call.text, " of ", target);
  const std::string peer = PeerOf(folder, socket);
  const bool is_known = !peer.empty() && !call.to_peer.empty();
  return is_known ? Concat(call.to_peer, " ", peer) : Concat(call.text, " of a socket");
}

// Parses /proc/PID/syscall: "0 0x5 …" in a system call, "running", or "-1 …" in none.
std::string CallText(const std::string& folder) {
  const std::string text = ReadText(folder + "/syscall", kTextMax);
  const std::vector<std::string_view> parts = SplitParts(text, " \n");
  const auto number = parts.empty() ? std::nullopt : ParseWhole<long>(parts[0]);
  if (!number.has_value() || *number < 0) return "";
  for (const KnownCall& call : kCalls) {
    if (call.number != *number) continue;
    const bool is_alone = call.argument == Argument::kOther || parts.size() < 2;
    return is_alone ? std::string(call.text) : TextOf(call, folder, parts[1]);
  }
  return "";
}

uint64_t BytesOf(const std::string& folder) {
  const std::string io = ReadText(folder + "/io", kTextMax);
  return ValueOf(io, "rchar:") + ValueOf(io, "wchar:");
}

uint64_t SwitchesOf(const std::string& folder) {
  const std::string status = ReadText(folder + "/status", kTextMax);
  return ValueOf(status, "voluntary_ctxt_switches:") +
         ValueOf(status, "nonvoluntary_ctxt_switches:");
}

bool Sleeps(char state) { return state == 'S' || state == 'D'; }

// A loader's worker waits for work on a pipe or a lock, which is not a file.
bool IsFileCall(std::string_view call) { return call.find(" of /") != std::string_view::npos; }

// The children of all threads of a process. Empty if the kernel does not list children.
std::vector<pid_t> ChildPidsOf(const std::string& folder) {
  std::vector<pid_t> children;
  std::error_code error;
  // No range-for: its increment throws if the process ends.
  for (std::filesystem::directory_iterator task(folder + "/task", error), end;
       !error && task != end; task.increment(error)) {
    const std::string text = ReadText(Concat(task->path().string(), "/children"), kListMax);
    for (const std::string_view word : SplitParts(text, " \n")) {
      if (const auto child = ParseWhole<pid_t>(word)) children.push_back(*child);
    }
  }
  return children;
}

void AddDescendant(pid_t child, const std::string& folder, const std::string& proc_root,
                   ProcessLook* look) {
  const ProcessStat stat = ReadStat(child, proc_root);
  look->cpu = look->cpu + Ticks(stat.cpu_ticks);
  look->bytes += BytesOf(folder);
  look->switches[child] = SwitchesOf(folder);
  if (stat.state == 'T' && look->stopped_child == 0) look->stopped_child = child;
  if (!Sleeps(look->state) || !Sleeps(stat.state) || IsFileCall(look->waits_in)) return;
  const std::string call = CallText(folder);
  if (IsFileCall(call)) look->waits_in = call + ", in a child process";
}

void AddDescendants(const std::string& folder, const std::string& proc_root, ProcessLook* look) {
  std::vector<pid_t> left = ChildPidsOf(folder);
  for (size_t i = 0; i < left.size(); ++i) {
    if (i == kDescendantsMax) {
      look->is_whole = false;
      return;
    }
    const std::string its_folder = Concat(proc_root, "/", left[i]);
    AddDescendant(left[i], its_folder, proc_root, look);
    const std::vector<pid_t> next = ChildPidsOf(its_folder);
    left.insert(left.end(), next.begin(), next.end());
  }
}

}  // namespace

ProcessLook LookAt(const ProcessId& process, const std::string& proc_root) {
  const std::string folder = Concat(proc_root, "/", process.pid);
  const ProcessStat stat = ReadStat(process.pid, proc_root);
  if (stat.state == 0) return {};
  ProcessLook look{.is_there = true, .state = stat.state, .cpu = Ticks(stat.cpu_ticks)};
  look.bytes = BytesOf(folder);
  look.switches[process.pid] = SwitchesOf(folder);
  if (Sleeps(look.state)) look.waits_in = CallText(folder);
  AddDescendants(folder, proc_root, &look);
  if (StartTimeOf(process.pid, proc_root) != process.start_time_ticks) return {};
  return look;
}

std::vector<ProcessLook> SettledLooks(std::vector<ProcessLook> before,
                                      const std::function<std::vector<ProcessLook>()>& look) {
  const auto is_halted = [](const ProcessLook& one) {
    return one.state == 'T' || one.state == 't';
  };
  const auto agree = [&is_halted](const ProcessLook& a, const ProcessLook& b) {
    return is_halted(a) == is_halted(b);
  };
  std::vector<ProcessLook> looks = look();
  for (int more = 0; more < kMoreLooksMax; ++more) {
    if (std::equal(before.begin(), before.end(), looks.begin(), looks.end(), agree)) return looks;
    before = std::exchange(looks, look());
  }
  for (size_t i = 0; i < looks.size() && i < before.size(); ++i) {
    if (!agree(before[i], looks[i])) looks[i].state = '?';
  }
  return looks;
}

bool IsHostPressed(const std::string& proc_root) {
  constexpr uint64_t kPressedPercent = 20;
  // "some avg10=48.06 avg60=…": the digits before the point are enough.
  const std::string file = ReadText(proc_root + "/pressure/cpu", kTextMax);
  std::string_view text = file;
  if (!TakePrefix(&text, "some avg10=")) return false;
  const auto percent = ParseWhole<uint64_t>(text.substr(0, text.find('.')));
  return percent.value_or(0) >= kPressedPercent;
}

}  // namespace paceline::agent
