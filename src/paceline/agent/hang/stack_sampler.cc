#include "paceline/agent/hang/stack_sampler.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "paceline/base/file_text.h"
#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/spawn.h"
#include "paceline/base/text.h"
#include "paceline/diagnose/scene.h"

namespace paceline::agent {
namespace {

constexpr size_t kOutputMax = 1 << 20;
constexpr size_t kProblemMax = 200;
constexpr size_t kFramesReadMax = 512;
constexpr ptrdiff_t kScriptFrames = 4;
constexpr std::string_view kName = "py-spy";

bool IsProgram(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

std::string FindProgram(const std::string& python) {
  const size_t slash = python.rfind('/');
  if (slash != std::string::npos) {
    const std::string beside = Concat(python.substr(0, slash + 1), kName);
    if (IsProgram(beside)) return beside;
  }
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : SplitParts(path == nullptr ? "" : path, ":")) {
    const std::string found = Concat(folder, "/", kName);
    if (IsProgram(found)) return found;
  }
  return "";
}

// False: the time was over, and the process was killed.
bool Await(const SpawnedProcess& process, Duration patience) {
  pollfd ended{.fd = process.pidfd.get(), .events = POLLIN, .revents = 0};
  const bool has_ended = ::poll(&ended, 1, static_cast<int>(patience.milliseconds())) == 1;
  if (!has_ended) ::kill(process.pid, SIGKILL);
  ReapProcess(process.pid);
  return has_ended;
}

// The innermost frames. If none of them is of the script, its innermost ones take the last places:
// a wait for a loader's worker is 18 frames deep in Python and torch.
std::vector<StackFrame> Shortened(std::vector<StackFrame> frames) {
  if (frames.size() <= kStackFramesMax) return frames;
  const auto end = frames.begin() + static_cast<ptrdiff_t>(kStackFramesMax);
  if (std::any_of(frames.begin(), end, diagnose::IsOfScript)) {
    return std::vector<StackFrame>(frames.begin(), end);
  }
  const auto kept = end - kScriptFrames;
  std::vector<StackFrame> shortened(frames.begin(), kept);
  std::copy_if(kept, frames.end(), std::back_inserter(shortened), diagnose::IsOfScript);
  if (shortened.size() > kStackFramesMax) shortened.resize(kStackFramesMax);
  return shortened;
}

std::vector<StackFrame> FramesOf(const nlohmann::json& thread) {
  std::vector<StackFrame> frames;
  const auto found = thread.find("frames");
  if (found == thread.end() || !found->is_array()) return frames;
  for (const nlohmann::json& frame : *found) {
    if (!frame.is_object() || frames.size() == kFramesReadMax) break;
    frames.push_back({.file = JsonText(frame, "filename"),
                      .line = JsonInt<uint32_t>(frame, "line"),
                      .function = JsonText(frame, "name")});
  }
  return Shortened(std::move(frames));
}

}  // namespace

StackSampler::StackSampler(const std::string& python) : program_(FindProgram(python)) {}

StackSample StackSampler::Sample(pid_t pid, const std::string& path, Duration patience) const {
  if (program_.empty()) return {.frames = {}, .problem = "py-spy is not installed"};
  if (const absl::Status made = ReplaceFile(path, "", 0600); !made.ok()) {
    return {.frames = {}, .problem = std::string(made.message())};
  }
  auto spawned =
      SpawnDetached({.argv = {program_, "dump", "--nonblocking", "--json", "--pid", Concat(pid)},
                     .env = CurrentEnvironment(),
                     .output_path = path});
  if (!spawned.ok()) return {.frames = {}, .problem = std::string(spawned.status().message())};
  if (!Await(*spawned, patience)) {
    return {.frames = {}, .problem = Concat("py-spy did not answer within ", ToString(patience))};
  }
  return ParseStacks(ReadText(path, kOutputMax), pid);
}

StackSample ParseStacks(const std::string& text, pid_t pid) {
  const size_t start = text.find('[');
  const nlohmann::json threads =
      start == std::string::npos ? nlohmann::json() : ParseJson(text.substr(start));
  if (!threads.is_array()) {
    const std::string_view said = Trimmed(std::string_view(text).substr(0, kProblemMax));
    return {.frames = {}, .problem = said.empty() ? "py-spy printed nothing" : std::string(said)};
  }
  for (const nlohmann::json& thread : threads) {
    if (!thread.is_object() || JsonInt<pid_t>(thread, "os_thread_id") != pid) continue;
    return {.frames = FramesOf(thread), .problem = ""};
  }
  return {.frames = {}, .problem = "py-spy saw no Python in the main thread"};
}

}  // namespace paceline::agent
