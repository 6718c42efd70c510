#include "paceline/cli/doctor/measure.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "paceline/base/fd.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/exit_code.h"

namespace paceline::cli {
namespace {

constexpr int kRounds = 8;
constexpr size_t kSide = 384;                    // of the matrices; three fit a level 2 cache
constexpr size_t kCopyBytes = size_t{64} << 20;  // more than a processor's caches hold
constexpr size_t kDiskBytes = size_t{4} << 20;
constexpr size_t kLoopbackBytes = size_t{32} << 20;
constexpr size_t kPieceBytes = size_t{256} << 10;

// Processor time of this thread: a process that waits for its turn is not on a slow processor.
constexpr clockid_t kWorked = CLOCK_THREAD_CPUTIME_ID;

int64_t ClockNs(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

double SecondsSince(int64_t start_ns, clockid_t clock = CLOCK_MONOTONIC) {
  return static_cast<double>(std::max<int64_t>(1, ClockNs(clock) - start_ns)) * 1e-9;
}

// One thread, no library: 10^9 operations a second. It compares processors, and is far from what
// they reach with a tuned library.
double MatmulGflops() {
  const std::vector<float> a(kSide * kSide, 0.5F);
  const std::vector<float> b(kSide * kSide, 0.25F);
  std::vector<float> c(kSide * kSide);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start = ClockNs(kWorked);
    std::fill(c.begin(), c.end(), 0.0F);
    for (size_t i = 0; i < kSide; ++i) {
      float* row = &c[i * kSide];
      for (size_t k = 0; k < kSide; ++k) {
        const float factor = a[i * kSide + k];
        const float* other = &b[k * kSide];
        for (size_t j = 0; j < kSide; ++j) row[j] += factor * other[j];
      }
    }
    const volatile float used = c[kSide];  // so that the work is done
    (void)used;
    best = std::max(best, 2.0 * kSide * kSide * kSide / SecondsSince(start, kWorked) * 1e-9);
  }
  return best;
}

// 10^9 bytes a second that one thread copies.
double MemoryGbps() {
  const std::vector<char> from(kCopyBytes, 1);
  std::vector<char> to(kCopyBytes, 2);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t start = ClockNs(kWorked);
    std::memcpy(to.data(), from.data(), kCopyBytes);
    const volatile char used = to[kCopyBytes / 2];
    (void)used;
    best = std::max(best, static_cast<double>(kCopyBytes) / SecondsSince(start, kWorked) * 1e-9);
  }
  return best;
}

// Writes all of it; false, with *why, if that fails.
bool SendAll(int fd, const std::vector<char>& data, std::string* why) {
  for (size_t done = 0; done < data.size();) {
    const ssize_t count = ::write(fd, &data[done], data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      *why = std::strerror(errno);
      return false;
    }
    done += static_cast<size_t>(count);
  }
  return true;
}

// 10^6 bytes a second that reach the disk of the temporary directory; 0, with *why, if a file
// cannot be written there.
double DiskMbps(const std::string& folder, std::string* why) {
  std::string path = folder + "/paceline-measure-XXXXXX";
  const Fd file(::mkstemp(path.data()));
  if (!file.is_open()) {
    *why = std::strerror(errno);
    return 0;
  }
  ::unlink(path.c_str());
  const std::vector<char> data(kDiskBytes, 3);
  const int64_t start = ClockNs(CLOCK_MONOTONIC);
  if (!SendAll(file.get(), data, why)) return 0;
  if (::fsync(file.get()) != 0) {
    *why = std::strerror(errno);
    return 0;
  }
  return static_cast<double>(kDiskBytes) / SecondsSince(start) * 1e-6;
}

// A listening socket on a free port of loopback, and its address.
Fd Listen(sockaddr_in* address) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  *address = {};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(*address);
  auto* raw = reinterpret_cast<sockaddr*>(address);
  if (::bind(listener.get(), raw, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), raw, &size) != 0) {
    return Fd();
  }
  return listener;
}

// 10^9 bytes a second over a connection to this host; 0, with *why, if none can be made.
double LoopbackGbps(std::string* why) {
  sockaddr_in address{};
  const Fd listener = Listen(&address);
  Fd sender(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.is_open() ||
      ::connect(sender.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    *why = std::strerror(errno);
    return 0;
  }
  const Fd receiver(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!receiver.is_open()) {
    *why = std::strerror(errno);
    return 0;
  }
  const int64_t start = ClockNs(CLOCK_MONOTONIC);
  std::string send_why;
  std::thread sending([&] {
    const std::vector<char> piece(kPieceBytes, 4);
    for (size_t sent = 0; sent < kLoopbackBytes; sent += kPieceBytes) {
      if (!SendAll(sender.get(), piece, &send_why)) break;
    }
    ::shutdown(sender.get(), SHUT_WR);
  });
  std::vector<char> buffer(kPieceBytes);
  size_t got = 0;
  ssize_t count = 0;
  while ((count = ::read(receiver.get(), buffer.data(), buffer.size())) > 0) {
    got += static_cast<size_t>(count);
  }
  const double seconds = SecondsSince(start);
  sending.join();
  if (got < kLoopbackBytes) *why = send_why.empty() ? "the connection ended early" : send_why;
  return got < kLoopbackBytes ? 0 : static_cast<double>(got) / seconds * 1e-9;
}

double Rounded(double value) {
  return static_cast<double>(static_cast<int64_t>(value * 100)) / 100;
}

}  // namespace

int MeasureHost(Invocation& invocation) {
  const std::string folder = LookupOr(invocation.environment, "TMPDIR", "/tmp");
  const Fd lock(::open(Concat("/tmp/paceline-measure-", ::getuid(), ".lock").c_str(),
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.is_open()) ::flock(lock.get(), LOCK_EX);
  std::string why;
  nlohmann::ordered_json said;
  said["ok"] = true;
  nlohmann::ordered_json numbers;
  numbers["matmul_gflops"] = Rounded(MatmulGflops());
  numbers["memory_gb_s"] = Rounded(MemoryGbps());
  numbers["disk_mb_s"] = Rounded(DiskMbps(folder, &why));
  if (!why.empty()) why = Concat("no file can be written in ", folder, ": ", why);
  if (why.empty()) {
    numbers["loopback_gb_s"] = Rounded(LoopbackGbps(&why));
    if (!why.empty()) why = Concat("no connection over loopback: ", why);
  }
  if (!why.empty()) {
    said["ok"] = false;
    said["reason"] = why;
  }
  said["numbers"] = std::move(numbers);
  invocation.out.DataLine(PrintJson(said));
  return why.empty() ? kExitDone : kExitFindings;
}

}  // namespace paceline::cli
