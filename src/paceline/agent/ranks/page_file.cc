#include "paceline/agent/ranks/page_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <string_view>

#include "paceline/base/file_text.h"
#include "paceline/base/text.h"

namespace paceline::agent {
namespace {

absl::Status WriteNewPage(const std::string& path, const PageIdentity& identity) {
  std::string bytes(PageBytes(identity.slot_count), '\0');
  if (!FormatPage(std::as_writable_bytes(std::span<char>(bytes)), identity)) {
    return absl::InvalidArgumentError(Concat("cannot describe node ", identity.node, " with ",
                                             identity.slot_count, " ranks on a progress page"));
  }
  return ReplaceFile(path, bytes, 0600);
}

bool Fits(const PageHeader& page, const PageIdentity& identity) {
  return PageText(page.job_id) == identity.job_id && PageText(page.node) == identity.node &&
         PageText(page.boot_id) == identity.boot_id && page.slot_count >= identity.slot_count;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageFile>> PageFile::Open(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open()) return absl::ErrnoToStatus(errno, Concat("cannot open ", path));
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode) ||
      found.st_size > static_cast<off_t>(PageBytes(kPageSlotsMax))) {
    return absl::DataLossError(Concat(path, " is not a progress page"));
  }
  std::unique_ptr<PageFile> file(new PageFile());
  file->size_bytes_ = static_cast<size_t>(found.st_size);
  void* memory = file->size_bytes_ == 0
                     ? MAP_FAILED
                     : ::mmap(nullptr, file->size_bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return absl::DataLossError(Concat("cannot map ", path));
  file->memory_ = memory;
  std::string_view why;
  file->page_ = CheckPage({static_cast<const std::byte*>(file->memory_), file->size_bytes_}, &why);
  if (file->page_ == nullptr) return absl::DataLossError(Concat(path, ": ", why));
  return file;
}

absl::StatusOr<std::unique_ptr<PageFile>> PageFile::AdoptOrMake(const std::string& path,
                                                                const PageIdentity& identity) {
  if (auto existing = Open(path); existing.ok() && Fits(*(*existing)->page_, identity)) {
    (*existing)->was_adopted_ = true;
    return existing;
  }
  if (absl::Status written = WriteNewPage(path, identity); !written.ok()) return written;
  return Open(path);
}

PageFile::~PageFile() {
  if (memory_ != nullptr) ::munmap(memory_, size_bytes_);
}

std::optional<SlotReading> PageFile::Read(uint32_t slot) const {
  if (slot >= slot_count()) return std::nullopt;
  std::optional<SlotReading> reading = ReadSlot(SlotOf(*page_, slot));
  if (reading.has_value() && (reading->attempt == 0 || reading->pid <= 0)) return std::nullopt;
  return reading;
}

namespace {

BadLoss BadLossOf(const SlotReading& reading) {
  if (reading.bad_losses == 0 || reading.bad_losses > UINT32_MAX || reading.bad_step < 0 ||
      reading.bad_kind == 0 || reading.bad_kind >= kBadLossKinds) {
    return {};
  }
  return {.count = static_cast<uint32_t>(reading.bad_losses),
          .step = reading.bad_step,
          .kind = static_cast<BadLossKind>(reading.bad_kind),
          .value = reading.bad_value,
          .usual = reading.usual_value};
}

// Whether the script or the program runs. A script says so itself, before its first line. A program
// that is run directly (`--no-python`) writes nothing here, so it runs once its process exists.
bool Runs(const SlotReading& reading) {
  if (reading.entered_monotonic_ns > 0) return true;
  return reading.how == SlotStart::kExec && reading.state == SlotState::kRunning;
}

}  // namespace

RankReport ReportOf(const SlotReading& reading) {
  RankReport report;
  report.generation = Generation(reading.generation);
  report.rank = Rank(static_cast<uint32_t>(reading.rank));
  report.local_rank = static_cast<uint32_t>(reading.local_rank);
  report.pid = static_cast<int32_t>(reading.pid);
  report.step_count = static_cast<int64_t>(reading.step_count);
  if ((reading.flags & (kSlotStepIsAbsolute | kSlotStepIsOwn)) != 0) report.step = reading.step;
  report.is_own_step = (reading.flags & (kSlotStepIsAbsolute | kSlotStepIsOwn)) == kSlotStepIsOwn;
  report.saved_files = static_cast<uint32_t>(reading.saved_files);
  report.saved_step = reading.saved_step;
  report.steps_total = static_cast<int64_t>(
      std::min<uint64_t>(reading.steps_total, std::numeric_limits<int64_t>::max()));
  report.has_loss = (reading.flags & kSlotLossTold) != 0;
  if (report.has_loss) report.loss = reading.loss;
  report.bad_loss = BadLossOf(reading);
  if (reading.wait_status.has_value()) {
    report.state = RankReport::State::kExited;
  } else if (reading.step_count > 0) {
    report.state = RankReport::State::kStepping;
  } else if (Runs(reading)) {
    report.state = RankReport::State::kRunning;
  }
  return report;
}

PageCensus CountRanks(const PageFile& page) {
  PageCensus census;
  if (!page.is_of_this_boot()) return census;
  for (uint32_t i = 0; i < page.slot_count(); ++i) {
    const std::optional<SlotReading> reading = page.Read(i);
    if (!reading.has_value()) continue;
    if (reading->wait_status != 0) ++census.placed;
    const ProcessId process = ProcessOf(*reading);
    if (IsAlive(process) && !IsDying(process)) ++census.living;
  }
  return census;
}

}  // namespace paceline::agent
