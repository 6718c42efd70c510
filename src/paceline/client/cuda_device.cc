#include "paceline/client/cuda_device.h"

#include <dlfcn.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "paceline/base/text.h"

namespace paceline::client {
namespace {

// The used part of NVIDIA's driver API, with the names and types of its header cuda.h. A suffix _v2
// is part of the name: the same name without it is the function of 2010.
using CuContext = void*;
using CuStream = void*;
using CuEvent = void*;
using CuPointer = unsigned long long;  // NOLINT(google-runtime-int): as in the header
using CuResult = int;

constexpr CuResult kCuSuccess = 0;
constexpr unsigned kCuPinnedForAllContexts = 1;    // CU_MEMHOSTREGISTER_PORTABLE
constexpr unsigned kCuStreamBesideDefault = 1;     // CU_STREAM_NON_BLOCKING
constexpr unsigned kCuEventSleepsUntimed = 1 | 2;  // CU_EVENT_BLOCKING_SYNC, _DISABLE_TIMING

struct CudaDriver {
  CuResult (*describe)(CuResult, const char**) = nullptr;
  CuResult (*current_context)(CuContext*) = nullptr;
  CuResult (*set_context)(CuContext) = nullptr;
  CuResult (*make_stream)(CuStream*, unsigned) = nullptr;
  CuResult (*end_stream)(CuStream) = nullptr;
  CuResult (*make_event)(CuEvent*, unsigned) = nullptr;
  CuResult (*end_event)(CuEvent) = nullptr;
  CuResult (*record)(CuEvent, CuStream) = nullptr;
  CuResult (*wait_on_stream)(CuStream, CuEvent, unsigned) = nullptr;
  CuResult (*wait)(CuEvent) = nullptr;
  CuResult (*pin)(void*, size_t, unsigned) = nullptr;
  CuResult (*unpin)(void*) = nullptr;
  CuResult (*copy)(void*, CuPointer, size_t, CuStream) = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function* function, const char** missing) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

Result<CudaDriver> Load(const std::string& path) {
  // Never closed, because the driver has its own threads.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Failure{FailureKind::kNotFound, Concat("there is no ", path, ": ", ::dlerror())};
  }
  CudaDriver driver;
  const char* missing = nullptr;
  const bool is_whole = Find(library, "cuGetErrorString", &driver.describe, &missing) &&
                        Find(library, "cuCtxGetCurrent", &driver.current_context, &missing) &&
                        Find(library, "cuCtxSetCurrent", &driver.set_context, &missing) &&
                        Find(library, "cuStreamCreate", &driver.make_stream, &missing) &&
                        Find(library, "cuStreamDestroy_v2", &driver.end_stream, &missing) &&
                        Find(library, "cuEventCreate", &driver.make_event, &missing) &&
                        Find(library, "cuEventDestroy_v2", &driver.end_event, &missing) &&
                        Find(library, "cuEventRecord", &driver.record, &missing) &&
                        Find(library, "cuStreamWaitEvent", &driver.wait_on_stream, &missing) &&
                        Find(library, "cuEventSynchronize", &driver.wait, &missing) &&
                        Find(library, "cuMemHostRegister_v2", &driver.pin, &missing) &&
                        Find(library, "cuMemHostUnregister", &driver.unpin, &missing) &&
                        Find(library, "cuMemcpyDtoHAsync_v2", &driver.copy, &missing);
  if (is_whole) return driver;
  return Failure{FailureKind::kNotFound, Concat(path, " has no function ", missing)};
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaDriver& driver, CuContext context) : driver_(driver), context_(context) {}

  ~CudaDevice() override {
    if (!IsOwn()) return;
    for (CuEvent event : {start_, early_, all_}) {
      if (event != nullptr) driver_.end_event(event);
    }
    if (copies_ != nullptr) driver_.end_stream(copies_);
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  Result<void> Make() {
    RETURN_IF_ERROR(Check(driver_.make_stream(&copies_, kCuStreamBesideDefault), "make a stream"));
    for (CuEvent* event : {&start_, &early_, &all_}) {
      RETURN_IF_ERROR(Check(driver_.make_event(event, kCuEventSleepsUntimed), "make an event"));
    }
    return {};
  }

  Result<void> Pin(std::byte* memory, uint64_t bytes) override {
    return Check(driver_.pin(memory, bytes, kCuPinnedForAllContexts), "pin memory");
  }

  void Unpin(std::byte* memory) override {
    if (IsOwn()) driver_.unpin(memory);
  }

  Result<void> Enter() override { return Check(driver_.set_context(context_), "enter a context"); }

  Result<void> StartAfter(StreamHandle stream) override {
    RETURN_IF_ERROR(Check(driver_.record(start_, StreamOf(stream)), "record an event"));
    return Check(driver_.wait_on_stream(copies_, start_, 0), "let copies wait");
  }

  Result<void> Copy(std::byte* target, const void* source, uint64_t bytes) override {
    return Check(driver_.copy(target, reinterpret_cast<CuPointer>(source), bytes, copies_),
                 "copy from the device");
  }

  Result<void> SetMark(CopyMark mark) override {
    return Check(driver_.record(EventOf(mark), copies_), "record an event");
  }

  Result<void> HoldBack(StreamHandle stream, CopyMark mark) override {
    return Check(driver_.wait_on_stream(StreamOf(stream), EventOf(mark), 0), "let a stream wait");
  }

  Result<void> Await(CopyMark mark) override {
    return Check(driver_.wait(EventOf(mark)), "copy from the device");
  }

 private:
  // A forked process (such as a loader's worker) has a copy of this object, but no driver. Calls
  // that release something could wait there for a thread that does not exist.
  bool IsOwn() const { return ::getpid() == owner_; }
  static CuStream StreamOf(StreamHandle stream) { return reinterpret_cast<CuStream>(stream); }
  CuEvent EventOf(CopyMark mark) const { return mark == CopyMark::kEarly ? early_ : all_; }

  Result<void> Check(CuResult result, std::string_view what) const {
    if (result == kCuSuccess) return {};
    const char* why = nullptr;
    if (driver_.describe(result, &why) != kCuSuccess || why == nullptr) why = "no reason is given";
    return Failure{FailureKind::kNotHere,
                   Concat("CUDA cannot ", what, ": ", why, " (", result, ")")};
  }

  const CudaDriver driver_;
  const CuContext context_;  // the framework's, which outlives this object
  const pid_t owner_ = ::getpid();
  CuStream copies_ = nullptr;
  CuEvent start_ = nullptr;  // the copies begin after it
  CuEvent early_ = nullptr;
  CuEvent all_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Device>> OpenCudaDevice(const std::string& library) {
  ASSIGN_OR_RETURN(const CudaDriver driver, Load(library));
  CuContext context = nullptr;
  if (driver.current_context(&context) != kCuSuccess || context == nullptr) {
    return Failure{FailureKind::kNotFound, "this thread has used no device yet"};
  }
  auto device = std::make_unique<CudaDevice>(driver, context);
  RETURN_IF_ERROR(device->Make());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace paceline::client
