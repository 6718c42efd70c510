// A stand-in for NVIDIA's driver with the functions that cuda_device.cc calls, for machines without
// a GPU. "Device memory" is this process's memory, and a stream is a thread that works through a
// queue. The stand-in is strict where a real device hides errors: two streams are ordered only if a
// call orders them, a thread needs a context, and copies to unpinned memory make the caller wait.
// Tests control it by the stand_in_ functions.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace {

constexpr int kOk = 0;
constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kFailed = 719;

void Sleep(int64_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

// A recorded event, done when the stream reaches it. Each record makes a new one, because a wait
// that was ordered before means the earlier one.
class Point {
 public:
  void Reach() {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_reached_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_reached_ = false;
};

class Stream {
 public:
  Stream() : thread_([this] { Run(); }) {}
  ~Stream() {
    Add(nullptr);
    thread_.join();
  }
  void Add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    added_.notify_all();
  }

 private:
  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [&] { return !queue_.empty(); });
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (work == nullptr) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

struct Event {
  std::shared_ptr<Point> point;
};

std::mutex mutex;
std::map<std::byte*, size_t> pinned;               // guarded by mutex
std::map<void*, std::shared_ptr<Stream>> streams;  // guarded by mutex; nullptr: the default stream
std::atomic<int64_t> copy_delay_us = 0;
std::atomic<int> copies_until_failure = -1;
std::atomic<int> waits_of_default = 0;
thread_local void* context = nullptr;

int device = 0;  // its address is the only context

// Never ended: the default stream lives as long as the process.
Stream* StreamOf(void* handle) {
  const std::lock_guard lock(mutex);
  std::shared_ptr<Stream>& stream = streams[handle];
  if (stream == nullptr) stream = std::make_shared<Stream>();
  return stream.get();
}

bool IsPinned(std::byte* at, size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return at + bytes <= begin + size;
}

// A shorter delay that is set meanwhile counts, so that a test can let a copy go.
void WaitForCopyDelay() {
  constexpr int64_t kSlice = 200;
  for (int64_t waited = 0; waited < copy_delay_us; waited += kSlice) Sleep(kSlice);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuGetErrorString(int error, const char** text) {
  *text = error == kInvalidContext ? "invalid device context"
          : error == kFailed       ? "unspecified launch failure"
                                   : "invalid argument";
  return kOk;
}

int cuCtxGetCurrent(void** current) {
  *current = context;
  return kOk;
}

int cuCtxSetCurrent(void* wanted) {
  context = wanted;
  return kOk;
}

int cuStreamCreate(void** stream, unsigned /*flags*/) {
  if (context == nullptr) return kInvalidContext;
  *stream = new char;
  StreamOf(*stream);
  return kOk;
}

int cuStreamDestroy_v2(void* stream) {
  std::shared_ptr<Stream> ended;
  {
    const std::lock_guard lock(mutex);
    const auto found = streams.find(stream);
    if (found == streams.end()) return kInvalidValue;
    ended = std::move(found->second);
    streams.erase(found);
  }
  delete static_cast<char*>(stream);
  return kOk;
}

int cuEventCreate(void** event, unsigned /*flags*/) {
  if (context == nullptr) return kInvalidContext;
  *event = new Event;
  return kOk;
}

int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kOk;
}

int cuEventRecord(void* event, void* stream) {
  if (context == nullptr) return kInvalidContext;
  auto point = std::make_shared<Point>();
  static_cast<Event*>(event)->point = point;
  StreamOf(stream)->Add([point] { point->Reach(); });
  return kOk;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned /*flags*/) {
  if (context == nullptr) return kInvalidContext;
  if (stream == nullptr) ++waits_of_default;
  const std::shared_ptr<Point> point = static_cast<Event*>(event)->point;
  if (point != nullptr) StreamOf(stream)->Add([point] { point->Wait(); });
  return kOk;
}

int cuEventSynchronize(void* event) {
  const std::shared_ptr<Point> point = static_cast<Event*>(event)->point;
  if (point != nullptr) point->Wait();
  return kOk;
}

int cuMemHostRegister_v2(void* memory, size_t bytes, unsigned /*flags*/) {
  if (context == nullptr) return kInvalidContext;
  const std::lock_guard lock(mutex);
  return pinned.emplace(static_cast<std::byte*>(memory), bytes).second ? kOk : kInvalidValue;
}

int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  return pinned.erase(static_cast<std::byte*>(memory)) == 1 ? kOk : kInvalidValue;
}

int cuMemcpyDtoHAsync_v2(void* target, unsigned long long source, size_t bytes, void* stream) {
  if (context == nullptr) return kInvalidContext;
  if (copies_until_failure >= 0 && copies_until_failure-- == 0) return kFailed;
  const auto copy = [=] {
    WaitForCopyDelay();
    std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
  };
  if (IsPinned(static_cast<std::byte*>(target), bytes)) {
    StreamOf(stream)->Add(copy);
    return kOk;
  }
  auto done = std::make_shared<Point>();
  StreamOf(stream)->Add([=] {
    copy();
    done->Reach();
  });
  done->Wait();
  return kOk;
}

// ---- called by tests ----

// The calling thread uses the device from now on, as if it had a tensor there.
void stand_in_use() { context = &device; }

// How long each copy takes; one that has begun ends earlier if the time is shortened.
void stand_in_set_copy_delay(int64_t microseconds) { copy_delay_us = microseconds; }

// The next `copies` copies succeed, and the one after them fails; -1: none fails.
void stand_in_fail_after(int copies) { copies_until_failure = copies; }

// A kernel of the training: runs for `microseconds` on that stream, then sets the bytes to `value`.
void stand_in_fill(void* stream, void* memory, size_t bytes, int value, int64_t microseconds) {
  StreamOf(stream)->Add([=] {
    Sleep(microseconds);
    std::memset(memory, value, bytes);
  });
}

// Waits until the stream has done all its work.
void stand_in_synchronize(void* stream) {
  auto done = std::make_shared<Point>();
  StreamOf(stream)->Add([done] { done->Reach(); });
  done->Wait();
}

// How often the default stream had to wait for another one.
int stand_in_waits_of_default() { return waits_of_default; }

uint64_t stand_in_pinned_bytes() {
  const std::lock_guard lock(mutex);
  uint64_t bytes = 0;
  for (const auto& [begin, size] : pinned) bytes += size;
  return bytes;
}

}  // extern "C"
#pragma GCC visibility pop
