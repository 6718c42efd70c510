// _native.Tables, Bags and GradientSum: rows of embedding tables and dense tensors. Elements is an
// address and a number of elements: Python keeps the tensor alive during the call. Work is done
// without the interpreter lock. A call that returns None or False was busy and is to be repeated.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "paceline/bindings/bindings.h"
#include "paceline/client/tables/bag.h"
#include "paceline/client/tables/dense.h"
#include "paceline/client/tables/gradient_sum.h"
#include "paceline/client/tables/own_tables.h"
#include "paceline/client/tables/served_tables.h"
#include "paceline/client/tables/tables.h"

namespace paceline::bindings {
namespace {

namespace nb = nanobind;

using client::Bags;
using client::DenseTensor;
using client::GradientSum;
using client::Pooling;
using client::TableView;

using Elements = std::pair<uintptr_t, size_t>;                        // address, elements
using DensePart = std::tuple<uint32_t, uint32_t, uintptr_t, size_t>;  // table, dim, memory
using Ordinals = std::pair<uint64_t, uint64_t>;                       // of ordinals
using TableSums = std::vector<std::pair<uint32_t, GradientSum*>>;     // of tables
using PushedAs = std::tuple<std::string, std::string>;                // answer, why

template <typename T>
std::span<T> SpanOf(const Elements& memory) {
  return {reinterpret_cast<T*>(memory.first), memory.second};
}

// The port, for one thread at a time.
struct TablesOfProcess {
  std::unique_ptr<client::Tables> tables;
  std::mutex mutex;
  std::vector<float> rows;                           // of a lookup; kept for its memory
  std::vector<std::pair<uint64_t, uint64_t>> parts;  // of the last push, if it overlaps
};

// Calls `work` without the interpreter lock. False: busy.
template <typename Work>
bool CallTables(TablesOfProcess& self, Work work) {
  Result<void> done;
  {
    nb::gil_scoped_release release;
    const std::lock_guard guard(self.mutex);
    done = work(*self.tables);
  }
  if (!done.ok() && done.failure().kind == FailureKind::kBusy) return false;
  RaiseIfFailed(done);
  return true;
}

std::string NameOfAnswer(ps::PushAnswer answer) {
  switch (answer) {
    case ps::PushAnswer::kApplied: return "applied";
    case ps::PushAnswer::kSkipped: return "skipped";
    case ps::PushAnswer::kOverlaps: return "overlaps";
    case ps::PushAnswer::kFenced: return "fenced";
    case ps::PushAnswer::kNotFinite: return "not finite";
    case ps::PushAnswer::kUnknownTable: return "unknown table";
    case ps::PushAnswer::kMalformed: return "malformed";
  }
  return "";
}

std::optional<uint32_t> OpenTable(TablesOfProcess& self, const std::string& name, uint32_t dim,
                                  const ps::OptimizerSpec& optimizer, uint64_t seed, float scale,
                                  uint64_t budget) {
  const ps::TableSpec spec{.name = name,
                           .dim = dim,
                           .optimizer = optimizer,
                           .seed = seed,
                           .scale = scale,
                           .budget_bytes = budget};
  uint32_t number = 0;
  const bool is_done = CallTables(self, [&](client::Tables& tables) -> Result<void> {
    ASSIGN_OR_RETURN(number, tables.Open(spec));
    return {};
  });
  return is_done ? std::optional(number) : std::nullopt;
}

bool LookUpRows(TablesOfProcess& self, uint32_t table, uint32_t dim, const Bags& bags,
                bool is_training, const Elements& pooled) {
  if (pooled.second != bags.bags() * dim) throw nb::value_error("dim floats for each bag");
  return CallTables(self, [&](client::Tables& tables) -> Result<void> {
    self.rows.resize(bags.keys().size() * dim);
    const client::TableRead read{.table = table, .keys = bags.keys(), .rows = self.rows};
    RETURN_IF_ERROR(tables.Pull({&read, 1}, is_training));
    bags.Pool(self.rows, dim, SpanOf<float>(pooled));
    return {};
  });
}

std::vector<DenseTensor> DensePartsOf(const std::vector<DensePart>& parts) {
  std::vector<DenseTensor> tensors;
  for (const auto& [table, dim, address, count] : parts) {
    tensors.push_back({.table = table, .dim = dim, .values = SpanOf<float>({address, count})});
  }
  return tensors;
}

std::optional<PushedAs> PushBatch(TablesOfProcess& self, const std::string& data_set,
                                  const std::vector<Ordinals>& batch, uint64_t worker,
                                  uint64_t incarnation, uint64_t recovery, const TableSums& sums) {
  ps::PushTag tag{.set = ps::TableKeyOf(data_set).value(),
                  .worker = {.worker = worker, .incarnation = incarnation},
                  .recovery = recovery};
  for (const auto& [begin, end] : batch) tag.batch.push_back({begin, end});
  std::vector<ps::TableGradient> gradients;
  for (const auto& [table, sum] : sums) {
    gradients.push_back({.table = table, .keys = sum->keys(), .values = sum->values()});
  }
  client::PushOutcome outcome;
  const bool is_done = CallTables(self, [&](client::Tables& tables) -> Result<void> {
    ASSIGN_OR_RETURN(outcome, tables.Push(tag, gradients));
    return {};
  });
  if (!is_done) return std::nullopt;
  self.parts.clear();
  for (const OrdinalRange& part : outcome.parts) self.parts.emplace_back(part.begin, part.end);
  return PushedAs{NameOfAnswer(outcome.answer), outcome.why};
}

std::optional<nb::list> CountTables(TablesOfProcess& self) {
  std::vector<TableView> views;
  const bool is_done = CallTables(self, [&](client::Tables& tables) -> Result<void> {
    ASSIGN_OR_RETURN(views, tables.Counts());
    return {};
  });
  if (!is_done) return std::nullopt;
  nb::list list;
  for (const TableView& view : views) {
    nb::dict one;
    one["name"] = view.spec.name;
    one["dim"] = view.spec.dim;
    one["rows"] = view.counts.rows;
    one["bytes"] = view.counts.bytes;
    one["budget"] = view.counts.budget_bytes;
    one["admitted"] = view.counts.admitted;
    one["refused"] = view.counts.refused;
    list.append(one);
  }
  return list;
}

// Rows of a table: keys (8 bytes each) and their values (4 bytes each).
struct RowBytes {
  std::vector<uint64_t> keys;
  std::vector<float> rows;

