#include "paceline/client/tables/served_tables.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/base/fnv.h"
#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/client/tables/key_shares.h"
#include "paceline/client/tables/server_link.h"
#include "paceline/client/tables/server_waits.h"
#include "paceline/ps/partition_image.h"

namespace paceline::client {
namespace {

int64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Request {
  ps::TableHead head;
  std::string body;
};

class ServedTables final : public Tables {
 public:
  ServedTables(const TableServers& servers, std::vector<std::string_view> sockets)
      : job_(Fnv1a(servers.job_id)), waits_(sockets.size(), servers.patience.nanoseconds()) {
    const auto count = static_cast<uint32_t>(sockets.size());
    for (uint32_t i = 0; i < count; ++i) {
      links_.emplace_back(ServerLink::Place{std::string(sockets[i]), i, count, job_});
    }
    shares_.resize(links_.size());
  }

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
  using Make = std::function<Result<Request>(size_t server)>;
  using Take = std::function<Result<void>(size_t server, const ServerLink::Answer& answer)>;

  // Begins a call, or goes on with one that was interrupted. `name` tells calls apart. True: it is
  // a new one.
  bool Begin(std::string name);
  // An answer with keys and rows.
  Result<void> VisitRows(size_t server, const ServerLink::Answer& answer, ps::TableOp op,
                         uint32_t table, const Visitor& visit) const;
  // Asks one server alone. Only a signal interrupts it.
  Result<void> RunAt(size_t server, std::string name, const Make& make, const Take& take);
  // Sends a request to each server of the call that has not answered yet, and waits for all.
  Result<void> Run(const Make& make, const Take& take);
  Result<void> Wait(int64_t deadline_ns);
  Result<void> NoteWaits(int64_t now_ns);
  Result<void> Refused(size_t server, const ServerLink::Answer& answer) const;
  // Divides keys among the servers. The share of each server is `shares_[server][index]`.
  void Divide(size_t index, uint32_t table, std::span<const uint64_t> keys,
              std::span<const float> values);
  Result<Request> Checked(Request request) const;
  static std::string NameOf(size_t server) { return ServerWaits::NameOf(server); }

