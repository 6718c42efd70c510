#include "paceline/agent/hang/process_look.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <optional>
#include <string_view>
#include <vector>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kTextMax = 4096;
constexpr size_t kChildrenMax = 64;

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

struct KnownCall {
  long number;
  std::string_view text;
  bool has_file;  // its first argument is a descriptor
};
constexpr std::array<KnownCall, 21> kCalls = {{
    {SYS_read, "read", true},
    {SYS_pread64, "read", true},
    {SYS_readv, "read", true},
    {SYS_write, "write", true},
    {SYS_pwrite64, "write", true},
    {SYS_writev, "write", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fsync", true},
    {SYS_flock, "flock", true},
    {SYS_getdents64, "listing", true},
    {SYS_recvfrom, "receive", true},
    {SYS_recvmsg, "receive", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "send", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_openat, "open of a file", false},
    {SYS_futex, "a lock", false},
    {SYS_wait4, "the end of a child", false},
    {SYS_clock_nanosleep, "sleep", false},
    {SYS_poll, "poll", false},
}};

// Parses /proc/PID/syscall: "0 0x5 …" in a system call, "running", or "-1 …" in none.
std::string CallText(const std::string& folder) {
  const std::string text = ReadText(folder + "/syscall", kTextMax);
  const std::vector<std::string_view> parts = SplitParts(text, " \n");
  const auto number = parts.empty() ? std::nullopt : ParseWhole<long>(parts[0]);
  if (!number.has_value() || *number < 0) return "";
  for (const KnownCall& call : kCalls) {
    if (call.number != *number) continue;
    if (!call.has_file || parts.size() < 2) return std::string(call.text);
    std::string_view argument = parts[1];
    TakePrefix(&argument, "0x");
    uint32_t descriptor = 0;
    std::from_chars(argument.data(), argument.data() + argument.size(), descriptor, 16);
    const std::string target = TargetOf(Concat(folder, "/fd/", descriptor));
    return target.empty() ? std::string(call.text) : Concat(call.text, " of ", target);
  }
  return "";
}

uint64_t BytesOf(const std::string& folder) {
  const std::string io = ReadText(folder + "/io", kTextMax);
  return ValueOf(io, "rchar:") + ValueOf(io, "wchar:");
}

bool Sleeps(char state) { return state == 'S' || state == 'D'; }

// A loader's worker waits for work on a pipe or a lock, which is not a file.
bool IsFileCall(std::string_view call) { return call.find(" of /") != std::string_view::npos; }

// Adds the children of the main thread. If the kernel does not list children, only the process
// itself is examined.
void AddChildren(const std::string& folder, const std::string& proc_root, ProcessLook* look) {
  const std::string pid = folder.substr(folder.rfind('/') + 1);
  const std::string text = ReadText(Concat(folder, "/task/", pid, "/children"), kTextMax);
  size_t count = 0;
  for (const std::string_view word : SplitParts(text, " \n")) {
    const auto child = ParseWhole<pid_t>(word);
    if (!child.has_value() || ++count > kChildrenMax) return;
    const std::string its_folder = Concat(proc_root, "/", *child);
    const ProcessStat stat = ReadStat(*child, proc_root);
    look->cpu = look->cpu + Ticks(stat.cpu_ticks);
    look->bytes += BytesOf(its_folder);
    if (!Sleeps(look->state) || !Sleeps(stat.state) || IsFileCall(look->waits_in)) continue;
    const std::string call = CallText(its_folder);
    if (IsFileCall(call)) look->waits_in = call + ", in a child process";
  }
}

}  // namespace

ProcessLook LookAt(const ProcessId& process, const std::string& proc_root) {
  const std::string folder = Concat(proc_root, "/", process.pid);
  const ProcessStat stat = ReadStat(process.pid, proc_root);
  if (stat.state == 0) return {};
  ProcessLook look{.is_there = true, .state = stat.state, .cpu = Ticks(stat.cpu_ticks)};
  look.bytes = BytesOf(folder);
  if (Sleeps(look.state)) look.waits_in = CallText(folder);
  AddChildren(folder, proc_root, &look);
  if (StartTimeOf(process.pid, proc_root) != process.start_time_ticks) return {};
  return look;
}

}  // namespace paceline::agent
