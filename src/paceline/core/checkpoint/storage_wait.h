#pragma once

// How long the end of a job retries its last step if storage refuses it. A part of the checkpoint
// ledger, and as pure.
//
// The wait begins with the first refusal while the job ends or a rank closes its Checkpointer. It
// ends when storage accepts a step, or when nothing waits. A write in progress at the deadline is
// still awaited; the next refusal is then final.

#include <string>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::core {

// Exit code of a job that would have ended with 0, but its last saved step is not in storage.
inline constexpr int kExitNotStored = 11;

// Why a step is not in storage although storage may be well.
inline constexpr std::string_view kDirectoryUnknown =
    "all processes that knew its directory have ended";
inline constexpr std::string_view kPartIsLost = "a host that had a part of it in memory is lost";

// Returns true if retrying cannot help, because storage has refused for good (kRefusedForGood in
// model/directory_claim.h). A job that ends does not wait for storage then.
bool IsForGood(const std::string& problem);

// What a user does about a directory that refuses writes for this reason; "make room there …".
std::string MendingOf(std::string_view directory, std::string_view reason);

// True if two refusals have the same reason and differ only in numbers, such as steps and ranks.
bool IsSameReason(std::string_view a, std::string_view b);

class StorageWait {
 public:
  static constexpr Duration kRetryMax = Duration::Seconds(15);

  // Tells whether the job's end or a closing rank waits.
  void Await(bool is_awaited) {
    if (!is_awaited) since_ = Instant::Max();
  }
  // Storage refused an awaited step. True: that was the last try. If `limit` bounds the wait, the
  // last try is made at its end.
  bool Refuse(Instant now, Duration limit, const std::string& problem);
  // When to retry an awaited step: soon, and once more at the deadline.
  Instant RetryAt(Instant now, Duration pause, Duration limit) const;
  void Succeed() { since_ = Instant::Max(); }
  bool is_waiting() const { return !since_.is_max(); }

 private:
  Instant since_ = Instant::Max();  // the first refusal
};

}  // namespace paceline::core
