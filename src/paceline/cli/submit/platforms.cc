#include <algorithm>
#include <utility>

#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {
namespace {

constexpr Platform kPlatforms[] = {
    {.name = "kubernetes", .submit = SubmitToKubernetes, .run_on = RunOnKubernetes},
    {.name = "ray", .submit = SubmitToRay, .run_on = RunOnRay},
};

}  // namespace

const Platform* FindPlatform(std::string_view name) {
  for (const Platform& platform : kPlatforms) {
    if (platform.name == name) return &platform;
  }
  return nullptr;
}

Result<OnPlace> ParseOnPlace(const std::string& text, bool has_job) {
  const std::vector<std::string> parts = Split(text, '/');
  const size_t parts_max = has_job ? 3 : 2;
  OnPlace place{.platform = parts.front()};
  std::string why;
  std::string fix =
      has_job ? "--on kubernetes/NAMESPACE/JOB, or --on ray/JOB" : "--on kubernetes, or --on ray";
  if (FindPlatform(place.platform) == nullptr) {
    why = "there is no platform of that name; kubernetes and ray are";
  } else if (place.platform == "ray") {
    if (parts.size() != parts_max - 1) {
      why = has_job ? "it is ray/JOB" : "it is ray; --name gives the job its name";
      fix = has_job ? "--on ray/train" : "--on ray";
    }
  } else if (parts.size() > parts_max || (has_job && parts.size() < 2)) {
    why = has_job ? "it is kubernetes/NAMESPACE/JOB, or kubernetes/JOB in the current namespace"
                  : "it is kubernetes or kubernetes/NAMESPACE; --name gives the job its name";
    fix = has_job ? "--on kubernetes/default/train" : "--on kubernetes";
  }
  for (size_t i = 1; i < parts.size() && why.empty(); ++i) {
    const bool is_label = std::all_of(parts[i].begin(), parts[i].end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
    if (parts[i].empty() || parts[i].front() == '-' || !is_label || parts[i].size() > 63) {
      why = "its parts are names: at most 63 of a-z, 0-9 and -, no dash in front";
      fix = Concat("--on ", place.platform, has_job ? "/train" : "");
    }
  }
  if (!why.empty()) {
    return Problem{.code = "PL-E003",
                   .what = Concat("--on ", Visible(text), " is not a cluster or a job of one"),
                   .where = "the command line",
                   .why = why,
                   .fix = std::move(fix)};
  }
  if (has_job) place.job = parts.back();
  if (parts.size() == parts_max) place.space = parts[1];
  return place;
}

}  // namespace paceline::cli
