#include "paceline/cli/ckpt/find.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "paceline/ckpt/store/stores.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/job/remote.h"
#include "paceline/cli/run/interpreter.h"
#include "paceline/cli/settings/value.h"
#include "paceline/model/storage_place.h"

namespace paceline::cli {

Problem NoCheckpoint(const std::string& path, const std::string& why) {
  return {.code = "PL-E080",
          .what = "there is no checkpoint",
          .where = path,
          .why = why,
          .fix = "paceline ckpt ls DIR, with the directory that the Checkpointer was given"};
}

std::string WhyNothingAt(const std::string& place, const std::string& otherwise) {
  const StoragePlace judged = JudgePlace(place);
  const bool is_path = judged.bucket.empty() && judged.problem.empty();
  const bool is_missing = is_path && ::access(place.c_str(), F_OK) != 0 && errno == ENOENT;
  return is_missing ? "there is no such directory" : otherwise;
}

Problem StorageUnreadable(const std::string& path, const Failure& failure) {
  return {.code = "PL-E081",
          .what = "the storage of the checkpoints cannot be read",
          .where = path,
          .why = failure.message,
          .fix = "repair that, and try again"};
}

Result<std::unique_ptr<ckpt::Store>> OpenPlace(const Invocation& invocation,
                                               const std::string& place) {
  const StoragePlace judged = JudgePlace(place);
  if (!judged.problem.empty()) {
    return Problem{.code = "PL-E081",
                   .what = "the storage of the checkpoints cannot be read",
                   .where = place,
                   .why = judged.problem,
                   .fix = judged.fix};
  }
  ckpt::StoreHost host;
  if (!judged.bucket.empty()) {
    // The S3 client runs in this interpreter. If there is none, opening the store fails with that
    // reason.
    const auto python = FindInterpreter(invocation.environment, invocation.settings,
                                        ReadHostFacts(invocation.environment));
    if (python.ok()) host.python = *python;
  }
  auto store = ckpt::OpenStore(place, host);
  if (!store.ok()) return StorageUnreadable(place, store.failure());
  return *std::move(store);
}

Result<std::string> PlaceNamed(const std::string& path) {
  const StoragePlace judged = JudgePlace(path);
  const bool is_directory = judged.bucket.empty() && judged.problem.empty();
  if (!is_directory || ::access((path + "/job.json").c_str(), F_OK) != 0) return path;
  const auto job = ReadJobPlace(path);
  if (!job.ok()) return job.problem();
  const auto status = StatusFromJournal(*job);
  if (!status.ok()) return status.problem();
  const std::string& place = status->checkpoints.directory;
  if (place.empty()) return NoCheckpoint(path, "this job has no checkpoint in storage yet");
  return place;
}

namespace {

// "runs/gpt/step-7-g1/" is "runs/gpt/step-7-g1", "runs/gpt" and "step-7-g1".
struct SplitPath {
  std::string clean;
  std::string parent;
  std::string name;
};
SplitPath PartsOf(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {path, ".", path};
  return {path, path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

Result<NamedCheckpoint> FindCheckpoint(const Invocation& invocation, const std::string& named) {
  const std::optional<int64_t> step = StepOf(invocation);
  const auto place = PlaceNamed(named);
  if (!place.ok()) return place.problem();
  const std::string& path = *place;
  const auto [clean, parent, name] = PartsOf(path);
  if (!ckpt::IsCheckpointName(name)) {
    auto store = OpenPlace(invocation, clean);
    if (!store.ok()) return store.problem();
    auto all = ckpt::List(store->get());
    if (!all.ok()) return StorageUnreadable(path, all.failure());
    for (ckpt::Listed& one : *all) {
      if (step.has_value() && one.manifest.step != *step) continue;
      NamedCheckpoint found{std::move(*store), std::move(one), step.has_value()};
      if (step.has_value()) return found;
      auto passed = ckpt::PassedOverFor(found.store.get(), found.listed.name);
      if (!passed.ok()) return StorageUnreadable(path, passed.failure());
      found.passed_over = *std::move(passed);
      return found;
    }
    if (!all->empty())
      return NoCheckpoint(path, "no checkpoint in it is of step " + std::to_string(*step));
  }
  // A folder with another name may be a copied checkpoint.
  auto store = OpenPlace(invocation, parent);
  if (!store.ok()) return store.problem();
  auto manifest = ckpt::ReadManifest(store->get(), name);
  if (!manifest.ok()) {
    return NoCheckpoint(path, WhyNothingAt(clean, manifest.failure().message));
  }
  if (step.has_value() && manifest->step != *step) {
    return NoCheckpoint(path, "it is of step " + std::to_string(manifest->step));
  }
  return NamedCheckpoint{std::move(*store), {name, *std::move(manifest)}, true};
}

void TellPassedOver(Invocation& invocation, const NamedCheckpoint& named) {
  for (const ckpt::PassedOver& one : named.passed_over) {
    invocation.out.Say(Visible(Say(one)));
  }
}

Result<NamedFolders> FindFolders(const Invocation& invocation, const std::string& named) {
  const std::optional<int64_t> step = StepOf(invocation);
  const auto place = PlaceNamed(named);
  if (!place.ok()) return place.problem();
  const auto [clean, parent, name] = PartsOf(*place);
  const bool is_one = ckpt::IsCheckpointName(name);
  auto store = OpenPlace(invocation, is_one ? parent : clean);
  if (!store.ok()) return store.problem();
  auto all = ckpt::Folders(store->get());
  if (!all.ok()) return StorageUnreadable(*place, all.failure());
  std::erase_if(*all, [&](const ckpt::Folder& folder) {
    return (is_one && folder.name != name) || (step.has_value() && folder.saved.step != *step);
  });
  const bool names_one = is_one || step.has_value();
  if (!all->empty()) return NamedFolders{std::move(*store), *std::move(all), names_one};
  // A folder with another name may be a copied checkpoint.
  auto one = FindCheckpoint(invocation, named);
  if (!one.ok()) return one.problem();
  NamedFolders found{std::move(one->store), {}, one->is_one};
  found.folders.push_back({.name = one->listed.name,
                           .saved = one->listed.manifest.saved(),
                           .why = "",
                           .manifest = std::move(one->listed.manifest)});
  return found;
}

std::optional<int64_t> StepOf(const Invocation& invocation) {
  return ParseInteger(invocation.line.Text("step"));
}

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t extent : shape) {
    if (!text.empty()) text += "x";
    text += std::to_string(extent);
  }
  return text.empty() ? "scalar" : text;
}

}  // namespace paceline::cli
