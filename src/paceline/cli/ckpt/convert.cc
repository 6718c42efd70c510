// `paceline ckpt export` and `import`. This file writes Hugging Face folders. Formats that need
// torch or are pickles are left to paceline.integrations.convert, which runs in the job's
// interpreter.

#include <unistd.h>

#include <string>
#include <vector>

#include "paceline/base/bytes_text.h"
#include "paceline/base/json.h"
#include "paceline/ckpt/storage/export_hf.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"
#include "paceline/model/storage_place.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

// Replaces this process by that interpreter; returns only if that fails.
int BecomeConverter(Invocation& invocation, std::vector<std::string> words) {
  Output& out = invocation.out;
  const HostFacts facts = ReadHostFacts(invocation.environment);
  const auto python = FindInterpreter(invocation.environment, invocation.settings, facts);
  if (!python.ok()) return out.Fail(python.problem());
  if (const Check problem = CheckInterpreter(*python, facts)) return out.Fail(*problem);
  if (out.is_json()) words.insert(words.begin(), "--json");
  words.insert(words.begin(), {*python, "-P", "-m", "paceline.integrations.convert"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  out.Flush();
  ::execv(python->c_str(), argv.data());
  return out.Fail({.code = "PL-E009",
                   .what = "the Python interpreter does not start",
                   .where = *python,
                   .why = "the system refused to run it",
                   .fix = "set launch.python"});
}

std::string ValueOf(const Invocation& invocation, std::string_view flag, std::string otherwise) {
  const Given* given = invocation.line.Find(flag);
  return given == nullptr ? otherwise : given->value;
}

// The entry's tensors that differ between the ranks that saved them.
std::vector<std::string> DifferingIn(const ckpt::Manifest& manifest, const std::string& entry) {
  std::vector<std::string> names;
  for (const auto* list : {&manifest.differing.parameters, &manifest.differing.others}) {
    for (const std::string& name : *list) {
      if (name.starts_with(entry + ".")) names.push_back(name);
    }
  }
  return names;
}

std::string MendingOfExport(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNotFound: return "name the state's entry that is the model by --entry NAME";
    case FailureKind::kExists: return "name a folder that is new or empty";
    case FailureKind::kFull: return "make room there, or name a folder on another disk";
    case FailureKind::kDamaged:
    case FailureKind::kInvalid:
      return "export another step by --step N; `paceline ckpt verify DIR` says which are complete";
    default: return "mend the cause that is named above, or name another folder";
  }
}

int ExportToHf(Invocation& invocation, const NamedCheckpoint& named, const std::string& folder) {
  Output& out = invocation.out;
  const auto refuse = [&](const Failure& failure) {
    return out.Fail({.code = "PL-E082",
                     .what = "the checkpoint cannot be exported",
                     .where = named.place(),
                     .why = failure.message,
                     .fix = MendingOfExport(failure.kind)});
  };
  ckpt::HfExport how{.folder = folder, .entry = ValueOf(invocation, "entry", "model")};
  if (const auto size = ParseSize(ValueOf(invocation, "max_file", "5GB")); size.has_value()) {
    how.file_bytes_max = *size;
  }
  auto reader = ckpt::WholeReader::Open(named.store.get(), named.listed.name);
  if (!reader.ok()) return refuse(reader.failure());
  const auto done = ckpt::ExportHf(reader->get(), how);
  if (!done.ok()) return refuse(done.failure());
  const std::vector<std::string> differing = DifferingIn((*reader)->manifest(), how.entry);
  if (out.is_json()) {
    const Json json = {{"schema", "paceline.ckpt_export/1"},
                       {"from", named.place()},
                       {"to", folder},
                       {"tensors", done->tensors},
                       {"bytes", done->bytes},
                       {"left_out", done->left_out},
                       {"differing", differing},
                       {"files", done->files}};
    out.DataLine(PrintJson(json));
    return kExitDone;
  }
  out.Say("wrote " + std::to_string(done->tensors) + " tensors of " + how.entry + ", " +
          BytesText(done->bytes) + ", in " + std::to_string(done->files.size()) +
          (done->files.size() == 1 ? " file to " : " files to ") + folder);
  for (const std::string& name : differing) {
    out.Say(name + " differs between ranks: rank 0's was taken");
  }
  if (done->left_out > 0) {
    out.Say("left out: " + std::to_string(done->left_out) + " tensors that are not below " +
            how.entry);
  }
  return kExitDone;
}

}  // namespace

int CkptExport(Invocation& invocation, const std::string& path, const std::string& folder) {
  Output& out = invocation.out;
  const auto named = FindCheckpoint(invocation, path);
  if (!named.ok()) return out.Fail(named.problem());
  TellPassedOver(invocation, *named);
  const std::string to = ValueOf(invocation, "to", "");
  const StoragePlace target = JudgePlace(folder);
  if (!target.bucket.empty() || !target.problem.empty()) {
    return out.Fail(
        {.code = "PL-E082",
         .what = "the checkpoint cannot be exported",
         .where = folder,
         .why = target.bucket.empty() ? target.problem : "it is not a folder of this host",
         .fix = "export to a folder of this host, and upload that"});
  }
  if (to == "hf") return ExportToHf(invocation, *named, folder);
  if (to == "dcp" && !named->store->traits().has_paths) {
    return out.Fail({.code = "PL-E082",
                     .what = "the checkpoint cannot be exported",
                     .where = named->place(),
                     .why = "PyTorch reads files, and this checkpoint is in an object store",
                     .fix = "copy it to a directory by paceline ckpt copy, and export that; --to "
                            "hf needs no copy"});
  }
  if (to == "dcp") return BecomeConverter(invocation, {"export", named->place(), folder});
  return out.Fail({.code = "PL-E002",
                   .what = "paceline ckpt export needs a format",
                   .where = "the command line",
                   .why = "--to is missing",
                   .fix = "--to hf for a Hugging Face folder, --to dcp for PyTorch's"});
}

int CkptImport(Invocation& invocation, const std::string& source, const std::string& directory) {
  std::vector<std::string> words = {"import", source, directory};
  words.insert(words.end(), {"--step", ValueOf(invocation, "step", "0")});
  words.insert(words.end(), {"--entry", ValueOf(invocation, "entry", "model")});
  return BecomeConverter(invocation, std::move(words));
}

}  // namespace paceline::cli
