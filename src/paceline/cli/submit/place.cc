// `paceline place`: how an adapter without protobuf acts for a platform. The adapter writes facts
// about nodes to standard input, and reads what the master wishes for from standard output, a line
// of JSON each (docs/formats/place_lines.md).

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/file_text.h"
#include "paceline/base/json_field.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/run/placed_credentials.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {
namespace {

using enum FlagKind;

constexpr Flag kPlaceFlags[] = {
    {.dest = "credentials",
     .spellings = {"--credentials"},
     .metavar = "DIR",
     .help = "the job's token, ca.pem and ca.key"},
    {.dest = "make",
     .spellings = {"--make"},
     .metavar = "JOB",
     .help = "make the credentials of this job in that directory, and end"},
    {.dest = "address",
     .spellings = {"--address"},
     .metavar = "HOST:PORT",
     .help = "of the job's master"},
};

constexpr size_t kPlaceLineBytesMax = 64 << 10;

absl::Status MakeCredentials(const std::string& dir, const std::string& job) {
  ASSIGN_OR_RETURN(const wire::ServerCredentials made,
                   wire::MakeServerCredentials(job, wire::MakeToken()));
  constexpr mode_t kSecret = 0600;
  RETURN_IF_ERROR(MakeDirs(dir, 0700));
  RETURN_IF_ERROR(ReplaceFile(dir + "/ca.pem", made.ca_pem, kSecret));
  RETURN_IF_ERROR(ReplaceFile(dir + "/ca.key", made.ca_key_pem, kSecret));
  return ReplaceFile(dir + "/token", made.token, kSecret);
}

nlohmann::json LineOf(const Wish& wish) {
  nlohmann::json incarnations = nlohmann::json::object();
  for (const auto& [index, incarnation] : wish.incarnations) {
    incarnations[std::to_string(index)] = incarnation;
  }
  return {{"wish",
           {{"seq", wish.seq},
            {"drain", wish.intent == Wish::Intent::kDrain},
            {"size", wish.size},
            {"spares", wish.spares},
            {"incarnations", std::move(incarnations)},
            {"absent", wish.absent},
            {"excluded", wish.excluded}}}};
}

nlohmann::json LineOf(const wire::Summary& summary) {
  return {{"summary",
           {{"phase", summary.phase},
            {"pending", summary.pending},
            {"nodes", summary.nodes},
            {"spares", summary.spares},
            {"step", summary.step},
            {"goodput", summary.goodput},
            {"last", summary.last},
            {"restarts", summary.restart_count},
            {"memo", summary.memo}}}};
}

nlohmann::json LineOf(const wire::JobEnded& ended) {
  return {{"ended", {{"exit_code", ended.exit_code}, {"reason", ended.reason}}}};
}

nlohmann::json LineOf(const wire::SupervisorOpened&) {
  return {{"opened", nlohmann::json::object()}};
}

nlohmann::json LineOf(const wire::SupervisorBroken& broken) {
  return {{"broken", {{"why", broken.why}, {"denied", broken.is_denied}}}};
}

// None: the line is no message, and is passed over.
std::optional<wire::SupervisorMessage> MessageOf(const nlohmann::json& line) {
  if (!line.is_object() || line.size() != 1 || !line.begin()->is_object()) return std::nullopt;
  const nlohmann::json& body = *line.begin();
  const std::string& kind = line.begin().key();
  const std::string name = JsonText(body, "name");
  const auto incarnation = JsonInt<uint32_t>(body, "incarnation");
  if (kind == "kept") return wire::EndKept{};
  if (kind == "gone" && !name.empty()) {
    return wire::NodeGoneReport{
        .name = name, .evidence = JsonText(body, "evidence"), .incarnation = incarnation};
  }
  if (kind == "pending" && !name.empty()) {
    return wire::NodePending{
        .name = name, .incarnation = incarnation, .reason = JsonText(body, "reason")};
  }
  if (kind != "notice") return std::nullopt;
  wire::Notice notice{.name = name,
                      .left = Duration::Seconds(JsonInt<int32_t>(body, "left_seconds")),
                      .why = JsonText(body, "why")};
  if (!name.empty()) notice.incarnation = incarnation;
  return notice;
}

// One master. The adapter starts another process for the next one.
class Placer {
 public:
  explicit Placer(std::unique_ptr<agent::Reactor> reactor) : reactor_(std::move(reactor)) {}

  int Run(wire::ControlClientOptions master) {
    stream_ = std::make_unique<wire::SupervisorStream>(
        std::move(master), [this](wire::SupervisorEvent event) {
          reactor_->Post([this, event = std::move(event)] {
            std::visit([this](const auto& body) { Print(LineOf(body)); }, event);
          });
        });
    const absl::Status watched =
        reactor_->Watch(STDIN_FILENO, EPOLLIN, [this](uint32_t) { OnInput(); });
    if (!watched.ok()) return kExitUsage;
    reactor_->Run();
    stream_.reset();
    return kExitDone;
  }

 private:
  void Print(const nlohmann::json& line) {
    const std::string text = PrintJson(line) + "\n";
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!is_written || std::fflush(stdout) != 0) reactor_->Stop();  // the adapter has gone
  }

  void OnInput() {
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return reactor_->Stop();
    input_.append(bytes.data(), static_cast<size_t>(count));
    for (size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      const auto message = MessageOf(ParseJson(std::string_view(input_).substr(0, end)));
      input_.erase(0, end + 1);
      if (message.has_value()) stream_->Send(*message);
    }
    if (input_.size() > kPlaceLineBytesMax) reactor_->Stop();
  }

  std::unique_ptr<agent::Reactor> reactor_;
  std::unique_ptr<wire::SupervisorStream> stream_;
  std::string input_;
};

}  // namespace

FlagTable PlaceFlags() { return kPlaceFlags; }

int RunPlace(Invocation& invocation) {
  const std::string dir = invocation.line.Text("credentials");
  const auto fail = [&](const std::string& what, const std::string& why) {
    return invocation.out.Fail({.code = "PL-E002",
                                .what = what,
                                .where = "the command line",
                                .why = why,
                                .fix = "adapters of platforms start this command"});
  };
  if (dir.empty()) return fail("place lacks a flag", "it needs --credentials DIR");
  if (invocation.line.Has("make")) {
    const absl::Status made = MakeCredentials(dir, invocation.line.Text("make"));
    return made.ok() ? kExitDone : invocation.out.Fail(ProblemFrom(made));
  }
  const auto token = ReadCredential(dir, "token");
  if (!token.ok()) return invocation.out.Fail(token.problem());
  const auto server = PlacedServer(dir, *token);
  if (!server.ok()) return invocation.out.Fail(ProblemFrom(server.status()));
  auto own = wire::MakeOperatorCredentials(*server);
  auto reactor = agent::Reactor::Create();
  if (!own.ok()) return invocation.out.Fail(ProblemFrom(own.status()));
  if (!reactor.ok()) return invocation.out.Fail(ProblemFrom(reactor.status()));
  return Placer(*std::move(reactor))
      .Run({.address = invocation.line.Text("address"), .credentials = *std::move(own)});
}

}  // namespace paceline::cli
