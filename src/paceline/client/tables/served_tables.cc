#include "paceline/client/tables/served_tables.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/base/fnv.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/client/tables/key_shares.h"
#include "paceline/client/tables/server_calls.h"
#include "paceline/client/tables/server_link.h"
#include "paceline/ps/partition_image.h"

namespace paceline::client {
namespace {

using Request = ServerCalls::Request;

class ServedTables final : public Tables {
 public:
  ServedTables(const TableServers& servers, const std::vector<std::string_view>& sockets)
      : job_(Fnv1a(servers.job_id)), calls_(sockets, job_, servers.patience.nanoseconds()) {}

  Result<uint32_t> Open(const ps::TableSpec& spec) override;
  Result<void> Pull(std::span<const TableRead> reads, bool is_training) override;
  Result<void> Init(uint32_t table, std::span<const uint64_t> keys,
                    std::span<const float> values) override;
  Result<PushOutcome> Push(const ps::PushTag& tag,
                           std::span<const ps::TableGradient> gradients) override;
  Result<std::vector<TableView>> Counts() override;
  Result<void> Export(uint32_t table, const Visitor& visit) override;
  Result<bool> Changed(uint32_t table, uint64_t number, const Visitor& visit) override;

 private:
  // An answer with keys and rows.
  Result<void> VisitRows(size_t server, const ServerLink::Answer& answer, ps::TableOp op,
                         uint32_t table, const Visitor& visit) const;
  Result<Request> Checked(Request request) const;
  Result<void> TakeOverlap(size_t server, const ps::PushTag& tag, const ServerLink::Answer& answer);
  const ps::TableSpec& SpecOf(uint32_t table) const { return calls_.specs()[table]; }
  uint32_t NumberAt(size_t server, uint32_t table) { return calls_.link(server).NumberOf(table); }
  static std::string NameOf(size_t server) { return ServerCalls::NameOf(server); }

