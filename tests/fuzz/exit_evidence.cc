// What a rank and the kernel leave behind: the error record (any rank may write anything into it),
// the end of stderr, a line of the kernel's log, /proc/self/cgroup. Parts stand behind each other,
// separated by 0x1e; the first one is a number for pid and wait status.

#include "paceline/agent/ranks/exit_cause.h"
#include "paceline/base/memory_group.h"
#include "paceline/core/budget.h"
#include "parts.h"

namespace {

constexpr size_t kTextMax = 4096;  // a headline is a line, whatever it was made from

std::string PartOr(const std::vector<std::string>& parts, size_t index) {
  return index < parts.size() ? parts[index] : std::string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace agent = paceline::agent;
  const auto parts = paceline::fuzz::Parts(paceline::fuzz::AsText(data, size), '\x1e');
  const int number = std::atoi(parts[0].c_str());
  agent::ExitEvidence evidence;
  evidence.pid = number;
  if (number != 0) evidence.wait_status = number & 0xffff;
  evidence.cgroup_killed = (number & 1) != 0;
  evidence.error_record = PartOr(parts, 1);
  evidence.stderr_tail = PartOr(parts, 2);
  evidence.kernel_line = PartOr(parts, 3);
  const paceline::ExitCause cause = agent::JudgeExit(evidence);
  paceline::fuzz::Demand(cause.headline.size() < kTextMax, "a headline is short");
  paceline::fuzz::Demand(cause.fingerprint.size() < kTextMax, "a fingerprint is short");
  paceline::fuzz::Demand(!paceline::core::FailureText(cause).empty(), "every end has a text");
  (void)agent::TracebackOf(evidence.error_record, 0);
  (void)paceline::MemoryGroup::Of(PartOr(parts, 4), "/nonexistent/");
  return 0;
}
