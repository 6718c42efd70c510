// `paceline open`: a link to the page that the job's master serves.

#include <unistd.h>

#include <optional>

#include "paceline/base/file_text.h"
#include "paceline/base/host_text.h"
#include "paceline/base/json.h"
#include "paceline/base/spawn.h"
#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/job/silent_master.h"
#include "paceline/wire/client/control_client.h"

namespace paceline::cli {
namespace {

Problem NoLivePage(const JobPlace& place) {
  return {.code = "PL-E030",
          .what = Concat("no master of ", place.id, " runs, so its page is not served"),
          .where = place.run_dir,
          .why = "the master of a job serves its page, and only while the job runs",
          .fix = Concat("paceline report --job ", ShellWord(place.id),
                        " writes the same page as a file")};
}

Problem NoPageServed(const JobPlace& place) {
  return {.code = "PL-E030",
          .what = Concat("the master of ", place.id, " serves no page"),
          .where = place.master_addr,
          .why = "it is just starting, or an older version of paceline",
          .fix = Concat("paceline report --job ", ShellWord(place.id),
                        " writes the same page as a file")};
}

// The master's answer; none if it is away.
std::optional<Result<wire::PageLink>> AskMaster(const JobPlace& place, Duration limit) {
  const auto options = ControlOptions(place, limit);
  if (!options.ok()) {
    if (options.problem().code == "PL-E030") return std::nullopt;  // it has no address yet
    return options.problem();
  }
  auto link = wire::ControlClient(*options).OpenPage();
  if (link.ok() && !link->http.empty()) return *std::move(link);
  if (link.ok() || absl::IsUnimplemented(link.status())) return NoPageServed(place);
  if (IsAway(link.status())) return std::nullopt;
  return ProblemFrom(link.status());
}

// A master that is just starting is waited for, if a process lives that starts it.
Result<wire::PageLink> AskForLink(const JobPlace& place) {
  if (place.is_run_dir_gone || place.kept != nullptr) return NoLivePage(place);
  std::optional<Result<wire::PageLink>> answer;
  const Asked asked = AskUntil(place, {.each = kStatusPatience, .in_all = kStatusPatience},
                               [&answer](const JobPlace& now, Duration limit) {
                                 if (now.has_master() || now.is_joined)
                                   answer = AskMaster(now, limit);
                                 return answer.has_value();
                               });
  if (asked == Asked::kAnswered) return *std::move(answer);
  if (asked == Asked::kNobodyRunsIt) return NoLivePage(place);
  return MasterIsSilent(place);
}

// The command that makes the page reachable from the user's own machine; "" if it is this one.
std::string ForwardCommand(const Environment& environment, const wire::PageLink& link) {
  const std::string ssh = LookupOr(environment, "SSH_CONNECTION", "");  // client port server port
  const std::vector<std::string_view> parts = SplitParts(ssh, " ");
  const bool is_elsewhere = link.host != HostName();
  if (parts.size() < 3 && !is_elsewhere) return "";
  const std::string host = is_elsewhere ? link.host : std::string(parts[2]);
  const std::string port = link.http.substr(link.http.rfind(':') + 1);
  const std::string user = LookupOr(environment, "USER", "");
  return Concat("ssh -N -L ", port, ":", link.http, " ",
                ShellWord(user.empty() ? host : Concat(user, "@", host)));
}

bool HasProgram(const Environment& environment, std::string_view name) {
  const std::string path = LookupOr(environment, "PATH", "");
  for (const std::string_view folder : SplitParts(path, ":")) {
    if (access(Concat(folder, "/", name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Other users of this host can read the words of a command line, so the link, which is a secret for
// a minute, is handed over in a file of this user. Returns true if a browser was started.
bool OpenBrowser(const Environment& environment, const JobPlace& place, const std::string& url) {
  const bool has_screen = !LookupOr(environment, "DISPLAY", "").empty() ||
                          !LookupOr(environment, "WAYLAND_DISPLAY", "").empty();
  if (!has_screen || !HasProgram(environment, "xdg-open")) return false;
  const std::string path = place.run_dir + "/open.html";
  const std::string page =
      Concat("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=", url,
             "\"><title>paceline</title>\n");
  if (!ReplaceFile(path, page, 0600).ok()) return false;
  return SpawnDetached({.argv = {"xdg-open", path}, .env = CurrentEnvironment()}).ok();
}

}  // namespace

int RunOpen(Invocation& invocation) {
  Output& out = invocation.out;
  const auto place = JobOf(invocation);
  if (!place.ok()) return out.Fail(place.problem());
  const auto link = AskForLink(*place);
  if (!link.ok()) return out.Fail(link.problem());
  const std::string url = Concat("http://", link->http, "/#code=", link->code);
  const std::string forward = ForwardCommand(invocation.environment, *link);
  if (out.is_json()) {
    nlohmann::ordered_json json = {{"schema", "paceline.open/1"}, {"job", place->id}, {"url", url}};
    json["forward"] = forward.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(forward);
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  if (!forward.empty()) {
    out.Say(
        "The page is only reachable on the master's host. First run this where your browser "
        "is:");
    out.Say("  " + Visible(forward));
  }
  out.DataLine(url);
  const bool is_open = forward.empty() && OpenBrowser(invocation.environment, *place, url);
  out.Say(Concat(is_open ? "It opens in your browser. " : "",
                 "The link works once, within 60 s. `paceline open` prints a new one."));
  return kExitDone;
}

}  // namespace paceline::cli