  const uint64_t job_;
  ServerCalls calls_;
  PushOutcome outcome_;  // of the push under way
  bool has_outcome_ = false;
  std::map<std::string, ps::TableCounts> counts_;
};

// Tells the keys of two calls apart.
uint64_t MarkOf(std::span<const uint64_t> keys) {
  return ps::HashOfBytes({reinterpret_cast<const char*>(keys.data()), keys.size_bytes()});
}

template <class... Parts>
std::string CallName(std::string_view what, const Parts&... parts) {
  return Concat(what, " ", parts...);
}

Result<Request> ServedTables::Checked(Request request) const {
  if (request.body.size() <= ps::kTableBodyMax) return request;
  return Failure{FailureKind::kTooLarge,
                 Concat("a batch sends ", request.body.size(),
                        " bytes to a table server, and a frame carries at most ", ps::kTableBodyMax,
                        "; a smaller batch fits")};
}

// Another refusal says more: the parts would be refused, too.
Result<void> ServedTables::TakeOverlap(size_t server, const ps::PushTag& tag,
                                       const ServerLink::Answer& answer) {
  const auto overlap = ps::DecodeOverlap(answer.body);
  if (!overlap) return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent no parts")};
  outcome_.parts = ps::CutAt(outcome_.parts.empty() ? tag.batch : outcome_.parts, overlap->parts);
  if (std::exchange(has_outcome_, true)) return {};
  outcome_.answer = ps::PushAnswer::kOverlaps;
  outcome_.why = Concat(NameOf(server), ": ", overlap->why);
  return {};
}

Result<uint32_t> ServedTables::Open(const ps::TableSpec& spec) {
  const std::string text = ps::EncodeSpec(spec);
  const auto known = std::find_if(calls_.specs().begin(), calls_.specs().end(),
                                  [&](const ps::TableSpec& one) { return one.name == spec.name; });
  const auto number = static_cast<uint32_t>(known - calls_.specs().begin());
  const bool is_new = calls_.Begin(CallName("open", text));
  if (known != calls_.specs().end() && is_new) {
    calls_.End();
    if (*known == spec) return number;
    return Failure{FailureKind::kExists,
                   Concat("this process has opened the table ", spec.name,
                          " with other terms: ", calls_.texts()[number], "; now ", text)};
  }
  if (is_new) {
    if (const std::string rule = ps::BrokenRule(spec); !rule.empty()) {
      calls_.End();
      return Failure{FailureKind::kInvalid, rule};
    }
    calls_.specs().push_back(spec);
    calls_.texts().push_back(calls_.TextOf(spec));
  }
  const auto divide = [] {};
  calls_.Start(is_new, divide);
  const Result<void> opened = calls_.Run(
      divide, [](size_t) { return Request{}; },
      [](size_t, const ServerLink::Answer&) { return Result<void>(); });
  if (opened.ok()) return static_cast<uint32_t>(calls_.specs().size() - 1);
  if (opened.failure().kind != FailureKind::kBusy) {
    calls_.specs().pop_back();
    calls_.texts().pop_back();
  }
  return opened.failure();
}

Result<void> ServedTables::Pull(std::span<const TableRead> reads, bool is_training) {
  std::string name = CallName("pull", is_training ? 1 : 0);
  for (const TableRead& read : reads) {
    Append(&name, " ", read.table, ":", MarkOf(read.keys));
  }
  const auto divide = [&] {
    for (size_t i = 0; i < reads.size(); ++i) calls_.Divide(i, reads[i].table, reads[i].keys, {});
    for (size_t server = 0; server < calls_.servers(); ++server) {
      const bool has_none = std::all_of(calls_.shares(server).begin(), calls_.shares(server).end(),
                                        [](const Share& share) { return share.keys.empty(); });
      if (has_none) calls_.Skip(server);
    }
  };
  calls_.Start(calls_.Begin(std::move(name)), divide);
  const auto make = [&](size_t server) -> Result<Request> {
    std::vector<ps::TableKeys> parts;
    for (size_t i = 0; i < reads.size(); ++i) {
      parts.push_back({NumberAt(server, reads[i].table), calls_.shares(server)[i].keys});
    }
    ps::TableHead head{.op = ps::TableOp::kPull, .count = static_cast<uint32_t>(parts.size())};
    if (is_training) head.flags = ps::TableHead::kTraining;
    return Checked({head, ps::EncodeReads(parts)});
  };
  const auto take = [&](size_t server, const ServerLink::Answer& answer) -> Result<void> {
    size_t floats = 0;
    for (size_t i = 0; i < reads.size(); ++i) {
      floats += calls_.shares(server)[i].keys.size() * SpecOf(reads[i].table).dim;
    }
    if (answer.head.op != ps::TableOp::kRows || answer.body.size() != floats * sizeof(float)) {
      return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent other rows")};
    }
    return {};
  };
  RETURN_IF_ERROR(calls_.Run(divide, make, take));
  // Only now, because the caller may have other memory when it repeats the call.
  for (size_t server = 0; server < calls_.servers(); ++server) {
    const std::byte* from = calls_.link(server).body().data();
    for (size_t i = 0; i < std::min(reads.size(), calls_.shares(server).size()); ++i) {
      const size_t dim = SpecOf(reads[i].table).dim;
      for (const uint32_t place : calls_.shares(server)[i].places) {
        std::memcpy(reads[i].rows.data() + place * dim, from, dim * sizeof(float));
        from += dim * sizeof(float);
      }
    }
  }
  return {};
}

Result<void> ServedTables::Init(uint32_t table, std::span<const uint64_t> keys,
                                std::span<const float> values) {
  const auto divide = [&] {
    calls_.Divide(0, table, keys, values);
    for (size_t server = 0; server < calls_.servers(); ++server) {
      if (calls_.shares(server)[0].keys.empty()) calls_.Skip(server);
    }
  };
  calls_.Start(calls_.Begin(CallName("init", table, ":", MarkOf(keys))), divide);
  const auto make = [&](size_t server) -> Result<Request> {
    const Share& share = calls_.shares(server)[0];
    return Checked({{.op = ps::TableOp::kInit,
                     .table = NumberAt(server, table),
                     .count = static_cast<uint32_t>(share.keys.size())},
                    ps::EncodeRows(share.keys, share.values)});
  };
  RETURN_IF_ERROR(
      calls_.Run(divide, make, [](size_t, const ServerLink::Answer&) { return Result<void>(); }));
  for (size_t server = 0; server < calls_.servers(); ++server) {
    const Share& share = calls_.shares(server)[0];
    if (share.keys.empty()) continue;
    calls_.link(server).KeepInit(table, static_cast<uint32_t>(share.keys.size()),
                                 ps::EncodeRows(share.keys, share.values));
  }
  return {};
}

Result<PushOutcome> ServedTables::Push(const ps::PushTag& tag,
                                       std::span<const ps::TableGradient> gradients) {
  std::string name = CallName("push", tag.set);
  for (const OrdinalRange& range : tag.batch) Append(&name, " ", range.begin, "-", range.end);
  for (const ps::TableGradient& one : gradients) {
    Append(&name, " ", one.table, ":", MarkOf(one.keys));
  }
  const bool is_new = calls_.Begin(std::move(name));
  if (is_new) {
    outcome_ = {.answer = ps::PushAnswer::kSkipped, .why = {}};
    has_outcome_ = false;
    // One server does not see the values of the others, and a batch is refused as a whole.
    for (const ps::TableGradient& one : gradients) {
      std::string why = ps::WhyNotFinite(SpecOf(one.table), one);
      if (why.empty()) continue;
      calls_.End();
      return PushOutcome{.answer = ps::PushAnswer::kNotFinite, .why = std::move(why)};
    }
  }
  const auto divide = [&] {
    for (size_t i = 0; i < gradients.size(); ++i) {
      calls_.Divide(i, gradients[i].table, gradients[i].keys, gradients[i].values);
    }
  };
  calls_.Start(is_new, divide);
  ps::PushTag sent = tag;
  sent.set = ps::SetOfJob(job_, tag.set);
  const auto make = [&](size_t server) -> Result<Request> {
    std::vector<ps::SentGradient> parts;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Share& share = calls_.shares(server)[i];
      const uint32_t table = gradients[i].table;
      parts.push_back({{NumberAt(server, table), share.keys, share.values}, SpecOf(table).dim});
    }
    return Checked({{.op = ps::TableOp::kPush, .count = static_cast<uint32_t>(parts.size())},
                    ps::EncodePush(sent, parts)});
  };
  const auto take = [&](size_t server, const ServerLink::Answer& answer) -> Result<void> {
    if (answer.head.op != ps::TableOp::kPushed) {
      return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent another answer")};
    }
    const auto told = static_cast<ps::PushAnswer>(answer.head.count);
    const bool is_refusal = told != ps::PushAnswer::kApplied && told != ps::PushAnswer::kSkipped;
    if (told == ps::PushAnswer::kOverlaps) return TakeOverlap(server, tag, answer);
    const bool is_worse = has_outcome_ && outcome_.answer == ps::PushAnswer::kOverlaps;
    if (is_refusal && (!std::exchange(has_outcome_, true) || is_worse)) {
      outcome_ = {told, Concat(NameOf(server), ": ",
                               std::string_view(reinterpret_cast<const char*>(answer.body.data()),
                                                answer.body.size()))};
    } else if (told == ps::PushAnswer::kApplied && !has_outcome_) {
      outcome_.answer = told;
    }
    return {};
  };
  RETURN_IF_ERROR(calls_.Run(divide, make, take));
  return outcome_;
}

Result<std::vector<TableView>> ServedTables::Counts() {
  const auto divide = [&] { counts_.clear(); };
  calls_.Start(calls_.Begin(CallName("counts")), divide);
  const auto make = [](size_t) -> Result<Request> {
    return Request{.head = {.op = ps::TableOp::kCounts}, .body = {}};
  };
  const auto take = [&](size_t server, const ServerLink::Answer& answer) -> Result<void> {
    const nlohmann::json json = ParseJson(
        std::string_view(reinterpret_cast<const char*>(answer.body.data()), answer.body.size()));
    if (!json.is_object() || !json.contains("tables") || !json["tables"].is_array()) {
      return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent no counts")};
    }
    for (const nlohmann::json& one : json["tables"]) {
      ps::TableCounts& sum = counts_[one.value("name", "")];
      sum.rows += one.value("rows", uint64_t{0});
      sum.bytes += one.value("bytes", uint64_t{0});
      sum.budget_bytes += one.value("budget_bytes", uint64_t{0});
      sum.admitted += one.value("admitted", uint64_t{0});
      sum.refused += one.value("refused", uint64_t{0});
      sum.is_closed = sum.is_closed || one.value("is_closed", false);
    }
    return {};
  };
  RETURN_IF_ERROR(calls_.Run(divide, make, take));
  std::vector<TableView> views;
  for (const ps::TableSpec& spec : calls_.specs()) views.push_back({spec, counts_[spec.name]});
  return views;
}

Result<void> ServedTables::VisitRows(size_t server, const ServerLink::Answer& answer,
                                     ps::TableOp op, uint32_t table, const Visitor& visit) const {
  const auto rows = ps::DecodeRows(answer.head.count, SpecOf(table).dim, answer.body);
  if (answer.head.op != op || !rows) {
    return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent other rows")};
  }
  if (!rows->keys.empty()) visit(rows->keys, rows->values);
  return {};
}

// One partition after the other, because a repeated call visits all rows again.
Result<void> ServedTables::Export(uint32_t table, const Visitor& visit) {
  for (uint32_t partition = 0; partition < ps::kPartitions; ++partition) {
    const auto make = [&](size_t server) -> Result<Request> {
      return Request{.head = {.op = ps::TableOp::kExport,
                              .table = NumberAt(server, table),
                              .count = partition},
                     .body = {}};
    };
    const auto take = [&](size_t server, const ServerLink::Answer& answer) {
      return VisitRows(server, answer, ps::TableOp::kExported, table, visit);
    };
    RETURN_IF_ERROR(calls_.RunAt([&] { return size_t{calls_.routing().Of(partition)}; },
                                 CallName("export", table, " ", partition), make, take));
  }
  return {};
}

Result<bool> ServedTables::Changed(uint32_t table, uint64_t number, const Visitor& visit) {
  std::string body(sizeof(number), '\0');
  std::memcpy(body.data(), &number, sizeof(number));
  bool is_known = true;
  const uint64_t version = calls_.routing().version();
  for (size_t from = 0; from < calls_.servers(); ++from) {
    bool has_more = calls_.serves(from);
    for (uint32_t page = 0; has_more; ++page) {
      const auto make = [&](size_t server) -> Result<Request> {
        return Request{
            .head = {.op = ps::TableOp::kChanged, .table = NumberAt(server, table), .count = page},
            .body = body};
      };
      const auto take = [&](size_t server, const ServerLink::Answer& answer) {
        has_more = (answer.head.flags & ps::TableHead::kMore) != 0;
        is_known = is_known && (answer.head.flags & ps::TableHead::kAll) == 0;
        return VisitRows(server, answer, ps::TableOp::kChanges, table, visit);
      };
      has_more = false;  // if the server has no partitions any more, nothing is asked
      RETURN_IF_ERROR(calls_.RunAt([&] { return from; },
                                   CallName("changed", table, " ", number, " ", page, " ", from),
                                   make, take));
    }
  }
  // Rows that moved meanwhile may have been seen on neither server.
  return is_known && calls_.routing().version() == version;
}

}  // namespace

Result<std::unique_ptr<Tables>> OpenServedTables(const TableServers& servers) {
  const std::vector<std::string_view> sockets = SplitParts(servers.sockets, ",");
  if (sockets.empty()) return Failure{FailureKind::kInvalid, "there are no table servers"};
  return std::unique_ptr<Tables>(std::make_unique<ServedTables>(servers, sockets));
}

}  // namespace paceline::client
