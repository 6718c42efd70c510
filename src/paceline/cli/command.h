#pragma once

// A command as a table row, and the argument of its handler. To add one: a file
// cli/<folder>/<name>.cc with its handler and flags, a declaration at the end of this header, a row
// in commands.cc. Help, completion and the hint for a misspelt name come with the row.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/cli/console/environment.h"
#include "paceline/cli/console/output.h"
#include "paceline/cli/flags/flag.h"
#include "paceline/cli/settings/settings.h"

namespace paceline::cli {

struct Command;
struct JobPlace;

// One call of a command, with the parsed line, the output and the settings.
struct Invocation {
  const Command& command;
  std::vector<std::string> args;  // words after the command's name, as typed
  ParsedLine line;
  Environment environment;
  SettingValues settings;
  Output& out;
  const JobPlace* place = nullptr;  // the job of --on, if no process of it is needed
};

struct Command {
  std::string_view name;
  std::string_view summary;                // one line, no full stop
  std::string_view usage;                  // what follows the name: "[FLAGS] SCRIPT [ARGS…]"
  int (*handler)(Invocation& invocation);  // returns the exit code
  std::array<FlagTable, 2> flags;          // in addition to the global ones
  size_t positionals_max = 0;
  bool stops_at_script = false;    // run
  size_t words_before_script = 0;  // drill: the kind
  bool hidden = false;             // processes that paceline itself starts
};

std::span<const Command> Commands();
const Command* FindCommand(std::string_view name);

// All flags of a command, its own first.
std::vector<FlagTable> TablesOf(const Command& command);

std::string HelpOfAll(const OutputOptions& options);
std::string HelpOf(const Command& command, const OutputOptions& options);

// The whole command line: `args` without the program's name. Returns the exit code.
int Main(const std::vector<std::string>& args, const Environment& environment);

// ---- the handlers, each in its own file ----
int RunAttach(Invocation& invocation);
int RunCkpt(Invocation& invocation);
int RunClean(Invocation& invocation);
int RunCompletion(Invocation& invocation);
int RunConfig(Invocation& invocation);
int RunData(Invocation& invocation);
int RunDoctor(Invocation& invocation);
int RunDrill(Invocation& invocation);
int RunEvents(Invocation& invocation);
int RunGoodput(Invocation& invocation);
int RunHistory(Invocation& invocation);
int RunServe(Invocation& invocation);
int RunLogs(Invocation& invocation);
int RunOpen(Invocation& invocation);
int RunPlace(Invocation& invocation);
int RunPlan(Invocation& invocation);
int RunPool(Invocation& invocation);
int RunProfile(Invocation& invocation);
int RunPs(Invocation& invocation);
int RunAgentCommand(Invocation& invocation);
int RunKeeperCommand(Invocation& invocation);
int RunMasterCommand(Invocation& invocation);
int RunReceive(Invocation& invocation);
int RunReport(Invocation& invocation);
int RunTrace(Invocation& invocation);
int RunRun(Invocation& invocation);
int RunSimCommand(Invocation& invocation);
int RunStacks(Invocation& invocation);
int RunStatus(Invocation& invocation);
int RunScale(Invocation& invocation);
int RunServerCommand(Invocation& invocation);
int RunStop(Invocation& invocation);
int RunSubmit(Invocation& invocation);
int RunTables(Invocation& invocation);
int RunTasks(Invocation& invocation);
int RunVersion(Invocation& invocation);
int RunWait(Invocation& invocation);
int RunWhy(Invocation& invocation);

FlagTable AgentFlags();
FlagTable KeeperFlags();
FlagTable ConfigFlags();
FlagTable MasterFlags();
FlagTable PlaceFlags();
FlagTable PlanFlags();
FlagTable PoolFlags();
FlagTable ProfileFlags();
FlagTable PsFlags();
FlagTable SimFlags();
FlagTable CkptFlags();
FlagTable CleanFlags();
FlagTable HistoryFlags();
FlagTable DataFlags();
FlagTable DoctorFlags();
FlagTable DrillFlags();
FlagTable EventsFlags();
FlagTable WhyFlags();
FlagTable LogsFlags();
FlagTable ReceiveFlags();
FlagTable ReportFlags();
FlagTable TraceFlags();
FlagTable StacksFlags();
FlagTable ScaleFlags();
FlagTable ServerFlags();
FlagTable TablesFlags();
FlagTable TasksFlags();
FlagTable StopFlags();
FlagTable SubmitFlags();
FlagTable WaitFlags();

}  // namespace paceline::cli
