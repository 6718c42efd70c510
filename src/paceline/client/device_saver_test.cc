#include "paceline/client/device_saver.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "paceline/base/test_dir.h"
#include "paceline/client/cuda_device.h"

namespace paceline::client {
namespace {

using ckpt::TensorBox;

constexpr size_t kTensorBytes = 1'500'000;
constexpr int64_t kSlowMicroseconds = 20'000;
const std::string kNotes = R"({"some":"notes"})";

template <typename Function>
Function* StandIn(const char* name) {
  void* const library = ::dlopen(PACELINE_CUDA_STAND_IN, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

class DeviceSaverTest : public testing::Test {
 protected:
  DeviceSaverTest() {
    StandIn<void()>("stand_in_use")();
    SetCopyDelay(0);
    std::vector<TensorBox> boxes;
    for (const char* key : {"buffer", "counter", "weight"}) {
      boxes.push_back({.key = key,
                       .dtype = ckpt::DType::kU8,
                       .shape = {kTensorBytes},
                       .offset = {0},
                       .is_frozen = false});
    }
    layout_ = *ckpt::LayOut(std::move(boxes), {});
    for (std::vector<char>* tensor : {&buffer_, &counter_, &weight_}) {
      tensor->assign(kTensorBytes, 'a');
    }
    auto saver = Saver::Open(dir_.path() + "/arena", {"job", "boot", 0}, {8 << 20, 3});
    EXPECT_TRUE(saver.ok()) << saver.failure().message;
    saver_ = *std::move(saver);
    auto device = OpenCudaDevice(PACELINE_CUDA_STAND_IN);
    EXPECT_TRUE(device.ok()) << device.failure().message;
    device_ = *std::move(device);
    device_saver_ = std::make_unique<DeviceSaver>(saver_.get(), device_.get());
    EXPECT_TRUE(device_saver_->Reserve().ok());
  }

  static void SetCopyDelay(int64_t microseconds) {
    StandIn<void(int64_t)>("stand_in_set_copy_delay")(microseconds);
  }
  // Plays a kernel of the training on the default stream.
  static void Fill(std::vector<char>* tensor, char value, int64_t microseconds = 0) {
    StandIn<void(void*, void*, size_t, int, int64_t)>("stand_in_fill")(
        nullptr, tensor->data(), tensor->size(), value, microseconds);
  }
  static void Synchronize() { StandIn<void(void*)>("stand_in_synchronize")(nullptr); }

  Result<bool> Begin(int64_t step) {
    const std::vector<DeviceSource> sources = {{buffer_.data(), SourcePlace::kDevice},
                                               {counter_.data(), SourcePlace::kHost},
                                               {weight_.data(), SourcePlace::kDeviceStepped}};
    return device_saver_->Begin(layout_, sources, {.saved = {1, step}, .notes = kNotes}, 0);
  }
  void Save(int64_t step) {
    const Result<bool> begun = Begin(step);
    ASSERT_TRUE(begun.ok()) << begun.failure().message;
    ASSERT_TRUE(*begun);
    std::thread second([&] { EXPECT_TRUE(device_saver_->Finish().ok()); });
    second.join();
  }

  // Verifies the newest image. Returns each tensor's value, or '?' if it has several.
  std::string Newest(int64_t step) {
    const std::vector<ArenaImage> images = saver_->arena()->Sealed();
    if (images.empty() || images.front().step != step) return "no image";
    std::string values;
    const std::byte* const file = saver_->arena()->FileOf(images.front()).data();
    for (const TensorBox& box : layout_.boxes) {
      const auto* begin = reinterpret_cast<const char*>(file) + box.begin;
      const bool is_one = std::string(begin, box.bytes) == std::string(box.bytes, *begin);
      values += is_one ? *begin : '?';
    }
    return values;
  }

  TestDir dir_;
  ckpt::Image layout_;
  std::vector<char> buffer_;   // on the device, changed by any kernel
  std::vector<char> counter_;  // in this process's memory
  std::vector<char> weight_;   // on the device, changed by optimizers alone
  std::unique_ptr<Saver> saver_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceSaver> device_saver_;
};

TEST_F(DeviceSaverTest, AnImageIsTheOneThatHostMemoryGives) {
  std::fill_n(weight_.begin() + 1000, 5000, 'w');
  Save(1);
  const std::vector<const void*> sources = {buffer_.data(), counter_.data(), weight_.data()};
  const Result<bool> saved = saver_->Save(layout_, sources, {.saved = {1, 2}, .notes = kNotes});
  ASSERT_TRUE(saved.ok() && *saved);
  ckpt::Arena& arena = *saver_->arena();
  const std::vector<ArenaImage> images = arena.Sealed();
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(arena.FileHashesOf(images[0]), arena.FileHashesOf(images[1]));
  EXPECT_EQ(arena.NotesHashesOf(images[0]), arena.NotesHashesOf(images[1]));
  EXPECT_EQ(images[0].head_bytes, images[1].head_bytes);
  const auto first = arena.FileOf(images[0]);
  const auto second = arena.FileOf(images[1]);
  ASSERT_EQ(first.size(), second.size());
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size()), 0);
}

TEST_F(DeviceSaverTest, WhatTheStreamWasGivenBeforeIsInTheImage) {
  Fill(&weight_, 'b', kSlowMicroseconds);
  Fill(&buffer_, 'c');
  Save(1);
  EXPECT_EQ(Newest(1), "cab");
}

TEST_F(DeviceSaverTest, WithAFenceTheNextStepIsNotInTheImage) {
  SetCopyDelay(kSlowMicroseconds);
  ASSERT_TRUE(*Begin(1));
  std::thread second([&] { EXPECT_TRUE(device_saver_->Finish().ok()); });
  // The training continues at once: some kernels change tensors, then the optimizer steps.
  Fill(&buffer_, 'x');
  std::fill(counter_.begin(), counter_.end(), 'x');
  EXPECT_TRUE(device_saver_->Fence(0).ok());
  Fill(&weight_, 'x');
  second.join();
  Synchronize();
  EXPECT_EQ(Newest(1), "aaa");
  Save(2);
  EXPECT_EQ(Newest(2), "xxx");
}

// Begin makes the training's stream wait only for tensors that may change at any time (kDevice). If
// there are none, it orders no wait: the device might come to it only after later copies, which
// then would not overlap with the training.
TEST_F(DeviceSaverTest, WithoutWhatMayChangeAtAnyTimeNothingIsHeldBackInBegin) {
  const auto waits = [] { return StandIn<int()>("stand_in_waits_of_default")(); };
  const auto waits_of_begin = [&](SourcePlace place) {
    const std::vector<DeviceSource> sources = {{buffer_.data(), place},
                                               {counter_.data(), SourcePlace::kHost},
                                               {weight_.data(), SourcePlace::kDeviceStepped}};
    const int before = waits();
    const Result<bool> begun =
        device_saver_->Begin(layout_, sources, {.saved = {1, 1}, .notes = kNotes}, 0);
    EXPECT_TRUE(begun.ok() && *begun);
    const int ordered = waits() - before;
    EXPECT_TRUE(device_saver_->Finish().ok());
    return ordered;
  };
  EXPECT_EQ(waits_of_begin(SourcePlace::kDeviceStepped), 0);
  EXPECT_EQ(waits_of_begin(SourcePlace::kDevice), 1);
}

// Without a fence the stand-in produces a wrong image, so the test above can fail.
TEST_F(DeviceSaverTest, WithoutAFenceTheNextStepIsInTheImage) {
  SetCopyDelay(kSlowMicroseconds);
  ASSERT_TRUE(*Begin(1));
  Fill(&weight_, 'x');
  Synchronize();
  EXPECT_TRUE(device_saver_->Finish().ok());
  EXPECT_EQ(Newest(1), "aax");
}

TEST_F(DeviceSaverTest, AfterItIsCopiedAnyoneMayWrite) {
  SetCopyDelay(kSlowMicroseconds);
  ASSERT_TRUE(*Begin(1));
  std::thread second([&] { EXPECT_TRUE(device_saver_->Finish().ok()); });
  EXPECT_TRUE(device_saver_->AwaitCopied().ok());
  for (std::vector<char>* tensor : {&buffer_, &counter_, &weight_}) {
    std::fill(tensor->begin(), tensor->end(), 'x');
  }
  second.join();
  EXPECT_EQ(Newest(1), "aaa");
}

TEST_F(DeviceSaverTest, ACopyThatFailsLeavesTheImageBefore) {
  Save(1);
  for (const int copies : {0, 1}) {  // the buffer's, in Begin; the weight's, in Finish
    StandIn<void(int)>("stand_in_fail_after")(copies);
    const Result<bool> begun = Begin(2);
    ASSERT_EQ(begun.ok(), copies == 1);
    if (begun.ok()) {
      const Result<void> finished = device_saver_->Finish();
      ASSERT_FALSE(finished.ok());
      EXPECT_EQ(finished.failure().message,
                "CUDA cannot copy from the device: unspecified launch failure (719)");
      EXPECT_FALSE(device_saver_->AwaitCopied().ok());
      EXPECT_FALSE(device_saver_->Fence(0).ok());
    }
  }
  EXPECT_EQ(Newest(1), "aaa");
  for (int64_t step = 3; step < 9; ++step) Save(step);  // no slot is lost
  EXPECT_EQ(Newest(8), "aaa");
}

// As in a loader's worker that collects a forked copy of a Checkpointer.
TEST_F(DeviceSaverTest, AForkedProcessEndsNothing) {
  ASSERT_TRUE(*Begin(1));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    device_saver_ = nullptr;
    device_ = nullptr;
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(device_saver_->Finish().ok());
  EXPECT_EQ(Newest(1), "aaa");
}

TEST_F(DeviceSaverTest, MemoryIsPinnedAsLongAsItIsUsed) {
  const auto pinned = [] { return StandIn<uint64_t()>("stand_in_pinned_bytes")(); };
  EXPECT_EQ(pinned(), 3 * saver_->image_bytes_max());
  EXPECT_TRUE(device_saver_->Reserve().ok());  // a second call changes nothing
  EXPECT_EQ(pinned(), 3 * saver_->image_bytes_max());
  device_saver_ = nullptr;
  EXPECT_EQ(pinned(), 0u);
}

TEST(CudaDevice, SaysWhatIsMissing) {
  EXPECT_EQ(OpenCudaDevice("libno-such-driver.so").failure().kind, FailureKind::kNotFound);
  const Failure incomplete = OpenCudaDevice("libc.so.6").failure();
  EXPECT_EQ(incomplete.message, "libc.so.6 has no function cuGetErrorString");
  std::thread another([] {  // a thread that has used no device
    const Failure none = OpenCudaDevice(PACELINE_CUDA_STAND_IN).failure();
    EXPECT_EQ(none.message, "this thread has used no device yet");
  });
  another.join();
}

}  // namespace
}  // namespace paceline::client
