// _native.CollectiveWorks: records when the collectives of a rank are complete.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "paceline/client/flight_writer.h"

namespace paceline::bindings {

namespace nb = nanobind;

// Two ways lead to the end of a collective:
// - The script's thread waits for it in torch's `Work.wait`, which this class wraps. Then the end
//   of the wait is recorded, and nobody looks at the Work.
// - Otherwise the Work is kept until it says that it is complete. Each call of `Look`, and a thread
//   of Python that calls `LookAtAll`, ask it.
//
// The interpreter lock guards the state. torch releases it while a Work is asked, so two threads
// may ask one Work; the one that removes it from the queue records it.
class CollectiveWorks {
 public:
  // At most this many incomplete collectives are followed, the newest ones, because a hang is about
  // these. Each reference keeps its tensors alive.
  static constexpr size_t kWorksMax = 64;

  // `begin()` is called when the first Work is added: a thread is needed from then on. The calling
  // thread is the script's.
  CollectiveWorks(client::FlightWriter* writer, nb::object begin)
      : writer_(writer), begin_(std::move(begin)), script_(PyThread_get_thread_ident()) {}

  client::FlightWriter& writer() { return *writer_; }
  bool IsOfScript() const { return PyThread_get_thread_ident() == script_; }

  void Add(uint64_t number, nb::object work);
  // The next wait of the script's thread is for that collective.
  void AwaitNext(uint64_t number) { awaited_ = number; }
  // Records complete collectives from the oldest to the first incomplete one. Returns how many.
  size_t Look();
  // Records every collective that is complete by now, in any order.
  void LookAtAll();

  // Sleeps without the interpreter lock until there is a Work to look at; looks again after 50 ms.
  // Returns false when no more is to be looked at, after `Stop`.
  bool Sleep();
  void Stop();
  // In a forked child: forgets the works. The parent's thread follows them.
  void Leave();

  // A method in place of `wait`, torch's `Work.wait`. It measures how long the script's thread
  // waits.
  nb::object WrapWait(nb::object wait);
  nb::object Wait(PyObject* const* args, size_t count, PyObject* names);

 private:
  struct Followed {
    uint64_t number = 0;
    nb::object work;
  };
  bool Finish(uint64_t number);
  void EndWait();

  client::FlightWriter* writer_;
  nb::object begin_;
  nb::object wait_;  // torch's
  unsigned long script_;
  std::optional<uint64_t> awaited_;
  std::deque<Followed> works_;
  std::deque<Followed> kept_;
  bool has_begun_ = false;
  bool has_left_ = false;
  std::atomic<size_t> count_ = 0;  // of works_
  std::mutex mutex_;               // guards ends_
  std::condition_variable wakes_;
  bool ends_ = false;
};

}  // namespace paceline::bindings
