#include "paceline/agent/ranks/pids.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <charconv>
#include <string_view>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

constexpr size_t kStatBytesMax = 4096;

}  // namespace

// The command name may have spaces and brackets itself. Behind it, index 0 is the state (field 3).
ProcessStat ReadStat(pid_t pid, const std::string& proc_root) {
  ProcessStat stat;
  if (pid <= 0) return stat;
  const std::string text = ReadText(Concat(proc_root, "/", pid, "/stat"), kStatBytesMax);
  const size_t command_end = text.rfind(')');
  if (command_end == std::string::npos || command_end + 2 >= text.size()) return stat;
  const std::string_view rest = std::string_view(text).substr(command_end + 2);
  const std::vector<std::string_view> fields = SplitParts(rest, " ");
  constexpr size_t kFlagsField = 9 - 3;
  constexpr size_t kUserTimeField = 14 - 3;
  constexpr size_t kSystemTimeField = 15 - 3;
  constexpr size_t kWaitedUserTimeField = 16 - 3;
  constexpr size_t kWaitedSystemTimeField = 17 - 3;
  constexpr size_t kStartTimeField = 22 - 3;
  if (fields.size() <= kStartTimeField || fields[0].empty()) return stat;
  stat.start_time_ticks = ParseWhole<uint64_t>(fields[kStartTimeField]).value_or(0);
  stat.flags = ParseWhole<uint64_t>(fields[kFlagsField]).value_or(0);
  for (const size_t field :
       {kUserTimeField, kSystemTimeField, kWaitedUserTimeField, kWaitedSystemTimeField}) {
    stat.cpu_ticks += ParseWhole<uint64_t>(fields[field]).value_or(0);
  }
  stat.state = fields[0][0];
  return stat;
}

uint64_t StartTimeOf(pid_t pid, const std::string& proc_root) {
  return ReadStat(pid, proc_root).start_time_ticks;
}

bool IsAlive(const ProcessId& process, const std::string& proc_root) {
  const ProcessStat stat = ReadStat(process.pid, proc_root);
  return stat.state != 0 && stat.state != 'Z' && stat.state != 'X' &&
         stat.start_time_ticks == process.start_time_ticks;
}

bool IsDying(const ProcessId& process, const std::string& proc_root) {
  constexpr uint64_t kExitingFlag = 0x4;  // PF_EXITING of the kernel's sched.h
  constexpr uint64_t kSigkillBit = uint64_t{1} << (SIGKILL - 1);
  if ((ReadStat(process.pid, proc_root).flags & kExitingFlag) != 0) return true;
  const std::string status =
      ReadText(Concat(proc_root, "/", process.pid, "/status"), kStatBytesMax);
  for (std::string_view line : SplitParts(status, "\n")) {
    if (!TakePrefix(&line, "SigPnd:\t") && !TakePrefix(&line, "ShdPnd:\t")) continue;
    uint64_t pending = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), pending, 16);
    if (read.ec == std::errc() && (pending & kSigkillBit) != 0) return true;
  }
  return false;
}

Fd OpenPidfd(const ProcessId& process) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (fd.is_open() && StartTimeOf(process.pid) != process.start_time_ticks) fd.Close();
  return fd;
}

bool SignalGroup(const ProcessId& leader, int signal) {
  // A zombie leader still holds its number, so it counts as verified.
  const Fd pin = OpenPidfd(leader);
  if (!pin.is_open()) return false;
  return ::kill(-leader.pid, signal) == 0;
}

std::string BootId() {
  return std::string(Trimmed(ReadText("/proc/sys/kernel/random/boot_id", 64)));
}

std::string PidSpaceName() {
  struct stat found {};
  const ino_t space = ::stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
  return Concat(BootId(), " ", space, " ", StartTimeOf(1));
}

}  // namespace paceline::agent