  client::Tables::Visitor Collect() {
    keys.clear();
    rows.clear();
    return [this](std::span<const uint64_t> some, std::span<const float> values) {
      keys.insert(keys.end(), some.begin(), some.end());
      rows.insert(rows.end(), values.begin(), values.end());
    };
  }
  nb::bytes KeyBytes() const { return nb::bytes(keys.data(), keys.size() * sizeof(uint64_t)); }
  nb::bytes ValueBytes() const { return nb::bytes(rows.data(), rows.size() * sizeof(float)); }
};

std::optional<std::pair<nb::bytes, nb::bytes>> ExportTable(TablesOfProcess& self, uint32_t table) {
  RowBytes all;
  const bool is_done =
      CallTables(self, [&](client::Tables& tables) { return tables.Export(table, all.Collect()); });
  if (!is_done) return std::nullopt;
  return std::pair(all.KeyBytes(), all.ValueBytes());
}

std::optional<std::tuple<bool, nb::bytes, nb::bytes>> ChangedRows(TablesOfProcess& self,
                                                                  uint32_t table, uint64_t number) {
  RowBytes changed;
  bool is_known = false;
  const bool is_done = CallTables(self, [&](client::Tables& tables) -> Result<void> {
    ASSIGN_OR_RETURN(is_known, tables.Changed(table, number, changed.Collect()));
    return {};
  });
  if (!is_done) return std::nullopt;
  return std::tuple(is_known, changed.KeyBytes(), changed.ValueBytes());
}

void BindBatches(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  const auto pooling = [](bool is_mean) { return is_mean ? Pooling::kMean : Pooling::kSum; };
  nb::class_<Bags>(module, "Bags")
      .def_static(
          "from_offsets",
          [pooling](const Elements& keys, const Elements& begins, bool is_mean) {
            return ValueOrRaise(Bags::FromOffsets(SpanOf<const int64_t>(keys),
                                                  SpanOf<const int64_t>(begins), pooling(is_mean)));
          },
          nb::arg("keys"), nb::arg("begins"), nb::arg("is_mean"))
      .def_static(
          "of_width",
          [pooling](const Elements& keys, uint64_t width, bool is_mean) {
            if (width == 0 || keys.second % width != 0) throw nb::value_error("whole bags");
            return Bags::OfWidth(SpanOf<const int64_t>(keys), width, pooling(is_mean));
          },
          nb::arg("keys"), nb::arg("width"), nb::arg("is_mean"))
      .def_prop_ro("bags", &Bags::bags)
      .def_prop_ro("distinct", [](const Bags& bags) { return bags.keys().size(); });
  nb::class_<GradientSum>(module, "GradientSum")
      .def(nb::init<uint32_t>(), nb::arg("dim"))
      .def(
          "add",
          [](GradientSum& sum, const Bags& bags, const Elements& pooled) {
            sum.Add(bags, SpanOf<const float>(pooled));
          },
          nb::arg("bags"), nb::arg("pooled"), Release())
      .def(
          "add_dense",
          [](GradientSum& sum, const Elements& values) {
            sum.AddDense(SpanOf<const float>(values));
          },
          nb::arg("values"), Release())
      .def("clear", &GradientSum::Clear)
      .def_prop_ro("rows", [](const GradientSum& sum) { return sum.keys().size(); });
}

}  // namespace

void BindTables(nb::module_& module) {
  BindBatches(module);
  nb::class_<ps::OptimizerSpec>(module, "OptimizerSpec")
      .def(nb::init<>())
      .def_rw("name", &ps::OptimizerSpec::name)
      .def_rw("rate", &ps::OptimizerSpec::rate)
      .def_rw("epsilon", &ps::OptimizerSpec::epsilon)
      .def_rw("beta1", &ps::OptimizerSpec::beta1)
      .def_rw("beta2", &ps::OptimizerSpec::beta2)
      .def_rw("initial", &ps::OptimizerSpec::initial);
  nb::class_<TablesOfProcess>(module, "Tables")
      .def_static(
          "own",
          [] {
            auto self = std::make_unique<TablesOfProcess>();
            self->tables = client::MakeOwnTables();
            return self.release();
          },
          nb::rv_policy::take_ownership)
      .def_static(
          "served",
          [](std::string sockets, std::string job_id) {
            auto self = std::make_unique<TablesOfProcess>();
            self->tables = ValueOrRaise(client::OpenServedTables(
                {.sockets = std::move(sockets), .job_id = std::move(job_id)}));
            return self.release();
          },
          nb::rv_policy::take_ownership, nb::arg("sockets"), nb::arg("job_id"))
      .def("open", &OpenTable, nb::arg("name"), nb::arg("dim"), nb::arg("optimizer"),
           nb::arg("seed"), nb::arg("scale"), nb::arg("budget"))
      .def("look_up", &LookUpRows, nb::arg("table"), nb::arg("dim"), nb::arg("bags"),
           nb::arg("is_training"), nb::arg("pooled"))
      .def(
          "init_dense",
          [](TablesOfProcess& self, const std::vector<DensePart>& parts) {
            return CallTables(self, [&](client::Tables& tables) {
              return client::InitDense(&tables, DensePartsOf(parts));
            });
          },
          nb::arg("tensors"))
      .def(
          "pull_dense",
          [](TablesOfProcess& self, const std::vector<DensePart>& parts) {
            return CallTables(self, [&](client::Tables& tables) {
              return client::PullDense(&tables, DensePartsOf(parts));
            });
          },
          nb::arg("tensors"))
      .def("push", &PushBatch, nb::arg("data_set"), nb::arg("batch"), nb::arg("worker"),
           nb::arg("incarnation"), nb::arg("recovery"), nb::arg("gradients"))
      .def("parts", [](const TablesOfProcess& self) { return self.parts; })
      .def("counts", &CountTables)
      .def("export", &ExportTable, nb::arg("table"))
      .def("changed", &ChangedRows, nb::arg("table"), nb::arg("number"));
}

}  // namespace paceline::bindings
