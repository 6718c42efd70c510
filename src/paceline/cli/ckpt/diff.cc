// `paceline ckpt diff A B`: which tensors differ, and how. Whole tensors are compared, however they
// were divided among ranks.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "paceline/base/json.h"
#include "paceline/ckpt/storage/whole.h"
#include "paceline/cli/ckpt/find.h"
#include "paceline/cli/ckpt/tensor_diff.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr uint64_t kBatchBytes = uint64_t{256} << 20;

// One line of the output: the name, how the two differ, and the value on each side.
struct Difference {
  std::string key;
  std::string how;  // only in A, only in B, type, shape, content, state
  std::string one;
  std::string other;
  std::optional<ElementDiff> elements;
};

struct Side {
  NamedCheckpoint named;
  std::unique_ptr<ckpt::WholeReader> reader;
};

std::string Describe(const ckpt::WholeTensor& tensor) {
  return std::string(ckpt::NameOf(tensor.dtype)) + " " + ShapeText(tensor.shape);
}

// The tensors that both sides have with the same type and shape. The others are added to the
// differences.
std::map<std::string, ckpt::WholeTensor> Comparable(const Side& one, const Side& other,
                                                    std::vector<Difference>* found) {
  std::map<std::string, ckpt::WholeTensor> comparable;
  const auto& theirs = other.reader->tensors();
  for (const auto& [key, tensor] : one.reader->tensors()) {
    const auto twin = theirs.find(key);
    if (twin == theirs.end()) {
      found->push_back({key, "only in A", Describe(tensor), "", {}});
    } else if (twin->second.dtype != tensor.dtype) {
      found->push_back({key, "type", Describe(tensor), Describe(twin->second), {}});
    } else if (twin->second.shape != tensor.shape) {
      found->push_back({key, "shape", Describe(tensor), Describe(twin->second), {}});
    } else {
      comparable.emplace(key, tensor);
    }
  }
  for (const auto& [key, tensor] : theirs) {
    if (!one.reader->tensors().contains(key)) {
      found->push_back({key, "only in B", "", Describe(tensor), {}});
    }
  }
  return comparable;
}

// Compares the contents of these tensors, one after the other.
Result<std::vector<std::byte>> ContentOf(const Side& side, const std::vector<std::string>& keys) {
  const auto& tensors = side.reader->tensors();
  uint64_t bytes = 0;
  for (const std::string& key : keys) bytes += tensors.at(key).bytes;
  std::vector<std::byte> content(bytes);
  std::vector<ckpt::WholeReader::Wanted> wanted;
  bytes = 0;
  for (const std::string& key : keys) {
    const uint64_t size = tensors.at(key).bytes;
    wanted.push_back({key, std::span(content).subspan(bytes, size)});
    bytes += size;
  }
  if (const auto read = side.reader->Read(wanted); !read.ok()) {
    return NoCheckpoint(side.named.place(), read.failure().message);
  }
  return content;
}

Check CompareContent(const Side& one, const Side& other, const std::vector<std::string>& keys,
                     std::vector<Difference>* found) {
  const auto ours = ContentOf(one, keys);
  if (!ours.ok()) return ours.problem();
  const auto theirs = ContentOf(other, keys);
  if (!theirs.ok()) return theirs.problem();
  uint64_t at = 0;
  for (const std::string& key : keys) {
    const ckpt::WholeTensor& tensor = one.reader->tensors().at(key);
    auto diff = DiffElements(tensor.dtype, tensor.shape,
                             std::span<const std::byte>(*ours).subspan(at, tensor.bytes),
                             std::span<const std::byte>(*theirs).subspan(at, tensor.bytes));
    at += tensor.bytes;
    if (!diff.has_value()) continue;
    Difference difference{key, "content", diff->one, diff->other, std::move(diff)};
    found->push_back(std::move(difference));
  }
  return std::nullopt;
}

