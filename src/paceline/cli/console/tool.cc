#include "paceline/cli/console/tool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "paceline/base/fd.h"
#include "paceline/base/text.h"
#include "paceline/cli/run/host_facts.h"

namespace paceline::cli {
namespace {

constexpr size_t kOutputBytesMax = 64 << 20;

Problem Missing(const std::string& program, const std::string& why) {
  return {.code = "PL-E045",
          .what = program + " cannot be run",
          .where = "PATH",
          .why = why,
          .fix = "install " + program + ", or add its folder to PATH"};
}

std::vector<char*> Words(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  return words;
}

// "NAME=value" of each variable.
std::vector<std::string> Assignments(const Environment& environment) {
  std::vector<std::string> assignments;
  for (const auto& [name, value] : environment) assignments.push_back(Concat(name, "=", value));
  return assignments;
}

struct Pipe {
  Fd reader;
  Fd writer;
  bool Open() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    reader = Fd(ends[0]);
    writer = Fd(ends[1]);
    return true;
  }
};

// One end of the child's three streams.
struct Talk {
  Pipe in;
  Pipe out;
  Pipe err;
  bool Open() { return in.Open() && out.Open() && err.Open(); }
};

bool ReadSome(Fd* from, std::string* to) {
  std::array<char, 64 << 10> bytes{};
  const ssize_t count = ::read(from->get(), bytes.data(), bytes.size());
  if (count > 0 && to->size() < kOutputBytesMax) to->append(bytes.data(), count);
  if (count == 0 || (count < 0 && errno != EINTR)) from->Close();
  return from->is_open();
}

void WriteSome(Fd* to, const std::string& input, size_t* written) {
  if (*written < input.size()) {
    const ssize_t count = ::write(to->get(), input.data() + *written, input.size() - *written);
    if (count > 0) *written += static_cast<size_t>(count);
    if (count < 0 && errno != EINTR && errno != EAGAIN) *written = input.size();
  }
  if (*written == input.size()) to->Close();
}

// Reads and writes at the same time, because a program may print before it has read all its input.
void Converse(Talk* talk, const std::string& input, ToolResult* result) {
  // SIGPIPE is ignored: if a program ends before it has read all, its exit code says so.
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  ::fcntl(talk->in.writer.get(), F_SETFL, O_NONBLOCK);
  size_t written = 0;
  if (input.empty()) talk->in.writer.Close();
  while (talk->out.reader.is_open() || talk->err.reader.is_open()) {
    std::array<pollfd, 3> waits{{{talk->out.reader.get(), POLLIN, 0},
                                 {talk->err.reader.get(), POLLIN, 0},
                                 {talk->in.writer.get(), POLLOUT, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) ReadSome(&talk->out.reader, &result->out);
    if (waits[1].revents != 0) ReadSome(&talk->err.reader, &result->err);
    if (waits[2].revents != 0) WriteSome(&talk->in.writer, input, &written);
  }
  ::signal(SIGPIPE, before);
}

}  // namespace

Result<ToolResult> RunTool(const std::vector<std::string>& argv, const std::string& input,
                           const Environment& environment) {
  const std::string path = FindProgram(environment, argv.front());
  if (path.empty()) return Missing(argv.front(), "there is no program of that name");
  Talk talk;
  if (!talk.Open()) return Missing(argv.front(), std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, talk.in.reader.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, talk.out.writer.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, talk.err.writer.get(), STDERR_FILENO);
  pid_t child = 0;
  const std::vector<char*> words = Words(argv);
  const std::vector<std::string> assignments = Assignments(environment);
  const int failed = ::posix_spawn(&child, path.c_str(), &actions, nullptr, words.data(),
                                   Words(assignments).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Missing(argv.front(), std::strerror(failed));
  talk.in.reader.Close();
  talk.out.writer.Close();
  talk.err.writer.Close();
  ToolResult result;
  Converse(&talk, input, &result);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Problem BecomeTool(const std::vector<std::string>& argv, const Environment& environment) {
  const std::string path = FindProgram(environment, argv.front());
  if (path.empty()) return Missing(argv.front(), "there is no program of that name");
  const std::vector<std::string> assignments = Assignments(environment);
  ::execve(path.c_str(), Words(argv).data(), Words(assignments).data());
  return Missing(argv.front(), std::strerror(errno));
}

}  // namespace paceline::cli