  const uint64_t job_;
  std::vector<ServerLink> links_;
  std::vector<ps::TableSpec> specs_;
  std::vector<std::string> texts_;  // of specs_, with the budget of one server
  // The call under way.
  std::string call_;
  std::vector<bool> is_done_;  // by server
  std::vector<std::vector<Share>> shares_;
  PushOutcome outcome_;
  bool has_outcome_ = false;
  std::map<std::string, ps::TableCounts> counts_;
  bool is_interrupted_ = false;  // by a signal, in the last wait
  ServerWaits waits_;
};

// Tells the keys of two calls apart.
uint64_t MarkOf(std::span<const uint64_t> keys) {
  return ps::HashOfBytes({reinterpret_cast<const char*>(keys.data()), keys.size_bytes()});
}

template <class... Parts>
std::string CallName(std::string_view what, const Parts&... parts) {
  return Concat(what, " ", parts...);
}

bool ServedTables::Begin(std::string name) {
  if (name == call_) return false;
  call_ = std::move(name);
  for (ServerLink& link : links_) link.Forget();
  is_done_.assign(links_.size(), false);
  for (std::vector<Share>& shares : shares_) {
    for (Share& share : shares) share.Clear();
  }
  outcome_ = {.answer = ps::PushAnswer::kSkipped};
  has_outcome_ = false;
  counts_.clear();
  return true;
}

void ServedTables::Divide(size_t index, uint32_t table, std::span<const uint64_t> keys,
                          std::span<const float> values) {
  DivideKeys(specs_[table], keys, values, index, &shares_);
}

Result<Request> ServedTables::Checked(Request request) const {
  if (request.body.size() <= ps::kTableBodyMax) return request;
  return Failure{FailureKind::kTooLarge,
                 Concat("a batch sends ", request.body.size(),
                        " bytes to a table server, and a frame carries at most ", ps::kTableBodyMax,
                        "; a smaller batch fits")};
}

// ---- the loop ----

Result<void> ServedTables::Refused(size_t server, const ServerLink::Answer& answer) const {
  const auto refusal = static_cast<ps::TableRefusal>(answer.head.count);
  const FailureKind kind = refusal == ps::TableRefusal::kDiffers     ? FailureKind::kExists
                           : refusal == ps::TableRefusal::kMalformed ? FailureKind::kDamaged
                                                                     : FailureKind::kInvalid;
  const std::string why(reinterpret_cast<const char*>(answer.body.data()), answer.body.size());
  return Failure{kind, Concat(NameOf(server), ": ", why)};
}

Result<void> ServedTables::Run(const Make& make, const Take& take) {
  const int64_t deadline_ns = NowNs() + kPatience.nanoseconds();
  for (;;) {
    bool is_over = true;
    for (size_t i = 0; i < links_.size(); ++i) {
      while (!is_done_[i]) {
        ServerLink& link = links_[i];
        const auto answer = link.Go(NowNs(), texts_);
        Result<void> taken;
        if (answer) {
          taken = answer->head.op == ps::TableOp::kRefused ? Refused(i, *answer) : take(i, *answer);
          is_done_[i] = true;
        } else if (link.IsReady(texts_.size())) {
          Result<Request> request = make(i);
          if (request.ok() && request->head.op == ps::TableOp::kHello) {
            is_done_[i] = true;  // its tables are open, and nothing else is wanted
          } else if (request.ok()) {
            link.Send(request->head, request->body);
          } else {
            taken = request.failure();
          }
        } else {
          break;
        }
        if (!taken.ok()) {
          call_.clear();
          return taken;
        }
      }
      is_over = is_over && is_done_[i];
    }
    Result<void> noted = NoteWaits(NowNs());
    if (!noted.ok()) {
      call_.clear();
      return noted;
    }
    if (is_over) {
      call_.clear();
      return {};
    }
    RETURN_IF_ERROR(Wait(deadline_ns));
  }
}

Result<void> ServedTables::Wait(int64_t deadline_ns) {
  const Failure again{FailureKind::kBusy, "a table server has not answered yet"};
  const int64_t now = NowNs();
  if (now >= deadline_ns) return again;
  int64_t until = deadline_ns;
  std::vector<pollfd> polled;
  for (size_t i = 0; i < links_.size(); ++i) {
    if (is_done_[i]) continue;
    const ServerLink& link = links_[i];
    if (link.fd() >= 0) {
      polled.push_back({.fd = link.fd(), .events = link.events(), .revents = 0});
    } else {
      until = std::min(until, std::max(now, link.retry_ns()));
    }
  }
  const auto milliseconds = static_cast<int>((until - now + 999'999) / 1'000'000);
  const int count = ::poll(polled.data(), polled.size(), milliseconds);
  is_interrupted_ = count < 0 && errno == EINTR;
  return is_interrupted_ ? Result<void>(again) : Result<void>();
}

Result<void> ServedTables::NoteWaits(int64_t now_ns) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (is_done_[i]) {
      waits_.Answered(i, now_ns);
    } else {
      const std::string why = links_[i].fd() >= 0 ? "it does not answer" : links_[i].why();
      RETURN_IF_ERROR(waits_.Owes(i, why, now_ns));
    }
  }
  return {};
}

// ---- the calls ----

Result<uint32_t> ServedTables::Open(const ps::TableSpec& spec) {
  const std::string text = ps::EncodeSpec(spec);
  const auto known = std::find_if(specs_.begin(), specs_.end(),
                                  [&](const ps::TableSpec& one) { return one.name == spec.name; });
  const auto number = static_cast<uint32_t>(known - specs_.begin());
  const bool is_new = Begin(CallName("open", text));
  if (known != specs_.end() && is_new) {
    call_.clear();
    if (*known == spec) return number;
    return Failure{FailureKind::kExists,
                   Concat("this process has opened the table ", spec.name,
                          " with other terms: ", texts_[number], "; now ", text)};
  }
  if (is_new) {
    if (const std::string rule = ps::BrokenRule(spec); !rule.empty()) {
      call_.clear();
      return Failure{FailureKind::kInvalid, rule};
    }
    specs_.push_back(spec);
    ps::TableSpec sent = spec;
    sent.budget_bytes = (spec.budget_bytes + links_.size() - 1) / links_.size();
    texts_.push_back(ps::EncodeSpec(sent));
  }
  const Result<void> opened = Run([](size_t) { return Request{}; },
                                  [](size_t, const ServerLink::Answer&) { return Result<void>(); });
  if (opened.ok()) return static_cast<uint32_t>(specs_.size() - 1);
  if (opened.failure().kind != FailureKind::kBusy) {
    specs_.pop_back();
    texts_.pop_back();
  }
  return opened.failure();
}

Result<void> ServedTables::Pull(std::span<const TableRead> reads, bool is_training) {
  std::string name = CallName("pull", is_training ? 1 : 0);
  for (const TableRead& read : reads) {
    Append(&name, " ", read.table, ":", MarkOf(read.keys));
  }
  if (Begin(std::move(name))) {
    for (size_t i = 0; i < reads.size(); ++i) Divide(i, reads[i].table, reads[i].keys, {});
    for (size_t server = 0; server < links_.size(); ++server) {
      is_done_[server] = std::all_of(shares_[server].begin(), shares_[server].end(),
                                     [](const Share& share) { return share.keys.empty(); });
    }
  }
  const auto make = [&](size_t server) -> Result<Request> {
    std::vector<ps::TableKeys> parts;
    for (size_t i = 0; i < reads.size(); ++i) {
      parts.push_back({links_[server].NumberOf(reads[i].table), shares_[server][i].keys});
    }
    ps::TableHead head{.op = ps::TableOp::kPull, .count = static_cast<uint32_t>(parts.size())};
    if (is_training) head.flags = ps::TableHead::kTraining;
    return Checked({head, ps::EncodeReads(parts)});
  };
  const auto take = [&](size_t server, const ServerLink::Answer& answer) -> Result<void> {
    size_t floats = 0;
    for (size_t i = 0; i < reads.size(); ++i) {
      floats += shares_[server][i].keys.size() * specs_[reads[i].table].dim;
    }
    if (answer.head.op != ps::TableOp::kRows || answer.body.size() != floats * sizeof(float)) {
      return Failure{FailureKind::kDamaged, Concat(NameOf(server), " sent other rows")};
    }
    return {};
  };
  RETURN_IF_ERROR(Run(make, take));
  // Only now, because the caller may have other memory when it repeats the call.
  for (size_t server = 0; server < links_.size(); ++server) {
    const std::byte* from = links_[server].body().data();
    for (size_t i = 0; i < reads.size(); ++i) {
      const size_t dim = specs_[reads[i].table].dim;
      for (const uint32_t place : shares_[server][i].places) {
        std::memcpy(reads[i].rows.data() + place * dim, from, dim * sizeof(float));
        from += dim * sizeof(float);
      }
    }
  }
  return {};
}

Result<void> ServedTables::Init(uint32_t table, std::span<const uint64_t> keys,
                                std::span<const float> values) {
  if (Begin(CallName("init", table, ":", MarkOf(keys)))) {
    Divide(0, table, keys, values);
    for (size_t server = 0; server < links_.size(); ++server) {
      is_done_[server] = shares_[server][0].keys.empty();
    }
  }
  const auto make = [&](size_t server) -> Result<Request> {
    const Share& share = shares_[server][0];
    return Checked({{.op = ps::TableOp::kInit,
                     .table = links_[server].NumberOf(table),
                     .count = static_cast<uint32_t>(share.keys.size())},
                    ps::EncodeRows(share.keys, share.values)});
  };
  RETURN_IF_ERROR(Run(make, [](size_t, const ServerLink::Answer&) { return Result<void>(); }));
  for (size_t server = 0; server < links_.size(); ++server) {
    const Share& share = shares_[server][0];
    if (share.keys.empty()) continue;
    links_[server].KeepInit(table, static_cast<uint32_t>(share.keys.size()),
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
  if (Begin(std::move(name))) {
    // One server does not see the values of the others, and a batch is refused as a whole.
    for (const ps::TableGradient& one : gradients) {
      std::string why = ps::WhyNotFinite(specs_[one.table], one);
      if (why.empty()) continue;
      call_.clear();
      return PushOutcome{.answer = ps::PushAnswer::kNotFinite, .why = std::move(why)};
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      Divide(i, gradients[i].table, gradients[i].keys, gradients[i].values);
    }
  }
  ps::PushTag sent = tag;
  sent.set = ps::SetOfJob(job_, tag.set);
  const auto make = [&](size_t server) -> Result<Request> {
    std::vector<ps::SentGradient> parts;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const Share& share = shares_[server][i];
      const uint32_t table = gradients[i].table;
      parts.push_back(
          {{links_[server].NumberOf(table), share.keys, share.values}, specs_[table].dim});
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
    if (is_refusal && !std::exchange(has_outcome_, true)) {
      outcome_ = {told, Concat(NameOf(server), ": ",
                               std::string_view(reinterpret_cast<const char*>(answer.body.data()),
                                                answer.body.size()))};
    } else if (told == ps::PushAnswer::kApplied && !has_outcome_) {
      outcome_.answer = told;
    }
    return {};
  };
  RETURN_IF_ERROR(Run(make, take));
  return outcome_;
}

Result<std::vector<TableView>> ServedTables::Counts() {
  Begin(CallName("counts"));
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
  RETURN_IF_ERROR(Run(make, take));
  std::vector<TableView> views;
  for (const ps::TableSpec& spec : specs_) views.push_back({spec, counts_[spec.name]});
  return views;
}

Result<void> ServedTables::RunAt(size_t server, std::string name, const Make& make,
                                 const Take& take) {
  Begin(std::move(name));
  for (size_t i = 0; i < links_.size(); ++i) is_done_[i] = i != server;
  for (;;) {
    is_interrupted_ = false;
    const Result<void> done = Run(make, take);
    if (done.ok()) return done;
    const bool goes_on = done.failure().kind == FailureKind::kBusy && !is_interrupted_;
    if (!goes_on) return done;
  }
}

Result<void> ServedTables::VisitRows(size_t server, const ServerLink::Answer& answer,
                                     ps::TableOp op, uint32_t table, const Visitor& visit) const {
  const auto rows = ps::DecodeRows(answer.head.count, specs_[table].dim, answer.body);
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
                              .table = links_[server].NumberOf(table),
                              .count = partition},
                     .body = {}};
    };
    const auto take = [&](size_t server, const ServerLink::Answer& answer) {
      return VisitRows(server, answer, ps::TableOp::kExported, table, visit);
    };
    RETURN_IF_ERROR(
        RunAt(partition % links_.size(), CallName("export", table, " ", partition), make, take));
  }
  return {};
}

