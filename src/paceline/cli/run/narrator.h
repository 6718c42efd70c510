#pragma once

// Prints the job's decisions on the console, with the sentences of the journal. Remembers what the
// summary at the end needs: the first failure of the last world and its traceback.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "paceline/cli/console/console.h"
#include "paceline/cli/console/event_text.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {

struct RootFailure {
  std::string node;
  uint32_t rank = 0;
  uint64_t generation = 0;
  std::string world;  // its count
  std::optional<int64_t> step;
  std::string sentence;
  std::string headline;   // "ValueError: bad batch (train.py:3)"
  std::string traceback;  // empty if the rank left none, or was on another host
  bool was_started = true;
  std::optional<int> rank_exit_code;  // as a shell would see it: 128 + signal for a signal
};

// A step that is only in the memory of hosts.
struct NotStored {
  int64_t step = -1;
  std::string directory;
  std::string reason;
  bool is_final = false;  // paceline has stopped trying to write it to storage
};

// Totals over all events.
struct Story {
  uint32_t worlds = 0;
  uint32_t failures = 0;
  bool is_whole = false;  // the last received event is the job's end
  std::optional<RootFailure> root;
  std::optional<NotStored> not_stored;  // none: storage accepts writes
};

class Narrator {
 public:
  // `client` and `console` outlive the narrator. Events up to `told_seq` are counted and not
  // printed. None: those that had happened before this connects are printed as one line, which
  // names the job as `job_id`.
  Narrator(wire::ControlClient& client, std::string run_dir, Console& console,
           std::optional<uint64_t> told_seq, std::string job_id = "");
  ~Narrator();
  Narrator(const Narrator&) = delete;
  Narrator& operator=(const Narrator&) = delete;

  // Returns true if the job's last event was received; waits for it at most this long.
  bool IsOverWithin(Duration patience);

  // For a job that has ended: prints the remaining events from the journal of the run directory,
  // because a short job may end before this has connected. A host that joined has no journal. There
  // the events are complete only if the master had sent the end.
  Story Finish();

  // Disconnects at once. No event is printed afterwards.
  void Leave();

 private:
  void Listen();
  absl::Status TellBefore();
  void Take(const wire::JobEvent& event);
  void TakeFailure(const wire::JobEvent& event);
  void Tell(const wire::JobEvent& event);
  void TellFailure(const wire::JobEvent& event, std::string text);
  void FoldTraces(const wire::JobEvent& event);
  bool Pause(Duration duration);

  std::string run_dir_;
  Console& console_;
  std::optional<uint64_t> told_seq_;  // none: not known yet
  std::string job_id_;
  ReasonTold reason_told_;
  // A rank whose connection broke, because another rank that is not known yet had failed.
  std::optional<std::pair<uint64_t, uint32_t>> broken_;  // generation, rank
  uint64_t blamed_in_ = 0;                               // newest generation with a known cause
  uint64_t next_seq_ = 1;
  Story story_;
  wire::ControlClient& client_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;  // the last event was received
  std::thread thread_;
};

}  // namespace paceline::cli
