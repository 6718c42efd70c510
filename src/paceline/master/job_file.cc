#include "paceline/master/job_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "paceline/base/fd.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/model/job_file_limit.h"

namespace paceline::master {
namespace {

using Json = nlohmann::ordered_json;

Json ReadJob(const std::string& run_dir) {
  return ParseJson(ReadText(run_dir + "/job.json", kJobFileBytesMax));
}

std::string RoomOf(const std::string& path) { return path + ".room"; }

// Writes the text into the blocks that were reserved for it.
absl::Status ReplaceInRoom(const std::string& path, const std::string& text) {
  const std::string room = RoomOf(path);
  const Fd fd(open(room.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  const auto size = static_cast<off_t>(text.size());
  const bool is_written = fd.is_open() && pwrite(fd.get(), text.data(), text.size(), 0) == size &&
                          ftruncate(fd.get(), size) == 0 && fsync(fd.get()) == 0 &&
                          rename(room.c_str(), path.c_str()) == 0;
  return is_written ? absl::OkStatus() : absl::ErrnoToStatus(errno, "cannot write " + path);
}

// For the next master, if the disk is full by then. Blocks that are reserved already stay.
void KeepRoom(const std::string& path) {
  constexpr off_t kRoomBytes = 16 << 10;
  const std::string room = RoomOf(path);
  const Fd fd(open(room.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) return;
  if (fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, 0, kRoomBytes) != 0) unlink(room.c_str());
}

}  // namespace

uint64_t OwnStartTime() {
  const std::string text = ReadText("/proc/self/stat", 4096);
  const size_t command_end = text.rfind(')');  // the command may contain spaces
  if (command_end == std::string::npos) return 0;
  constexpr size_t kFieldsAfterCommand = 22 - 2;
  const std::vector<std::string_view> fields =
      SplitParts(std::string_view(text).substr(command_end + 1), " ");
  if (fields.size() < kFieldsAfterCommand) return 0;
  return ParseWhole<uint64_t>(fields[kFieldsAfterCommand - 1]).value_or(0);
}

absl::StatusOr<MasterAddress> ReadMasterAddress(const std::string& run_dir) {
  const Json job = ReadJob(run_dir);
  if (!job.is_object()) return absl::NotFoundError("no job file");
  const auto master = job.find("master");
  if (master == job.end() || !master->is_object()) return absl::NotFoundError("no master yet");
  MasterAddress address{.addr = JsonText(*master, "addr"),
                        .http = JsonText(*master, "http"),
                        .pid = JsonInt<int64_t>(*master, "pid"),
                        .leases = JsonText(*master, "leases"),
                        .start_time = JsonInt<uint64_t>(*master, "start_time")};
  if (address.addr.empty()) return absl::DataLossError("the job file has no address");
  return address;
}

uint16_t WantedHttpPort(const std::string& run_dir) {
  return JsonInt<uint16_t>(ReadJob(run_dir), "http_port");
}

absl::Status WriteMasterAddress(const std::string& run_dir, const std::string& job_id,
                                const MasterAddress& address) {
  Json job = ReadJob(run_dir);
  if (!job.is_object()) job = {{"schema", "paceline.job/1"}, {"id", job_id}};
  job["master"] = {{"addr", address.addr},
                   {"http", address.http},
                   {"pid", address.pid},
                   {"start_time", address.start_time},
                   {"leases", address.leases}};
  const std::string path = run_dir + "/job.json";
  const std::string text = PrintJson(job, {.indent = 2}) + "\n";
  absl::Status status = ReplaceFileDurably(path, text, 0600);
  if (!status.ok() && ReplaceInRoom(path, text).ok()) status = absl::OkStatus();
  KeepRoom(path);
  return status;
}

}  // namespace paceline::master
