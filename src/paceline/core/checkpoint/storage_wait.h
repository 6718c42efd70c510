#pragma once

// How long the end of a job tries to bring its last step to a storage that refuses it. A part of
// the checkpoint ledger, and as pure.
//
//   The wait begins with the first refusal while somebody has nothing else to do: the job ends, or
//   a rank closes its Checkpointer. It ends when storage takes a step, or when nobody waits. What
//   is being written when the time is over is still awaited; the next refusal is then the last.

#include <string>
#include <string_view>

#include "paceline/base/instant.h"

namespace paceline::core {

// Exit code of a job that would have ended with 0, but its last saved step is not in storage.
inline constexpr int kExitNotStored = 11;

// Returns true if trying the write again cannot help, because storage has refused it for good
// (kRefusedForGood in model/directory_claim.h). A job that ends does not wait for storage then.
bool IsForGood(const std::string& problem);

// Two refusals for one reason: they differ in numbers alone, as of steps and ranks.
bool IsSameReason(std::string_view a, std::string_view b);

class StorageWait {
 public:
  static constexpr Duration kRetryMax = Duration::Seconds(15);

  // Somebody waits, and has nothing else to do.
  void Await(bool is_awaited) {
    if (!is_awaited) since_ = Instant::Max();
  }
  // Storage refused a step that somebody waits for. True: that was the last try. Of a wait that
  // `limit` bounds, the last try is made when it is over.
  bool Refuse(Instant now, Duration limit, const std::string& problem);
  // When a step that waits is tried again: soon, and once more when the time is over.
  Instant RetryAt(Instant now, Duration pause, Duration limit) const;
  void Succeed() { since_ = Instant::Max(); }
  bool is_waiting() const { return !since_.is_max(); }

 private:
  Instant since_ = Instant::Max();  // the first refusal
};

}  // namespace paceline::core
