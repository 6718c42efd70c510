#include "paceline/ps/table_spec.h"

#include <charconv>
#include <cmath>
#include <map>

#include "paceline/base/number_text.h"
#include "paceline/ps/optimizer/optimizer.h"
#include "paceline/ps/row_hash.h"

namespace paceline::ps {
namespace {

template <class T>
bool ReadNumber(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// One line of a spec: a word, a space, and the rest.
bool ReadLine(std::string_view word, std::string_view value, TableSpec* spec) {
  if (word == "table") {
    spec->name = value;
    return true;
  }
  if (word == "optimizer") {
    spec->optimizer.name = value;
    return true;
  }
  if (word == "dim") return ReadNumber(value, &spec->dim);
  if (word == "seed") return ReadNumber(value, &spec->seed);
  if (word == "scale") return ReadNumber(value, &spec->scale);
  if (word == "budget") return ReadNumber(value, &spec->budget_bytes);
  if (word == "rate") return ReadNumber(value, &spec->optimizer.rate);
  if (word == "epsilon") return ReadNumber(value, &spec->optimizer.epsilon);
  if (word == "beta1") return ReadNumber(value, &spec->optimizer.beta1);
  if (word == "beta2") return ReadNumber(value, &spec->optimizer.beta2);
  if (word == "initial") return ReadNumber(value, &spec->optimizer.initial);
  return false;
}

constexpr size_t kSpecLines = 11;
constexpr size_t kSpecBytesMax = 4096;

}  // namespace

std::string EncodeSpec(const TableSpec& spec) {
  const OptimizerSpec& optimizer = spec.optimizer;
  return "table " + spec.name + "\ndim " + std::to_string(spec.dim) + "\noptimizer " +
         optimizer.name + "\nrate " + NumberText(optimizer.rate) + "\nepsilon " +
         NumberText(optimizer.epsilon) + "\nbeta1 " + NumberText(optimizer.beta1) + "\nbeta2 " +
         NumberText(optimizer.beta2) + "\ninitial " + NumberText(optimizer.initial) + "\nseed " +
         std::to_string(spec.seed) + "\nscale " + NumberText(static_cast<double>(spec.scale)) +
         "\nbudget " + std::to_string(spec.budget_bytes) + "\n";
}

std::optional<TableSpec> ParseSpec(std::string_view text) {
  if (text.size() > kSpecBytesMax) return std::nullopt;
  TableSpec spec;
  size_t lines = 0;
  std::map<std::string_view, bool> seen;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const std::string_view word = line.substr(0, space);
    if (!seen.emplace(word, true).second) return std::nullopt;
    if (!ReadLine(word, line.substr(space + 1), &spec)) return std::nullopt;
    ++lines;
  }
  if (lines != kSpecLines || !BrokenRule(spec).empty()) return std::nullopt;
  return spec;
}

std::string BrokenRule(const TableSpec& spec) {
  const OptimizerSpec& optimizer = spec.optimizer;
  if (spec.name.empty() || spec.name.size() > kTableNameBytesMax) {
    return "the name of a table has 1 to " + std::to_string(kTableNameBytesMax) + " bytes";
  }
  if (spec.name.find_first_of(std::string_view("\n\0", 2)) != std::string::npos) {
    return "the name of a table is one line";
  }
  if (spec.dim < 1 || spec.dim > kDimMax) {
    return "dim is 1 to " + std::to_string(kDimMax) + ", not " + std::to_string(spec.dim);
  }
  if (FindOptimizer(optimizer.name) == nullptr) {
    return "there is no optimizer " + optimizer.name + "; there are: " + OptimizerNames();
  }
  for (const double number : {optimizer.rate, optimizer.epsilon, optimizer.beta1, optimizer.beta2,
                              optimizer.initial, static_cast<double>(spec.scale)}) {
    if (!std::isfinite(number) || number < 0) {
      return "rate, epsilon, betas, initial and scale are finite and not negative";
    }
  }
  if (optimizer.beta1 >= 1 || optimizer.beta2 >= 1) return "betas are less than 1";
  return "";
}

TableKey TableKeyOf(std::string_view name) {
  return TableKey(XXH3_64bits(name.data(), name.size()));
}

uint32_t PartitionOf(TableKey table, uint64_t key) {
  return static_cast<uint32_t>(RowHash(table, key) >> kPartitionShift);
}

}  // namespace paceline::ps
