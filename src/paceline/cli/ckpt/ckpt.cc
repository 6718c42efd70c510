// `paceline ckpt`: subcommands for checkpoints in a directory. All but `rescue` read only storage
// and need no running job. Subcommands with two paths have files of their own.

#include <string>
#include <utility>
#include <vector>

#include "paceline/base/bytes_text.h"
#include "paceline/base/json.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/ckpt/rescue.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

int Ls(Invocation& invocation, const std::string& named) {
  Output& out = invocation.out;
  const auto place = PlaceNamed(named);
  if (!place.ok()) return out.Fail(place.problem());
  const std::string& directory = *place;
  auto store = OpenPlace(invocation, directory);
  if (!store.ok()) return out.Fail(store.problem());
  auto found = ckpt::List(store->get());
  if (!found.ok()) return out.Fail(StorageUnreadable(directory, found.failure()));
  std::vector<ckpt::Listed>& all = *found;
  if (all.empty()) {  // the directory may be a checkpoint itself
    if (auto one = FindCheckpoint(invocation, named); one.ok()) all.push_back(one->listed);
  }
  if (all.empty())
    return out.Fail(NoCheckpoint(
        directory, WhyNothingAt(directory, "no folder in it has a complete MANIFEST.json")));
  Json json = {{"schema", "paceline.ckpt_ls/1"}, {"directory", directory}};
  json["checkpoints"] = Json::array();
  std::vector<std::vector<std::string>> rows = {{"CHECKPOINT", "STEP", "RANKS", "SIZE", "JOB"}};
  for (const ckpt::Listed& one : all) {
    const ckpt::Manifest& manifest = one.manifest;
    json["checkpoints"].push_back({{"name", one.name},
                                   {"step", manifest.step},
                                   {"generation", WorldNumber(manifest.generation)},
                                   {"world_size", manifest.world_size},
                                   {"bytes", manifest.bytes()},
                                   {"job", manifest.job_id}});
    rows.push_back({one.name, std::to_string(manifest.step), std::to_string(manifest.world_size),
                    BytesText(manifest.bytes()), Visible(manifest.job_id)});
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else {
    out.Rows(rows);
  }
  return kExitDone;
}

int Show(Invocation& invocation, const std::string& path) {
  Output& out = invocation.out;
  const auto named = FindCheckpoint(invocation, path);
  if (!named.ok()) return out.Fail(named.problem());
  TellPassedOver(invocation, *named);
  const ckpt::Manifest& manifest = named->listed.manifest;
  Json json = {{"schema", "paceline.ckpt_show/1"},
               {"name", named->listed.name},
               {"step", manifest.step},
               {"generation", WorldNumber(manifest.generation)},
               {"world_size", manifest.world_size},
               {"bytes", manifest.bytes()},
               {"job", manifest.job_id}};
  json["tensors"] = Json::array();
  std::vector<std::vector<std::string>> rows = {{"TENSOR", "TYPE", "SHAPE", "FROM", "FILE"}};
  for (const ckpt::ManifestFile& file : manifest.files) {
    if (!file.name.ends_with(".safetensors")) continue;
    auto source = named->store->Open(named->listed.name + "/" + file.name, file.bytes);
    if (!source.ok()) return out.Fail(NoCheckpoint(path, source.failure().message));
    const auto head = ckpt::ReadHead(source->get(), file.hashes);
    if (!head.ok()) return out.Fail(NoCheckpoint(path, head.failure().message));
    for (const ckpt::TensorBox& box : head->boxes) {
      json["tensors"].push_back({{"key", box.key},
                                 {"dtype", ckpt::NameOf(box.dtype)},
                                 {"shape", box.shape},
                                 {"offset", box.offset},
                                 {"file", file.name}});
      rows.push_back({Visible(box.key), std::string(ckpt::NameOf(box.dtype)), ShapeText(box.shape),
                      ShapeText(box.offset), file.name});
    }
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  out.DataLine(named->listed.name + ": step " + std::to_string(manifest.step) + ", " +
               std::to_string(manifest.world_size) + " ranks, " + BytesText(manifest.bytes()));
  out.Rows(rows);
  return kExitDone;
}

Problem NotRemoved(const std::string& path, const std::string& why) {
  return {.code = "PL-E089",
          .what = "the checkpoint cannot be removed",
          .where = path,
          .why = why,
          .fix = "correct that, and try again"};
}

int Rm(Invocation& invocation, const std::string& path) {
  Output& out = invocation.out;
  const auto named = FindFolders(invocation, path);
  if (!named.ok()) return out.Fail(named.problem());
  if (!named->is_one) {
    return out.Fail({.code = "PL-E010",
                     .what = "paceline ckpt rm needs the name of one checkpoint",
                     .where = path,
                     .why = "it is a directory of checkpoints",
                     .fix = Concat("paceline ckpt ls ", ShellWord(path), ", then paceline ckpt rm ",
                                   ShellWord(path), "/NAME")});
  }
  // If several checkpoints have the step, the newest complete one is removed. A damaged one is
  // removed by its name.
  const ckpt::Folder* going = &named->folders.front();
  for (const ckpt::Folder& folder : named->folders) {
    if (folder.state != ckpt::FolderState::kWhole) continue;
    going = &folder;
    break;
  }
  if (going->state == ckpt::FolderState::kUnfinished && HasLivingWriter(named->store.get())) {
    return out.Fail(NotRemoved(path, "it has no manifest yet, and a living job saves there"));
  }
  const auto removed = ckpt::Remove(named->store.get(), going->name);
  if (!removed.ok()) return out.Fail(NotRemoved(path, removed.failure().message));
  out.Say("removed " + going->name);
  return kExitDone;
}

struct Verb {
  std::string_view name;
  int (*run)(Invocation& invocation, const std::string& path);
};
constexpr Verb kVerbs[] = {
    {"ls", Ls}, {"show", Show}, {"verify", CkptVerify}, {"rm", Rm}, {"rescue", CkptRescue}};

struct PairVerb {
  std::string_view name;
  int (*run)(Invocation& invocation, const std::string& one, const std::string& other);
};
constexpr PairVerb kPairVerbs[] = {
    {"diff", CkptDiff}, {"copy", CkptCopy}, {"export", CkptExport}, {"import", CkptImport}};

constexpr Flag kCkptFlags[] = {
    {.dest = "to",
     .spellings = {"--to"},
     .kind = FlagKind::kChoice,
     .metavar = "FORMAT",
     .help = "export: hf, a Hugging Face folder of the weights, or dcp, PyTorch's format with "
             "everything",
     .choices = "hf|dcp"},
    {.dest = "step",
     .spellings = {"--step"},
     .kind = FlagKind::kInteger,
     .metavar = "N",
     .help = "the checkpoint of this step instead of the newest; import: the step of the new "
             "checkpoint, 0 by default",
     .minimum = 0},
    {.dest = "entry",
     .spellings = {"--entry"},
     .metavar = "NAME",
     .help = "name of the state's entry that is the model, `model` by default; import: entry for "
             "tensors that belong to none"},
    {.dest = "max_file",
     .spellings = {"--max-file"},
     .kind = FlagKind::kSize,
     .metavar = "SIZE",
     .help = "export --to hf: largest size of a file, 5GB by default",
     .minimum = 1},
};

// Which subcommands a flag of kCkptFlags is for, each between spaces.
struct FlagUse {
  std::string_view dest;
  std::string_view verbs;
};
constexpr FlagUse kFlagUses[] = {{"to", " export "},
                                 {"max_file", " export "},
                                 {"entry", " export import "},
                                 {"step", " show verify rm diff copy export import "}};

// A flag that the subcommand would ignore is refused: `rescue --step 4` would end the job and bring
// another step to storage.
Check CheckFlags(const ParsedLine& line) {
  const std::string verb = line.positionals.empty() ? "" : line.positionals[0];
  for (const FlagUse& use : kFlagUses) {
    const Given* given = line.Find(use.dest);
    if (given == nullptr || use.verbs.find(Concat(" ", verb, " ")) != std::string_view::npos) {
      continue;
    }
    const std::string flag(given->flag->spellings[0]);
    return Problem{.code = "PL-E001",
                   .what = Concat("paceline ckpt ", Visible(verb), " has no flag ", flag),
                   .where = "the command line",
                   .why = Concat(flag, " is for:", use.verbs.substr(0, use.verbs.size() - 1)),
                   .fix = "paceline ckpt --help"};
  }
  return std::nullopt;
}

}  // namespace

FlagTable CkptFlags() { return kCkptFlags; }

int RunCkpt(Invocation& invocation) {
  const auto& words = invocation.line.positionals;
  if (const Check problem = CheckFlags(invocation.line)) return invocation.out.Fail(*problem);
  for (const Verb& verb : kVerbs) {
    // An empty word comes from an unset variable of the shell. It does not mean the default job.
    const bool has_word = words.size() == 2 && !words[1].empty();
    if (has_word && words[0] == verb.name) return verb.run(invocation, words[1]);
  }
  if (words.size() == 1 && words[0] == "rescue") return CkptRescue(invocation, "");
  for (const PairVerb& verb : kPairVerbs) {
    if (words.size() == 3 && words[0] == verb.name) return verb.run(invocation, words[1], words[2]);
  }
  return invocation.out.Fail({.code = "PL-E002",
                              .what = "paceline ckpt needs a subcommand and its paths",
                              .where = "the command line",
                              .why = "ls, show, verify and rm take a path; diff A B, copy FROM TO, "
                                     "export DIR OUT and import SOURCE DIR take two; rescue takes "
                                     "a job",
                              .fix = "paceline ckpt ls DIR"});
}

}  // namespace paceline::cli
