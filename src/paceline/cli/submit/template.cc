#include "paceline/cli/submit/template.h"

#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;

// The first mistake of a template, as a sentence without a full stop; "": none so far.
class TemplateCheck {
 public:
  const std::string& mistake() const { return mistake_; }

  // Returns the member if it is there and not null. A null stands for a missing field, as in
  // Kubernetes.
  static const Json* Member(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  void Text(const Json& object, const std::string& place, const char* key) {
    const Json* value = Member(object, key);
    if (value == nullptr || value->is_string()) return;
    Note(Concat(Named(place, key), " is ", Shown(*value), " and must be a text",
                value->is_structured()
                    ? ""
                    : "; put quotes around it, because YAML reads words such as y, on and 12 as "
                      "no text"));
  }

  // Checks that each member of the object `key` is a text.
  void Texts(const Json& object, const std::string& place, const char* key) {
    const Json* texts = Object(object, place, key);
    if (texts == nullptr) return;
    for (const auto& [name, unused] : texts->items()) {
      Text(*texts, Named(place, key), name.c_str());
    }
  }

  const Json* Object(const Json& object, const std::string& place, const char* key) {
    const Json* value = Member(object, key);
    if (value == nullptr || value->is_object()) return value;
    Note(Concat(Named(place, key), " is ", Shown(*value), " and must have fields"));
    return nullptr;
  }

  const Json* List(const Json& object, const std::string& place, const char* key) {
    const Json* value = Member(object, key);
    if (value == nullptr) return nullptr;
    if (!value->is_array()) {
      Note(Concat(Named(place, key), " is ", Shown(*value), " and must be a list"));
      return nullptr;
    }
    for (size_t i = 0; i < value->size(); ++i) {
      if ((*value)[i].is_object()) continue;
      Note(Concat(Named(place, key), "[", i, "] is ", Shown((*value)[i]), " and must have fields"));
      return nullptr;
    }
    return value;
  }

  void Container(const Json& container, const std::string& place) {
    Text(container, place, "name");
    Text(container, place, "image");
    if (const Json* variables = List(container, place, "env")) {
      for (size_t i = 0; i < variables->size(); ++i) {
        const std::string where = Concat(place, ".env[", i, "]");
        Text((*variables)[i], where, "name");
        Text((*variables)[i], where, "value");
      }
    }
    if (const Json* resources = Object(container, place, "resources")) {
      for (const char* key : {"requests", "limits"}) Object(*resources, place + ".resources", key);
    }
  }

  void Note(std::string mistake) {
    if (mistake_.empty()) mistake_ = std::move(mistake);
  }

 private:
  static std::string Named(const std::string& place, const char* key) {
    return place.empty() ? key : Concat(place, ".", key);
  }

  static std::string Shown(const Json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list";
    constexpr size_t kShownMax = 60;
    return Visible(PrintJson(value).substr(0, kShownMax));
  }

  std::string mistake_;
};

// Returns the object with the pod's metadata and spec: a Pod itself, or the field `template` of a
// PodTemplate. Null if there is none; `check` then has the reason.
const Json* TemplateBody(const Json& given, TemplateCheck* check) {
  const std::string kind = JsonText(given, "kind");
  if (!given.is_object()) {
    check->Note("it has not exactly one object");
  } else if (given.contains("kind") && kind != "Pod" && kind != "PodTemplate") {
    check->Note(Concat("its kind is ", Visible(PrintJson(given["kind"])),
                       ", and only a Pod or a PodTemplate is a template"));
  } else if (kind == "PodTemplate" || (kind.empty() && given.contains("template"))) {
    const auto inner = given.find("template");
    if (inner != given.end() && inner->is_object()) return &*inner;
    check->Note("it has no template with fields");
  } else {
    return &given;
  }
  return nullptr;
}

void CheckTemplate(const Json& body, TemplateCheck* check) {
  if (const Json* metadata = check->Object(body, "", "metadata")) {
    check->Texts(*metadata, "metadata", "labels");
    check->Texts(*metadata, "metadata", "annotations");
  }
  const Json* spec = TemplateCheck::Member(body, "spec");
  if (spec == nullptr || !spec->is_object()) {
    check->Note("it has no spec with fields");
    return;
  }
  const Json* containers = check->List(*spec, "spec", "containers");
  if (containers == nullptr || containers->empty()) {
    std::string keys;
    for (const auto& [key, unused] : spec->items()) {
      keys += Concat(keys.empty() ? "" : ", ", Visible(key));
    }
    check->Note(
        Concat("spec.containers is missing or empty; spec has ", keys.empty() ? "no field" : keys));
    return;
  }
  for (size_t i = 0; i < containers->size(); ++i) {
    check->Container((*containers)[i], Concat("spec.containers[", i, "]"));
  }
}

}  // namespace

Problem BadTemplate(const Submission& submission, const std::string& why) {
  return {.code = "PL-E003",
          .what = "the pod template cannot be used",
          .where = submission.template_path,
          .why = why,
          .fix = "give a file of `kind: Pod` whose container that runs the script is named train"};
}

Result<Json> PodTemplateOf(const Submission& submission, const Json& given) {
  Json found = Json::object();
  if (given.is_null()) {
    found["spec"]["containers"] = Json::array({{{"name", kTrainContainer}}});
    return found;
  }
  TemplateCheck check;
  const Json* body = TemplateBody(given, &check);
  if (body != nullptr) CheckTemplate(*body, &check);
  if (!check.mistake().empty()) return BadTemplate(submission, check.mistake());
  if (const Json* metadata = TemplateCheck::Member(*body, "metadata")) {
    for (const char* key : {"labels", "annotations"}) {
      const Json* texts = TemplateCheck::Member(*metadata, key);
      if (texts != nullptr) found["metadata"][key] = *texts;
    }
  }
  found["spec"] = (*body)["spec"];
  return found;
}

}  // namespace paceline::cli