Result<bool> ServedTables::Changed(uint32_t table, uint64_t number, const Visitor& visit) {
  std::string body(sizeof(number), '\0');
  std::memcpy(body.data(), &number, sizeof(number));
  bool is_known = true;
  for (size_t from = 0; from < links_.size(); ++from) {
    bool has_more = true;
    for (uint32_t page = 0; has_more; ++page) {
      const auto make = [&](size_t server) -> Result<Request> {
        return Request{.head = {.op = ps::TableOp::kChanged,
                                .table = links_[server].NumberOf(table),
                                .count = page},
                       .body = body};
      };
      const auto take = [&](size_t server, const ServerLink::Answer& answer) {
        has_more = (answer.head.flags & ps::TableHead::kMore) != 0;
        is_known = is_known && (answer.head.flags & ps::TableHead::kAll) == 0;
        return VisitRows(server, answer, ps::TableOp::kChanges, table, visit);
      };
      RETURN_IF_ERROR(
          RunAt(from, CallName("changed", table, " ", number, " ", page, " ", from), make, take));
    }
  }
  return is_known;
}

}  // namespace

Result<std::unique_ptr<Tables>> OpenServedTables(const TableServers& servers) {
  std::vector<std::string_view> sockets = SplitParts(servers.sockets, ",");
  if (sockets.empty()) return Failure{FailureKind::kInvalid, "there are no table servers"};
  return std::unique_ptr<Tables>(std::make_unique<ServedTables>(servers, std::move(sockets)));
}

}  // namespace paceline::client