// The values that are not tensors, by entry. Random states differ between any two steps, so they
// are left out.
Json StateEntries(const Side& side) {
  const Json notes = ParseOrderedJson(side.reader->notes());
  const auto entries = notes.is_object() ? notes.find("entries") : notes.end();
  return entries == notes.end() || !entries->is_object() ? Json::object() : *entries;
}

void CompareState(const Side& one, const Side& other, std::vector<Difference>* found) {
  const Json ours = StateEntries(one);
  const Json theirs = StateEntries(other);
  for (const auto& [key, value] : ours.items()) {
    if (!theirs.contains(key)) {
      found->push_back({key, "only in A", "plain state", "", {}});
    } else if (theirs[key] != value) {
      found->push_back({key, "state", "plain state", "another", {}});
    }
  }
  for (const auto& [key, value] : theirs.items()) {
    if (!ours.contains(key)) found->push_back({key, "only in B", "", "plain state", {}});
  }
}

Result<std::vector<Difference>> Compare(const Side& one, const Side& other) {
  std::vector<Difference> found;
  for (const auto& batch : ckpt::Batches(Comparable(one, other, &found), kBatchBytes)) {
    if (Check problem = CompareContent(one, other, batch, &found)) return *problem;
  }
  CompareState(one, other, &found);
  return found;
}

Result<Side> OpenSide(Invocation& invocation, const std::string& path) {
  auto named = FindCheckpoint(invocation, path);
  if (!named.ok()) return named.problem();
  TellPassedOver(invocation, *named);
  auto reader = ckpt::WholeReader::Open(named->store.get(), named->listed.name);
  if (!reader.ok()) return NoCheckpoint(path, reader.failure().message);
  return Side{std::move(*named), *std::move(reader)};
}

std::string PlaceText(const ElementDiff& diff) {
  std::string text = std::to_string(diff.differing) + " of " + std::to_string(diff.elements);
  if (diff.first.empty()) return text;
  text += ", first at ";
  for (size_t axis = 0; axis < diff.first.size(); ++axis) {
    text += (axis == 0 ? "[" : ", ") + std::to_string(diff.first[axis]);
  }
  return text + "]";
}

Json ToJson(const Difference& difference) {
  Json json = {{"key", difference.key},
               {"how", difference.how},
               {"a", difference.one},
               {"b", difference.other}};
  if (const auto& elements = difference.elements) {
    json["differing"] = elements->differing;
    json["elements"] = elements->elements;
    json["first"] = elements->first;
  }
  return json;
}

}  // namespace

int CkptDiff(Invocation& invocation, const std::string& one, const std::string& other) {
  Output& out = invocation.out;
  auto ours = OpenSide(invocation, one);
  if (!ours.ok()) return out.Fail(ours.problem());
  auto theirs = OpenSide(invocation, other);
  if (!theirs.ok()) return out.Fail(theirs.problem());
  const auto found = Compare(*ours, *theirs);
  if (!found.ok()) return out.Fail(found.problem());
  Json json = {{"schema", "paceline.ckpt_diff/1"},
               {"a", ours->named.place()},
               {"b", theirs->named.place()},
               {"tensors", ours->reader->tensors().size()}};
  json["differences"] = Json::array();
  std::vector<std::vector<std::string>> rows = {{"NAME", "DIFFERS", "ELEMENTS", "A", "B"}};
  for (const Difference& difference : *found) {
    json["differences"].push_back(ToJson(difference));
    const auto& elements = difference.elements;
    rows.push_back({Visible(difference.key), difference.how, elements ? PlaceText(*elements) : "",
                    difference.one, difference.other});
  }
  if (out.is_json()) {
    out.DataLine(PrintJson(json));
  } else if (found->empty()) {
    out.DataLine("no difference in " + std::to_string(ours->reader->tensors().size()) +
                 " tensors and what was saved beside them");
  } else {
    out.Rows(rows);
  }
  return found->empty() ? kExitDone : kExitFindings;
}

}  // namespace paceline::cli
