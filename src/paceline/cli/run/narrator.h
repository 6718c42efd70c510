#pragma once

// Tells a person what the job decides, sentence by sentence, as the journal has them, and remembers
// what the summary at the end needs: the first failure of the last world and its traceback.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "paceline/cli/console/console.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

struct RootFailure {
  std::string node;
  uint32_t rank = 0;
  uint64_t generation = 0;
  std::optional<int64_t> step;
  std::string sentence;
  std::string traceback;  // empty when it left none, or it is on another host
  bool was_started = true;
  std::optional<int> rank_exit_code;  // as a shell would see it: 128 + signal for a signal
};

// A step that is in the hosts' memory alone.
struct NotStored {
  int64_t step = -1;
  std::string directory;
  std::string reason;
  bool is_final = false;  // nobody tries any more to bring it to storage
};

// What happened, counted over all events.
struct Story {
  uint32_t worlds = 0;
  uint32_t failures = 0;
  bool is_whole = false;  // the last event that was heard is the job's end
  std::optional<RootFailure> root;
  std::optional<NotStored> not_stored;  // none: storage takes what is saved
};

class Narrator {
 public:
  // `client` and `console` outlive the narrator. Events up to `told_seq` are taken in without being
  // told.
  Narrator(wire::ControlClient& client, std::string run_dir, Console& console, uint64_t told_seq);
  ~Narrator();
  Narrator(const Narrator&) = delete;
  Narrator& operator=(const Narrator&) = delete;

  // True once the job's last event was heard; waits for it at most so long.
  bool IsOverWithin(Duration patience);

  // Of a job that has ended: tells what is left, from the journal where the run directory has it,
  // as a quick job is over before this has connected. Without one, on a host that joined, the story
  // is whole when the master still told its end.
  Story Finish();

  // Ends listening at once; no event is told after it.
  void Leave();

 private:
  void Listen();
  void Take(const wire::JobEvent& event);
  void TakeFailure(const wire::JobEvent& event);
  void Tell(const wire::JobEvent& event);
  bool Pause(Duration duration);

  std::string run_dir_;
  Console& console_;
  uint64_t told_seq_;
  uint64_t next_seq_ = 1;
  Story story_;
  wire::ControlClient& client_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;  // the last event was heard
  std::thread thread_;
};

}  // namespace paceline::cli
