// `paceline ckpt`: looks at the checkpoints of a directory. It reads storage alone and needs no
// job.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "paceline/ckpt/restore.h"
#include "paceline/ckpt/storage.h"
#include "paceline/cli/command.h"
#include "paceline/cli/exit_code.h"
#include "paceline/cli/text.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Size(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  uint64_t tenths = bytes * 10;
  for (; tenths >= 10'000 && unit + 1 < std::size(kUnits); ++unit) tenths /= 1000;
  const std::string whole = std::to_string(tenths / 10);
  return (unit == 0 ? whole : whole + "." + std::to_string(tenths % 10)) + " " + kUnits[unit];
}

// A checkpoint as it was named: its directory and its own name.
struct Named {
  std::string directory;
  ckpt::Listed listed;
  std::string folder() const { return directory + "/" + listed.name; }
};

Problem NoCheckpoint(const std::string& path, const std::string& why) {
  return {.code = "PL-E080",
          .what = "there is no checkpoint",
          .where = path,
          .why = why,
          .fix = "paceline ckpt ls DIR, with the directory that the Checkpointer was given"};
}

// DIR takes its newest one, DIR/step-7-g1 that one.
cli::Result<Named> Find(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  const size_t slash = clean.rfind('/');
  const std::string name = slash == std::string::npos ? clean : clean.substr(slash + 1);
  const auto manifest = ckpt::ReadManifest(clean);
  if (manifest.ok()) {
    const std::string parent = slash == std::string::npos ? "." : clean.substr(0, slash);
    return Named{parent, {name, *manifest}};
  }
  std::vector<ckpt::Listed> all = ckpt::List(clean);
  if (!all.empty()) return Named{clean, std::move(all.front())};
  return NoCheckpoint(path, manifest.failure().message);
}

int Ls(Output& out, const std::string& directory) {
  const std::vector<ckpt::Listed> all = ckpt::List(directory);
  if (all.empty()) return out.Fail(NoCheckpoint(directory, "nothing in it has a whole manifest"));
  Json json = {{"schema", "paceline.ckpt_ls/1"}, {"directory", directory}};
  json["checkpoints"] = Json::array();
  std::vector<std::vector<std::string>> rows = {{"CHECKPOINT", "STEP", "RANKS", "SIZE", "JOB"}};
  for (const ckpt::Listed& one : all) {
    const ckpt::Manifest& manifest = one.manifest;
    json["checkpoints"].push_back({{"name", one.name},
                                   {"step", manifest.step},
                                   {"generation", manifest.generation},
                                   {"world_size", manifest.world_size},
                                   {"bytes", manifest.bytes()},
                                   {"job", manifest.job_id}});
    rows.push_back({one.name, std::to_string(manifest.step), std::to_string(manifest.world_size),
                    Size(manifest.bytes()), Visible(manifest.job_id)});
  }
  if (out.is_json()) {
    out.DataLine(Dump(json));
  } else {
    out.Data(Table(rows, out.width()));
  }
  return kExitDone;
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t extent : shape) {
    if (!text.empty()) text += "x";
    text += std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

int Show(Output& out, const std::string& path) {
  const auto named = Find(path);
  if (!named.ok()) return out.Fail(named.problem());
  const ckpt::Manifest& manifest = named->listed.manifest;
  Json json = {{"schema", "paceline.ckpt_show/1"},
               {"name", named->listed.name},
               {"step", manifest.step},
               {"generation", manifest.generation},
               {"world_size", manifest.world_size},
               {"bytes", manifest.bytes()},
               {"job", manifest.job_id}};
  json["tensors"] = Json::array();
  std::vector<std::vector<std::string>> rows = {{"TENSOR", "TYPE", "SHAPE", "FROM", "FILE"}};
  for (const ckpt::ManifestFile& file : manifest.files) {
    if (!file.name.ends_with(".safetensors")) continue;
    auto source = ckpt::FileSource::Open(named->folder() + "/" + file.name, file.bytes);
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
    out.DataLine(Dump(json));
    return kExitDone;
  }
  out.DataLine(named->listed.name + ": step " + std::to_string(manifest.step) + ", " +
               std::to_string(manifest.world_size) + " ranks, " + Size(manifest.bytes()));
  out.Data(Table(rows, out.width()));
  return kExitDone;
}

// One checkpoint when its folder is named, else all of the directory.
int Verify(Output& out, const std::string& path) {
  const auto named = Find(path);
  if (!named.ok()) return out.Fail(named.problem());
  std::vector<std::pair<std::string, std::string>> all;  // name, folder
  if (ckpt::ReadManifest(path).ok()) {
    all.emplace_back(named->listed.name, named->folder());
  } else {
    for (const ckpt::Listed& one : ckpt::List(path))
      all.emplace_back(one.name, path + "/" + one.name);
  }
  Json json = {{"schema", "paceline.ckpt_verify/1"}};
  json["checkpoints"] = Json::array();
  bool is_whole = true;
  for (const auto& [name, folder] : all) {
    const std::vector<std::string> wrong = ckpt::VerifyCheckpoint(folder);
    is_whole = is_whole && wrong.empty();
    json["checkpoints"].push_back({{"name", name}, {"problems", wrong}});
    if (out.is_json()) continue;
    out.DataLine(name + (wrong.empty() ? ": every byte is what was saved" : ": damaged"));
    for (const std::string& text : wrong) out.DataLine("  " + Visible(text));
  }
  if (out.is_json()) out.DataLine(Dump(json));
  return is_whole ? kExitDone : kExitFindings;
}

int Rm(Output& out, const std::string& path) {
  const auto named = Find(path);
  if (!named.ok()) return out.Fail(named.problem());
  if (!ckpt::ReadManifest(path).ok()) {
    return out.Fail(NoCheckpoint(path, "name the one that shall go, not the whole directory"));
  }
  const auto removed = ckpt::Remove(named->directory, named->listed.name);
  if (!removed.ok()) return out.Fail(NoCheckpoint(path, removed.failure().message));
  out.Say("removed " + named->listed.name);
  return kExitDone;
}

struct Verb {
  std::string_view name;
  int (*run)(Output& out, const std::string& path);
};
constexpr Verb kVerbs[] = {{"ls", Ls}, {"show", Show}, {"verify", Verify}, {"rm", Rm}};

}  // namespace

int RunCkpt(Invocation& invocation) {
  const auto& words = invocation.line.positionals;
  for (const Verb& verb : kVerbs) {
    if (words.size() == 2 && words[0] == verb.name) return verb.run(invocation.out, words[1]);
  }
  return invocation.out.Fail({.code = "PL-E002",
                              .what = "paceline ckpt needs a verb and a path",
                              .where = "the command line",
                              .why = "the verbs are ls, show, verify and rm",
                              .fix = "paceline ckpt ls DIR"});
}

}  // namespace paceline::cli
